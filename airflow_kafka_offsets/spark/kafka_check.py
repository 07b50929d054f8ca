"""Whether a split's records are still in Kafka, asked by Spark's own Kafka client before anything is written.

A read that fails half-way leaves the old rows, if the sink keeps its contract. To ask first says in one sentence what
Spark says in a stack trace of its tasks, and keeps a committed output away from any sink that does not.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ClusterUnavailable, DataLoss, NotAuthorized
from airflow_kafka_offsets.plan.records_now import RecordsNow, other_logs
from airflow_kafka_offsets.refusal_reasons import mechanism_of, misfit, refusal_of_token
from airflow_kafka_offsets.spark.driver_jvm import jvm_of
from airflow_kafka_offsets.spark.job_batch import Batch

log = logging.getLogger(__name__)

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_TIMEOUT_MS = 10_000
_LOOK_S = 2.0  # for each of two looks at the listener, after that
_ADMIN = "org.apache.kafka.clients.admin.AdminClient"
_CONSUMER = "org.apache.kafka.clients.consumer.KafkaConsumer"
_UPDATER = "org.apache.spark.kafka010.KafkaConfigUpdater"
_READER = "org.apache.spark.sql.kafka010.JsonUtils"
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
    if lines := _asked(spark, batch, options, _gone):
        raise DataLoss(
            lines,
            f"{batch.plan.batch} cannot be read any more. Nothing was written: its output stays as it is. If the batch "
            'is not committed: policies={"data_loss": "advance"} reads what is left, and kafka-offsets skip leaves it '
            "out.",
        )


def require_same_topics(spark: SparkSession, batch: Batch, options: Mapping[str, Any]) -> bool:
    """Return if no topic was made anew since the plan. Spark knows no topic ids: it would have read the new log.

    A topic that is deleted and not made anew was read while it was there.

    :returns: whether that is known: ``False`` where Python sees no Kafka client of the driver's.
    :raises DataLoss: with a line for each topic.
    :raises ClusterUnavailable: as of :func:`require_records`.
    :raises NotAuthorized: as of :func:`require_records`.
    """
    lines = _asked(spark, batch, options, _recreated)
    if lines:
        raise DataLoss(
            lines,
            f"What Spark has read of {batch.plan.batch} may be of another log. It is not reported, so nothing is "
            'committed, and the next plan overwrites it. policies={"topic_recreated": "earliest"} goes on with the new '
            "topic.",
        )
    return lines is not None


def has_compacted_topic(spark: SparkSession, batch: Batch, options: Mapping[str, Any]) -> bool:
    """Whether a topic of the split is compacted. Where Python sees no Kafka client of the driver's: no.

    :raises ClusterUnavailable: as of :func:`require_records`.
    """
    return bool(_asked(spark, batch, options, _compacted))


def _asked(
    spark: SparkSession,
    batch: Batch,
    options: Mapping[str, Any],
    question: Callable[[_SparkKafka, Batch], list[str]],
) -> list[str] | None:
    """The answer; ``None`` where nobody can be asked."""
    if not batch.partitions:
        return []
    kafka = _SparkKafka(jvm_of(spark), options)
    if not kafka.is_seen:
        log.warning("Spark's Kafka client cannot be asked from here whether %s is still there.", batch.plan.batch)
        return None
    from py4j.protocol import Py4JJavaError

    try:
        return question(kafka, batch)
    except Py4JJavaError as error:
        raise _refused(kafka, error.java_exception) from None


@dataclass(frozen=True, slots=True)
class _SparkKafka:
    """Spark's own Kafka client.

    :ivar jvm: Py4J's view of the driver's JVM; ``None`` where there is none.
    :ivar options: of Spark's Kafka source.
    """

    jvm: Any
    options: Mapping[str, Any]

    @property
    def is_seen(self) -> bool:
        return self.jvm is not None and None not in [
            self.class_of(name) for name in (_ADMIN, _CONSUMER, _UPDATER, _READER)
        ]

    @property
    def address(self) -> str:
        settings = self.settings
        return f"at {settings['bootstrap.servers']} by {settings.get('security.protocol', 'PLAINTEXT')}"

    @property
    def settings(self) -> dict[str, str]:
        """Of the client, with secrets. A token that Spark has fetched itself is in them, and in no option."""
        return {name: str(value) for name, value in self.config().items()}

    def class_of(self, name: str) -> Any:
        """``None`` where it is not seen."""
        from py4j.java_gateway import JavaClass

        found = self.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found if isinstance(found, JavaClass) else None  # a package of that name: Py4J takes anything for one

    def config(self) -> Any:
        """What Spark's source gives to its own client: the settings, and Spark's delegation token."""
        given = {n.removeprefix("kafka."): str(v) for n, v in self.options.items() if n.startswith("kafka.")}
        request_ms = int(given.get("request.timeout.ms", _TIMEOUT_MS))
        settings = {
            "default.api.timeout.ms": str(max(_TIMEOUT_MS, request_ms)),  # Kafka refuses one that is below the other
            "request.timeout.ms": str(request_ms),
            **given,
            "isolation.level": "read_uncommitted",  # the end of the log, whatever is read of it
            "allow.auto.create.topics": "false",
            "enable.auto.commit": "false",
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
        }
        as_scala = self.jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(settings)
        updater = self.jvm.org.apache.spark.kafka010.KafkaConfigUpdater("source", as_scala)
        return updater.setAuthenticationConfigIfNeeded().build()

    @contextmanager
    def opened(self, make: Callable[[Any], Any]) -> Iterator[Any]:
        """A client of Kafka's."""
        client = make(self.config())
        try:
            yield client
        finally:
            client.close(self.jvm.java.time.Duration.ofSeconds(1))

    def token(self) -> str | None:
        """What the client logs in with: the class that fetches its tokens is asked for one more."""
        from py4j.protocol import Py4JJavaError

        handler_class = self.class_of(str(self.options.get("kafka.sasl.login.callback.handler.class")))
        if handler_class is None:
            return None
        security = self.jvm.org.apache.kafka.common.security
        callback_class = self.jvm.java.lang.Class.forName("javax.security.auth.callback.Callback")
        try:
            config = self.jvm.org.apache.kafka.clients.admin.AdminClientConfig(self.config()).values()
            handler, wanted = handler_class(), security.oauthbearer.OAuthBearerTokenCallback()
            login = security.JaasContext.loadClientContext(config).configurationEntries()
            handler.configure(config, "OAUTHBEARER", login)
            callbacks = self.jvm.java.lang.reflect.Array.newInstance(callback_class, 1)
            callbacks[0] = wanted
            handler.handle(callbacks)
            handler.close()
        except Py4JJavaError:
            return None
        return wanted.token() and str(wanted.token().value())


