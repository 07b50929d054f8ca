"""Whether a split's records are still in Kafka, asked by Spark's own Kafka client before anything is written.

A read that fails half-way leaves the old rows, if the sink keeps its contract. To ask first says in one sentence what
Spark says in a stack trace of its tasks, and keeps a committed output away from any sink that does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.claims import refusal_of_token
from airflow_kafka_offsets.errors import ClusterUnavailable, DataLoss, NotAuthorized
from airflow_kafka_offsets.listener import mechanism_of, misfit
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.plan.plan import PlannedPartition
from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.principal import principal_of_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_TIMEOUT_MS = 10_000
_LOOK_S = 2.0  # for each of two looks at the listener, after that
_ADMIN = "org.apache.kafka.clients.admin.AdminClient"
_CONFIG = "org.apache.kafka.clients.admin.AdminClientConfig"
_CONSUMER = "org.apache.kafka.clients.consumer.KafkaConsumer"
_UPDATER = "org.apache.spark.kafka010.KafkaConfigUpdater"
_DESCRIBE = "org.apache.kafka.clients.admin.DescribeTopicsOptions"
_JAAS = "org.apache.kafka.common.security.JaasContext"
_TOKEN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback"
_PARTITION = "org.apache.kafka.common.TopicPartition"
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def require_records(spark: SparkSession, batch: Batch, options: Mapping[str, Any]) -> None:
    """Return if the cluster still has the split's ranges, of the same topics.

    Where Python sees no Kafka client of the driver's (Spark Connect has no JVM here, and some vendors put the client
    under another name), the source itself finds out: ``failOnDataLoss``.

    :param options: of Spark's Kafka source.
    :raises DataLoss: with a line for each partition.
    :raises ClusterUnavailable: the cluster does not answer within 10 s, or does not let this client in.
    :raises NotAuthorized: a topic may not be read.
    """
    lines = _asked(spark, batch, options, _gone)
    if lines:
        raise DataLoss(
            lines,
            f"{batch.plan.batch} cannot be read any more. Nothing was written: its output stays as it is. If the batch "
            'is not committed: on_data_loss="advance" reads what is left, and kafka-offsets skip leaves it out.',
        )


def require_same_topics(spark: SparkSession, batch: Batch, options: Mapping[str, Any]) -> None:
    """Return if no topic was made anew since the plan. Spark knows no topic ids: it would have read the new log.

    A topic that is deleted and not made anew was read while it was there.

    :raises DataLoss: with a line for each topic.
    :raises ClusterUnavailable: as of :func:`require_records`.
    :raises NotAuthorized: as of :func:`require_records`.
    """
    lines = _asked(spark, batch, options, _recreated)
    if lines:
        raise DataLoss(
            lines,
            f"What Spark has read of {batch.plan.batch} may be of another log. It is not reported, so nothing is "
            'committed, and the next plan overwrites it. on_recreated="earliest" goes on with the new topic.',
        )


def _asked(
    spark: SparkSession,
    batch: Batch,
    options: Mapping[str, Any],
    question: Callable[[SparkSession, Mapping[str, Any], Batch, Mapping[str, Any]], list[str]],
) -> list[str]:
    if not batch.partitions:
        return []
    java = _java_classes(spark)
    if java is None:
        log.warning("Spark's Kafka client cannot be asked from here whether %s is still there.", batch.plan.batch)
        return []
    from py4j.protocol import Py4JJavaError

    try:
        return question(spark, java, batch, options)
    except Py4JJavaError as error:
        raise _refused(spark, java, error.java_exception, options) from None


def _refused(
    spark: SparkSession, java: Mapping[str, Any], error: Any, options: Mapping[str, Any]
) -> ClusterUnavailable:
    """Why, in the client's words: what each cause says that its own cause does not say."""
    causes = _causes(error)
    lines = [(cause.getMessage() or cause.toString()).splitlines()[0] for cause in causes]  # some hold a whole trace
    last = lines.pop()
    reason = ": ".join(
        [*(line for line, inner in zip(lines, [*lines[1:], last], strict=True) if inner not in line), last]
    )
    if "retrieving token from callback handler" in reason:  # OAuthBearerLoginModule logs the cause, and drops it
        reason += (
            "; the driver's log has its cause above this. It may be the token server's address, the token server's "
            "certificate authority (https.ca.location), or the client's secret"
        )
    kinds = {cause.getClass().getSimpleName() for cause in causes}
    is_known = any(kind.endswith("AuthenticationException") or kind == "LoginException" for kind in kinds)
    settings = _java_settings(options)
    unfit = None if is_known else misfit(settings, certificate=False, timeout_s=_LOOK_S)
    where = f"Spark cannot ask the Kafka cluster {_address(options)}"
    if not unfit and "LoginException" not in kinds and mechanism_of(settings) == "OAUTHBEARER":
        refused = refusal_of_token(where, reason, _token(spark, java, options))
        if refused is not None:
            return refused
    return ClusterUnavailable(
        where,
        f"{unfit} ({reason})" if unfit else reason,
        "Check the Kafka settings that Spark was given: address, security.protocol, credentials and CA. They are those "
        "of the Kafka connection, or of what kafka= names.",
        retriable=not is_known and not unfit,
    )


