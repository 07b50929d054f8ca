"""A DataFrame of Spark's Kafka source over exactly one split's ranges."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import InvalidRequest, refuse
from airflow_kafka_offsets.log.read_reports import begin, require_current
from airflow_kafka_offsets.plan.plan import PlannedPartition
from airflow_kafka_offsets.plan.plan_json import spark_options
from airflow_kafka_offsets.spark.client_properties import (
    SETTING,
    SOURCE_PREFIX,
    client_options,
    keep_secrets_out_of_the_log,
    settings_of,
)
from airflow_kafka_offsets.spark.driver_jvm import jvm_of
from airflow_kafka_offsets.spark.job_batch import Batch
from airflow_kafka_offsets.spark.kafka_check import has_compacted_topic, require_records, require_same_topics

log = logging.getLogger(__name__)

BOOTSTRAP_SERVERS = "kafka.bootstrap.servers"
ISOLATION_LEVEL = "kafka.isolation.level"
_DECIDED_BY_THE_PLAN = {
    name.lower()
    for name in (
        "assign subscribe subscribePattern startingOffsets endingOffsets startingTimestamp endingTimestamp "
        f"startingOffsetsByTimestamp endingOffsetsByTimestamp failOnDataLoss {ISOLATION_LEVEL}"
    ).split()
}
MIN_TASKS, MOST_OF_A_TASK = "minPartitions", "maxRecordsPerPartition"
FEWEST, MOST = 100_000, 1_000_000
"""Records of one task: a range of no more than ``FEWEST`` is never cut, one of more than ``MOST`` always."""
FETCH_WAIT, FETCH_BYTES = "kafka.fetch.max.wait.ms", "kafka.fetch.min.bytes"
FETCHES = {FETCH_WAIT: "10", "kafka.max.poll.records": "10000"}
KAFKA_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def read_batch(spark: SparkSession, batch: Batch, **options: Any) -> DataFrame:
    """The records of this split; the frame may be used several times.

    The attempt is put on record first. From then on a commit of this batch needs the report of this attempt, or of a
    later one: half of the output may be overwritten.

    The plan holds no connection. The source's options come, the first that has one, from ``options``; from Spark
    settings that begin with ``spark.kafka_offsets.source.``, such as ``spark.kafka_offsets.source.minPartitions``; from
    the client's settings that ``SparkSubmitPlanOperator`` hands over, or that lie where the driver runs
    (:mod:`~airflow_kafka_offsets.spark.client_properties`); the bootstrap servers, last, from the job's arguments.

    Without ``minPartitions`` and ``maxRecordsPerPartition`` the plan decides how many tasks there are: one a partition,
    and more where a partition has more records than an even share of the cores (:func:`records_of_a_task`).

    :param spark: the session of the job.
    :param batch: of :func:`planned_batch`.
    :param options: further options of the source, such as ``minPartitions`` or ``includeHeaders``.
    :raises InvalidRequest: no bootstrap servers are known, an option would change what is read, or Spark has no Kafka
        source.
    :raises ClusterUnavailable: the cluster does not answer, or does not let this client in; nothing was begun.
    :raises NotAuthorized: the client's principal may not read one of the topics; nothing was begun.
    :raises PlanReplaced: the batch was planned anew; nothing was begun.
    :raises DataLoss: records of the plan are gone from Kafka; nothing was begun, and the output stays as it is.
    :raises LateAttempt: another job has begun the same split at the same moment; nothing was written.
    """
    keep_secrets_out_of_the_log(spark)
    given = _given(spark, batch, options)
    all_options = _source_options(spark, batch, batch.partitions, given)
    with ThreadPoolExecutor(1) as beside:
        records_are_there = beside.submit(require_records, spark, batch, all_options)
        frame = _frame(spark, batch.partitions, all_options)  # lazy: it refuses wrong options, and asks Kafka nothing
        names = batch.store.list(batch.folder)
        require_current(batch.store, batch.plan_object, batch.plan, names)
        records_are_there.result()
    attempt = begin(batch.store, batch.plan_object, batch.plan, batch.split, batch.output, names, batch.set_aside)
    attempt.look()
    batch._attempt = attempt
    batch._frames.append(frame)
    batch._read_topic = partial(_of_topic, spark, batch, given)
    batch._same_topics = partial(require_same_topics, spark, batch, all_options)
    batch._is_compacted = partial(has_compacted_topic, spark, batch, all_options)
    log.info(
        "%s: up to %d records of %d partitions",
        attempt,
        batch.size,
        len(batch.partitions),
    )
    return frame


def _of_topic(spark: SparkSession, batch: Batch, given: Mapping[str, Any], topic: str) -> DataFrame:
    partitions = [p for p in batch.partitions if p.topic_partition.topic == topic]
    return _frame(spark, partitions, _source_options(spark, batch, partitions, given))


def _frame(spark: SparkSession, partitions: Sequence[PlannedPartition], options: dict[str, Any]) -> DataFrame:
    if not partitions:
        headers = any(name.lower() == "includeheaders" and str(options[name]).lower() == "true" for name in options)
        return no_records_of_kafka(spark, headers=headers)
    try:
        # The source's second version would be quicker, but Spark shows its options in plans, and secrets with them.
        return spark.read.format("kafka").options(**options).load()
    except AnalysisException as error:
        if "Failed to find" not in str(error):
            raise
    raise InvalidRequest(
        [
            "Spark has no Kafka source: name its package, of Spark's own version and Scala's, such as "
            f'packages="org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}" of SparkSubmitOperator.'
        ]
    )


def no_records_of_kafka(spark: SparkSession, *, headers: bool = False) -> DataFrame:
    """No record, with the columns of Spark's Kafka source."""
    return spark.createDataFrame([], KAFKA_COLUMNS + _HEADERS * headers)