def _refused(kafka: _SparkKafka, error: Any) -> ClusterUnavailable:
    """Why, in the client's words: what each cause says that its own cause does not say."""
    causes = _causes(error)
    lines = [(cause.getMessage() or cause.toString()).splitlines()[0] for cause in causes]  # some hold a whole trace
    outer = [line for line, inner in pairwise(lines) if inner not in line]
    reason = ": ".join([*outer, lines[-1]])
    if "retrieving token from callback handler" in reason:  # OAuthBearerLoginModule logs the cause, and drops it
        reason += (
            "; the driver's log has its cause above this. It may be the token server's address, the token server's "
            "certificate authority (https.ca.location), or the client's secret"
        )
    kinds = {cause.getClass().getSimpleName() for cause in causes}
    is_known = any(kind.endswith("AuthenticationException") or kind == "LoginException" for kind in kinds)
    unfit = None if is_known else misfit(kafka.settings, certificate=False, timeout_s=_LOOK_S)
    where = f"Spark cannot ask the Kafka cluster {kafka.address}"
    if not unfit and "LoginException" not in kinds and mechanism_of(kafka.settings) == "OAUTHBEARER":
        refused = refusal_of_token(where, reason, kafka.token())
        if refused is not None:
            return refused
    return ClusterUnavailable(
        where,
        f"{unfit} ({reason})" if unfit else reason,
        "Check the Kafka settings that Spark was given: address, security.protocol, credentials and CA. They are those "
        "of the Kafka connection, or of what kafka= names.",
        retriable=not is_known and not unfit,
    )


