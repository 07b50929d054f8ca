"""Whether a split's records are still in Kafka, asked by Spark's own Kafka client before anything is written.

A read that fails half-way leaves the old rows, if the sink keeps its contract. To ask first says in one sentence what
Spark says in a stack trace of its tasks, and keeps a committed output away from any sink that does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import ClusterUnavailable, DataLoss, InvalidRequest
from airflow_kafka_offsets.offsets.plan.plan import PlannedPartition
from airflow_kafka_offsets.spark.batch import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_MS = 15_000


def require_records(spark: SparkSession, batch: Batch, options: dict[str, Any]) -> None:
    """Return if the cluster still has the split's ranges, of the same topics.

    A Spark Connect session has no Java client: there the source itself finds out (``failOnDataLoss``).

    :raises DataLoss: with a line for each partition.
    :raises ClusterUnavailable: the cluster does not answer.
    """
    if not batch.partitions or not hasattr(spark, "_jvm"):
        return
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types

    try:
        lines = _gone(spark, batch, options)
    except Py4JJavaError as error:
        raise ClusterUnavailable(
            "Spark cannot ask the Kafka cluster",
            _root_cause(error.java_exception),
            "Check the Kafka options that Spark is given: address, security.protocol, credentials, CA. They are the "
            "driver's own, not those of Airflow's connection.",
            retriable=True,
        ) from None
    if lines:
        raise DataLoss(
            lines,
            f"{batch.plan.batch} cannot be read any more. Nothing was written, and what its output holds stays as it is. "
            'If the batch is not committed: on_data_loss="advance" reads what is left, and kafka-offsets skip leaves it '
            "out.",
        )


def _gone(spark: SparkSession, batch: Batch, options: dict[str, Any]) -> list[str]:
    jvm: Any = spark._jvm
    admin_class = getattr(jvm.org.apache.kafka.clients.admin, "AdminClient", None)
    if admin_class is None or not hasattr(admin_class, "create"):
        raise InvalidRequest(
            [
                "Spark has no Kafka source: name its package, such as "
                f'packages="org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}" of SparkSubmitOperator.'
            ]
        )
    properties = jvm.java.util.Properties()
    properties.put("default.api.timeout.ms", str(_TIMEOUT_MS))
    properties.put("request.timeout.ms", str(_TIMEOUT_MS))
    for name, value in options.items():
        if name.startswith("kafka."):
            properties.put(name.removeprefix("kafka."), str(value))
    admin = admin_class.create(properties)
    try:
        another = _another_log(jvm, admin, batch)
        return another or _outside(jvm, admin, batch.partitions)
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(1))


def _another_log(jvm: Any, admin: Any, batch: Batch) -> list[str]:
    topics = sorted({p.topic_partition.topic for p in batch.partitions})
    names = jvm.java.util.ArrayList()
    for topic in topics:
        names.add(topic)
    lines = []
    for topic, future in dict(admin.describeTopics(names).topicNameValues()).items():
        planned = batch.plan.topic_ids.get(topic)
        found = str(future.get().topicId())
        if planned is not None and found != planned:
            lines.append(f"{topic}: its id is {found}, the plan was made for {planned}")
    return lines


def _outside(jvm: Any, admin: Any, partitions: list[PlannedPartition]) -> list[str]:
    kafka = jvm.org.apache.kafka
    spec = kafka.clients.admin.OffsetSpec
    earliest, latest = jvm.java.util.HashMap(), jvm.java.util.HashMap()
    keys = {}
    for p in partitions:
        keys[p] = kafka.common.TopicPartition(p.topic_partition.topic, p.topic_partition.partition)
        earliest.put(keys[p], spec.earliest())
        latest.put(keys[p], spec.latest())
    starts, ends = admin.listOffsets(earliest), admin.listOffsets(latest)
    lines = []
    for p, key in keys.items():
        start, end = starts.partitionResult(key).get().offset(), ends.partitionResult(key).get().offset()
        if start > p.start_offset:
            gone = min(start, p.end_offset) - p.start_offset
            lines.append(
                f"{p.topic_partition}: start offset {p.start_offset} is below log start offset {start} ({gone} offsets "
                "are gone)"
            )
        elif end < p.end_offset:
            lines.append(f"{p.topic_partition}: end offset {p.end_offset} is beyond the end of the log, {end}")
    return lines


def _root_cause(error: Any) -> str:
    while error.getCause() is not None:
        error = error.getCause()
    return str(error.toString())