def _given(spark: SparkSession, batch: Batch, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not the plan's to say.

    :raises InvalidRequest: one of them is, or no cluster is named.
    """
    given: dict[str, Any] = {}
    if batch.bootstrap_servers:
        given[BOOTSTRAP_SERVERS] = batch.bootstrap_servers
    settings = settings_of(spark)
    if where := settings.get(SETTING):
        given |= client_options(spark, where)
    given |= {
        name.removeprefix(SOURCE_PREFIX): value for name, value in settings.items() if name.startswith(SOURCE_PREFIX)
    }
    given |= options
    refused = sorted(name for name in given if name.lower() in _DECIDED_BY_THE_PLAN)
    refuse(
        [
            f"Option {name} would change which records are read; that is the plan's to say. Leave it out."
            for name in refused
        ]
    )
    if not given.get(BOOTSTRAP_SERVERS):
        raise InvalidRequest(
            [
                f"No Kafka cluster is named. Set the Spark conf {SOURCE_PREFIX}{BOOTSTRAP_SERVERS}, or call "
                f'read_batch(spark, batch, **{{"{BOOTSTRAP_SERVERS}": "host:9092"}}).'
            ]
        )
    return given


def _source_options(
    spark: SparkSession, batch: Batch, partitions: Sequence[PlannedPartition], given: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        **_fetches(given),
        **_tasks(spark, partitions, given),
        **given,
        **spark_options(partitions),
        ISOLATION_LEVEL: batch.plan.asked.isolation_level,
        "failOnDataLoss": "true",
    }


def _fetches(given: Mapping[str, Any]) -> dict[str, Any]:
    """How records come, unless the job says so itself; Kafka's own values are for consumers that never end.

    A fetch at the end of a log waits for more: half a second by default, and Spark's task waits behind it. Of a
    thousand partitions with few records each, that is nearly all of the time. A batch has nothing to wait for.

    A poll hands over 500 of the records that a fetch has brought, and each poll costs: twice the time of the read.
    """
    names = {name.lower() for name in given}
    taken = names | ({FETCH_WAIT} if FETCH_BYTES in names else set())
    return {name: value for name, value in FETCHES.items() if name not in taken}


def _tasks(spark: SparkSession, partitions: Sequence[PlannedPartition], given: Mapping[str, Any]) -> dict[str, Any]:
    """Cut large ranges into several tasks, unless the job says itself how."""
    sizes = [p.range.size for p in partitions]
    if not sizes or {name.lower() for name in given} & {MIN_TASKS.lower(), MOST_OF_A_TASK.lower()}:
        return {}
    # Spark Connect has no context, and does not know how many cores there are.
    cores = 1 if jvm_of(spark) is None else spark.sparkContext.defaultParallelism
    most = records_of_a_task(sizes, cores)
    if max(sizes) <= most:
        return {}
    if int(spark.version.partition(".")[0]) >= 4:
        return {MOST_OF_A_TASK: most}
    return {MIN_TASKS: sum(-(-size // most) for size in sizes)}


def records_of_a_task(sizes: Sequence[int], cores: int) -> int:
    """The most that one task should read: an even share of the cores, within ``FEWEST`` and ``MOST``.

    :param sizes: of the ranges, in records.
    """
    return min(max(-(-sum(sizes) // cores), FEWEST), MOST)