def _gone(kafka: _SparkKafka, batch: Batch) -> list[str]:
    if lines := other_logs(_topics(batch), _ids_planned(batch), _ids_now(kafka, batch)):
        return lines
    tps = [p.topic_partition for p in batch.partitions]
    by_name = {f"{tp.topic}-{tp.partition}": tp for tp in tps}  # as Java writes it
    # Spark's own reader of its option: to make a partition of Java's takes a call for each, and seconds of many.
    offsets = kafka.jvm.org.apache.spark.sql.kafka010.JsonUtils.partitionOffsets(kafka.options["startingOffsets"])
    asked = kafka.jvm.scala.collection.JavaConverters.mapAsJavaMap(offsets).keySet()
    # A consumer rather than the admin client: it takes a list and gives numbers, in few calls to Java.
    with kafka.opened(kafka.class_of(_CONSUMER)) as consumer:
        answers = map(_offsets, (consumer.beginningOffsets(asked), consumer.endOffsets(asked)))
        starts, ends = ({by_name[name]: offset for name, offset in found.items()} for found in answers)
    now = RecordsNow(log_starts=starts, ends=ends)
    return [*now.deleted(batch.partitions), *now.replaced(batch.partitions)]


def _compacted(kafka: _SparkKafka, batch: Batch) -> list[str]:
    """The topics whose ``cleanup.policy`` says so. Who may not ask is not answered: then none is known to be."""
    from py4j.protocol import Py4JJavaError

    resource = kafka.jvm.org.apache.kafka.common.config
    of_topic = getattr(resource, "ConfigResource$Type").TOPIC
    asked = {topic: resource.ConfigResource(of_topic, topic) for topic in _topics(batch)}
    found = []
    with kafka.opened(kafka.class_of(_ADMIN).create) as admin:
        answers = admin.describeConfigs(list(asked.values())).values()
        for topic, name in asked.items():
            try:
                policy = answers.get(name).get().get("cleanup.policy").value()
            except Py4JJavaError as error:
                if "AuthorizationException" not in _causes(error.java_exception)[-1].toString():
                    raise
                continue
            if "compact" in policy:
                found.append(topic)
    return found


def _recreated(kafka: _SparkKafka, batch: Batch) -> list[str]:
    now = _ids_now(kafka, batch)
    return other_logs(now, _ids_planned(batch), now)


def _topics(batch: Batch) -> list[str]:
    return sorted({p.topic_partition.topic for p in batch.partitions})


def _ids_planned(batch: Batch) -> dict[str, str | None]:
    """As Java writes them: librdkafka writes an id in plain base 64, Kafka itself in the one for URLs."""
    ids = batch.plan.found.topic_ids
    return {topic: found and found.translate(str.maketrans("+/", "-_")) for topic, found in ids.items()}


def _ids_now(kafka: _SparkKafka, batch: Batch) -> dict[str, str]:
    """Of the topics that are there.

    :raises NotAuthorized: a topic may not be read. Spark's tasks would find that when the attempt is begun.
    """
    from py4j.protocol import Py4JJavaError

    with_rights = kafka.jvm.org.apache.kafka.clients.admin.DescribeTopicsOptions().includeAuthorizedOperations(True)
    ids: dict[str, str] = {}
    denied = []
    with kafka.opened(kafka.class_of(_ADMIN).create) as admin:
        futures = admin.describeTopics(_topics(batch), with_rights).topicNameValues()
        for topic in _topics(batch):
            try:
                description = futures.get(topic).get()
            except Py4JJavaError as error:
                cause = _causes(error.java_exception)[-1].toString()
                if "TopicAuthorizationException" in cause:
                    denied.append(topic)
                elif "UnknownTopicOrPartition" not in cause:
                    raise
                continue
            operations = description.authorizedOperations()  # none where the broker is too old
            if operations is not None and "READ" not in operations.toString():
                denied.append(topic)
            ids[topic] = description.topicId().toString()
    if denied:
        raise NotAuthorized(
            f"Spark may not read {', '.join(denied)} {kafka.address}",
            f"the topic's ACLs do not give Read to {principal_of_spark(kafka.jvm, kafka.settings)}",
            "Give it Read on each topic; it needs nothing on the group. Or name another Kafka connection by kafka=.",
        )
    return ids