def _token(spark: SparkSession, java: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
    """What the client logs in with: the class that fetches its tokens is asked for one more."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    names = (_CONFIG, _JAAS, _TOKEN, str(options.get("kafka.sasl.login.callback.handler.class")))
    admin_config, jaas, callback, handler_class = (_java_class(jvm, name) for name in names)
    if handler_class is None:
        return None
    try:
        config = admin_config(_client_config(jvm, java, options)).values()
        handler, wanted = handler_class(), callback()
        handler.configure(config, "OAUTHBEARER", jaas.loadClientContext(config).configurationEntries())
        gateway: Any = spark.sparkContext._gateway
        callbacks = gateway.new_array(jvm.javax.security.auth.callback.Callback, 1)
        callbacks[0] = wanted
        handler.handle(callbacks)
        handler.close()
    except Py4JJavaError:
        return None
    return wanted.token() and str(wanted.token().value())


def _address(options: Mapping[str, Any]) -> str:
    protocol = options.get("kafka.security.protocol", "PLAINTEXT")
    return f"at {options.get('kafka.bootstrap.servers')} by {protocol}"


def _java_classes(spark: SparkSession) -> dict[str, Any] | None:
    """The classes that are needed, by name; ``None`` where one of them is not seen."""
    if not hasattr(spark, "_jvm"):
        return None
    names = (_ADMIN, _CONSUMER, _UPDATER, _DESCRIBE, _PARTITION)
    found = {name: _java_class(spark._jvm, name) for name in names}
    return None if None in found.values() else found


def _java_class(jvm: Any, name: str) -> Any:
    """``None`` where it is not seen."""
    from py4j.java_gateway import JavaClass

    for part in name.split("."):
        jvm = getattr(jvm, part)
    return jvm if isinstance(jvm, JavaClass) else None  # a package of that name: Py4J takes anything for one


def _gone(spark: SparkSession, java: Mapping[str, Any], batch: Batch, options: Mapping[str, Any]) -> list[str]:
    recreated, absent = _another_log(spark, java, batch, options)
    if recreated or absent:
        return absent + recreated
    jvm: Any = spark._jvm
    consumer = java[_CONSUMER](_client_config(jvm, java, options))
    try:
        return _outside(jvm, java, consumer, batch.partitions)
    finally:
        consumer.close(jvm.java.time.Duration.ofSeconds(1))


def _recreated(spark: SparkSession, java: Mapping[str, Any], batch: Batch, options: Mapping[str, Any]) -> list[str]:
    return _another_log(spark, java, batch, options)[0]


def _client_config(jvm: Any, java: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """What Spark's source gives to its own client: the options that begin with ``kafka.``, and its delegation token."""
    given = _java_settings(options)
    request_ms = int(given.get("request.timeout.ms", _TIMEOUT_MS))
    config = {
        "default.api.timeout.ms": str(max(_TIMEOUT_MS, request_ms)),  # Kafka refuses one that is below the other
        "request.timeout.ms": str(request_ms),
        **given,
        "isolation.level": "read_uncommitted",  # the end of the log, whatever is read of it
        "allow.auto.create.topics": "false",
        "enable.auto.commit": "false",
        "key.deserializer": _BYTES,
        "value.deserializer": _BYTES,
    }
    as_map = jvm.java.util.HashMap()
    for name, value in config.items():
        as_map.put(name, value)
    as_scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(as_map)
    return java[_UPDATER]("source", as_scala).setAuthenticationConfigIfNeeded().build()


def _java_settings(options: Mapping[str, Any]) -> dict[str, str]:
    return {name.removeprefix("kafka."): str(value) for name, value in options.items() if name.startswith("kafka.")}


def _another_log(
    spark: SparkSession, java: Mapping[str, Any], batch: Batch, options: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """A line for each topic that is another one than the plan was made for, and for each that is absent.

    :raises NotAuthorized: a topic may not be read. Spark's tasks would find that when the attempt is begun.
    """
    jvm: Any = spark._jvm
    admin = java[_ADMIN].create(_client_config(jvm, java, options))
    try:
        return _look_at_topics(jvm, java, admin, batch, options)
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(1))


def _look_at_topics(
    jvm: Any, java: Mapping[str, Any], admin: Any, batch: Batch, options: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    from py4j.protocol import Py4JJavaError

    topics = sorted({p.topic_partition.topic for p in batch.partitions})
    names = jvm.java.util.ArrayList()
    for topic in topics:
        names.add(topic)
    with_rights = java[_DESCRIBE]().includeAuthorizedOperations(True)
    futures = admin.describeTopics(names, with_rights).topicNameValues()
    recreated, absent, denied = [], [], []
    for topic in topics:
        planned = _as_java_writes_it(batch.plan.found.topic_ids.get(topic))
        try:
            description = futures.get(topic).get()
        except Py4JJavaError as error:
            cause = _causes(error.java_exception)[-1].toString()
            if "TopicAuthorizationException" in cause:
                denied.append(topic)
            elif "UnknownTopicOrPartition" in cause:
                absent.append(f"{topic}: it does not exist any more")
            else:
                raise
            continue
        operations = description.authorizedOperations()  # none where the broker is too old to tell
        if operations is not None and "READ" not in operations.toString():
            denied.append(topic)
        found = description.topicId().toString()
        if planned is not None and found != planned:
            recreated.append(f"{topic}: its id is {found}, the plan was made for {planned}")
    if denied:
        raise NotAuthorized(
            f"Spark may not read {', '.join(denied)} {_address(options)}",
            f"the topic's ACLs do not give Read to {principal_of_spark(jvm, options)}",
            "Give it Read on each topic; it needs nothing on the group. Or name another Kafka connection by kafka=.",
        )
    return recreated, absent


def _as_java_writes_it(topic_id: str | None) -> str | None:
    """librdkafka writes an id in plain base 64, Kafka itself in the one for URLs; every other id differs."""
    return topic_id and topic_id.translate(str.maketrans("+/", "-_"))


def _outside(jvm: Any, java: Mapping[str, Any], consumer: Any, partitions: list[PlannedPartition]) -> list[str]:
    """A consumer rather than the admin client: it takes a list and gives numbers, two calls to Java a partition."""
    asked = jvm.java.util.ArrayList()
    for p in partitions:
        asked.add(java[_PARTITION](p.topic_partition.topic, p.topic_partition.partition))
    starts, ends = _offsets(consumer.beginningOffsets(asked)), _offsets(consumer.endOffsets(asked))
    lines = []
    for p in partitions:
        start, end = starts[p.topic_partition], ends[p.topic_partition]
        if start > p.start_offset:
            gone = min(start, p.end_offset) - p.start_offset
            lines.append(
                f"{p.topic_partition}: start offset {p.start_offset} is below log start offset {start} ({gone} offsets "
                "are gone)"
            )
        elif end < p.end_offset:
            lines.append(f"{p.topic_partition}: end offset {p.end_offset} is beyond the end of the log, {end}")
    return lines


def _offsets(by_partition: Any) -> dict[TopicPartition, int]:
    """A map of Java's as its text, ``{orders-0=120, orders-1=80}``: to ask it for each partition takes seconds."""
    offsets = {}
    for entry in by_partition.toString().strip("{}").split(", "):
        name, _, offset = entry.rpartition("=")
        topic, _, partition = name.rpartition("-")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def _causes(error: Any) -> list[Any]:
    found = [error]
    while found[-1].getCause() is not None:
        found.append(found[-1].getCause())
    return found