def _offsets(by_partition: Any) -> dict[str, int]:
    """A map of Java's as its text, ``{orders-0=120, orders-1=80}``: to ask it for each partition takes seconds."""
    entries = (entry.rpartition("=") for entry in by_partition.toString().strip("{}").split(", "))
    return {name: int(offset) for name, _, offset in entries}


def _causes(error: Any) -> list[Any]:
    found = [error]
    while found[-1].getCause() is not None:
        found.append(found[-1].getCause())
    return found


# ── whom the brokers take Spark for ───────────────────────────────────────────────────────────────────────────────────


def principal_of_spark(jvm: Any, settings: Mapping[str, str]) -> str:
    """``Spark's principal, User:spark``; ``Spark's principal`` where the settings do not say.

    No secret of these settings is returned: a user name, a client id, or a certificate's subject. The brokers may map
    names (``ssl.principal.mapping.rules``, ``principal.builder.class``), which no client can see.

    :param jvm: Py4J's view of the driver's JVM, which reads a certificate: Python may have nothing there that can.
    :param settings: of Spark's Kafka client: ``sasl.jaas.config`` and the like.
    """
    protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    if protocol.startswith("SASL"):
        line = str(settings.get("sasl.jaas.config", ""))
        if settings.get("sasl.mechanism") == "OAUTHBEARER":  # brokers take the token's `sub`, which we do not see
            client = _of_jaas("clientId", line)
            return f"Spark's principal (OAUTHBEARER, client id {client})" if client else "Spark's principal"
        if settings.get("sasl.mechanism") == "GSSAPI":  # brokers shorten the name by their own rules
            name = _of_jaas("principal", line)
            return f"Spark's principal (Kerberos, {name})" if name else "Spark's principal"
        name = _of_jaas("username", line)
        if name and _of_jaas("tokenauth", line) == "true":  # brokers take its owner, whom only they know
            return f"Spark's principal, the owner of delegation token {name}"
    else:
        name = _of_certificate(jvm, settings) if protocol == "SSL" else "ANONYMOUS"
    return f"Spark's principal, User:{name}" if name else "Spark's principal"


def _of_jaas(option: str, line: str) -> str | None:
    """An option's value, which may be written with quotes: ``java.io.StreamTokenizer``."""
    found = re.search(rf"""(?:^|\s){option}\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", line)
    return (found and re.sub(r"\\(.)", r"\1", next(filter(None, found.groups()), ""))) or None


def _of_certificate(jvm: Any, settings: Mapping[str, str]) -> str | None:
    """The subject of the first certificate (RFC 2253). A PKCS12 or JKS file is not opened for it."""
    from py4j.protocol import Py4JJavaError

    text = str(settings.get("ssl.keystore.certificate.chain", ""))
    location = settings.get("ssl.keystore.location")
    if not text and not location:
        return "ANONYMOUS"
    try:
        if not text and str(settings.get("ssl.keystore.type", "")).upper() == "PEM":
            text = Path(str(location)).read_text()
        found = _CERTIFICATE.search(text)
        if found is None:
            return None
        stream = jvm.java.io.ByteArrayInputStream(found[0].encode())
        certificate = jvm.java.security.cert.CertificateFactory.getInstance("X.509").generateCertificate(stream)
        return str(certificate.getSubjectX500Principal().getName())
    except (OSError, ValueError, Py4JJavaError):
        return None
