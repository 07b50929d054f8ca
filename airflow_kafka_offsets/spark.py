"""Inside the Spark job: a split of a frozen plan → DataFrame, and the report of what was written.

::

    job = plan_job()
    output = job.output_path("s3a://lake/orders")
    records = read_plan(spark, job)
    records.write.mode("overwrite").parquet(output)
    report_read(job, spark.read.parquet(output))

Into a table, :func:`write_options` makes the write one that may be repeated. All of this needs nothing but PySpark and
this package: neither Airflow nor a Kafka client is on a Spark cluster. What must stay true: an attempt is on record
before its first record is read; a report exists only for what was written; and making it never reads Kafka a second
time, where another answer could come back.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import InvalidRequest, LateAttempt
from airflow_kafka_offsets.offsets.assign import split_plan
from airflow_kafka_offsets.offsets.job import parse_job_arguments
from airflow_kafka_offsets.offsets.manifest import spark_options
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.output import Attempt, TableFormat, WriteMode, row_filter, table_options
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.verify import PartitionRead, Proof, ReadReport
from airflow_kafka_offsets.stores.objects import WorkStore, open_work_store, safe_name
from airflow_kafka_offsets.stores.reads import begin_read_unless_replaced, store_report, withdraw_late
from airflow_kafka_offsets.stores.runs import read_stored_plan, stored_plan_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

CONF_PREFIX = "spark.kafka_offsets."
BOOTSTRAP_SERVERS = "kafka.bootstrap.servers"
ISOLATION_LEVEL = "kafka.isolation.level"

# Each of these changes which records are read. Those of timestamps would silently win over the plan's offsets.
_DECIDED_BY_THE_PLAN = {
    name.lower()
    for name in (
        "assign subscribe subscribePattern startingOffsets endingOffsets startingTimestamp endingTimestamp "
        f"startingOffsetsByTimestamp endingOffsetsByTimestamp failOnDataLoss {ISOLATION_LEVEL}"
    ).split()
}

_SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


@dataclass(eq=False)
class PlanJob:
    """One split of one plan, and how far this job is with it.

    :ivar bootstrap_servers: the cluster that the plan was made on, if the job's arguments name it.
    :ivar generation: the number of the plan among those that the run has had, from 1.
    """

    plan: OffsetPlan
    split: int
    store: WorkStore
    bootstrap_servers: str | None = None
    generation: int = 1
    _output: str | None = field(default=None, init=False, repr=False)
    _attempt: int | None = field(default=None, init=False, repr=False)
    _source: DataFrame | None = field(default=None, init=False, repr=False)
    _owns_output: bool = field(default=False, init=False, repr=False)
    _may_be_skipped: bool = field(default=False, init=False, repr=False)
    _skips_late_writes: bool = field(default=False, init=False, repr=False)

    @property
    def partitions(self) -> list[PlannedPartition]:
        """What this split reads; empty for one without records, which still overwrites its output."""
        return split_plan(self.plan)[self.split]

    @property
    def run_id(self) -> str:
        """The Airflow run's id; of a plan that was made without a run, the plan's id."""
        return self.plan.run.run_id if self.plan.run else self.plan.plan_id

    def output_path(self, base: str) -> str:
        """``<base>/run=<run id>/split=<k>``: this split's own folder, which a repeat overwrites and no other split.

        Where Hadoop could not have the run id in a path (``:``) it is percent-encoded; read from ``base``, Spark's
        column ``run`` is the run id itself. Two resolve tasks of one DAG, or two mapped instances of one, need two
        bases. Call this before :func:`read_plan`, so that the attempt is on record with the place that it overwrites.
        """
        self._output = f"{base.rstrip('/')}/run={safe_name(self.run_id)}/split={self.split}"
        return self._output

    @property
    def row_filter(self) -> str:
        """Of a table with columns ``run`` and ``split``: this split's own rows, in SQL."""
        return row_filter(self.run_id, self.split)


def plan_job(argv: Sequence[str] | None = None) -> PlanJob:
    """The split that this job was started for.

    :param argv: the job's arguments, by default ``sys.argv[1:]``; those that are not the plan's are left alone.
    :raises InvalidRequest: arguments are missing or wrong.
    :raises StoreUnavailable: the plan is not in the work store, or not seen from here.
    """
    arguments = parse_job_arguments(sys.argv[1:] if argv is None else argv)
    store = open_work_store(arguments.store_uri)
    plan = read_stored_plan(store, arguments.stored_name, arguments.plan_id)
    if arguments.split >= plan.splits:
        raise InvalidRequest(
            [f"--split is {arguments.split}, and plan {plan.plan_id} has splits 0 to {plan.splits - 1}."]
        )
    generation = stored_plan_number(arguments.stored_name)
    return PlanJob(plan, arguments.split, store, arguments.bootstrap_servers, generation)


def read_plan(spark: SparkSession, job: PlanJob | None = None, **options: Any) -> DataFrame:
    """A DataFrame of Spark's Kafka source over exactly this split's ranges; it may be used several times.

    The attempt is put on record first. From then on a commit of this plan needs the report of this attempt: half of an
    older output may be overwritten.

    The plan holds no connection. Spark's Kafka options come, the first that has one, from ``options``; from Spark
    settings that begin with ``spark.kafka_offsets.kafka.`` (``conf=`` of the operator, or a properties file for
    secrets); the bootstrap servers, last, from the job's arguments.

    :param job: default: :func:`plan_job`. To report, the job is needed, so make it yourself.
    :param options: further options of the source, such as ``minPartitions`` or ``includeHeaders``.
    :raises InvalidRequest: no bootstrap servers are known, or an option would change what is read.
    :raises StoreUnavailable: the attempt cannot be put on record.
    :raises PlanReplaced: the run has another plan by now, which this job would disturb.
    """
    job = job or plan_job()
    all_options = _source_options(spark, job, options)
    attempt = begin_read_unless_replaced(job.store, job.plan, job.split, job._output)
    if job.partitions:
        frame = spark.read.format("kafka").options(**all_options).load()
    else:
        headers = str(all_options.get("includeHeaders", "")).lower() == "true"
        frame = spark.createDataFrame([], _SCHEMA + _HEADERS * headers)
    job._attempt, job._source, job._owns_output = attempt, frame, job._output is not None
    log.info(
        "Attempt %d at split %d of plan %s: up to %d records of %d partitions",
        attempt,
        job.split,
        job.plan.plan_id,
        sum(p.range.size for p in job.partitions),
        len(job.partitions),
    )
    return frame


def write_options(job: PlanJob, format: TableFormat = "delta", mode: WriteMode = "overwrite") -> dict[str, str]:
    """Options that make the write of this split's rows to a table one that may be repeated.

    ``overwrite`` replaces the rows that have this run in their column ``run`` and this split in ``split``, and leaves
    all others: ``replaceWhere`` for Delta; for Iceberg, which has no such option, write with
    ``.overwrite(expr(job.row_filter))``. Call ``job.output_path(table)`` before :func:`read_plan`, so that no other DAG
    whose run has the same id replaces them. Delta is also given a transaction's version, ``txnAppId`` and
    ``txnVersion``: an attempt that was given up and comes late is skipped. Iceberg's snapshots are labelled.

    ``append``, with Delta only, skips a second write of the same plan. It cannot replace: neither what a person removed
    from the table, nor the rows of a plan that this one replaces, which is refused.

    One write to one table for each job: Delta would skip the second. That a write was skipped is only seen in the
    table, so :func:`report_read` takes nothing else afterwards.

    :param format: ``delta`` or ``iceberg``.
    :param mode: ``overwrite`` or ``append``; the frame's writer needs the same.
    :raises InvalidRequest: there was no :func:`read_plan`, or this write could not be repeated.
    """
    if job._attempt is None:
        raise InvalidRequest(["write_options comes after read_plan with the same job: it marks that attempt's write."])
    options = table_options(Attempt(job.plan, job.split, job.generation, job._attempt), format, mode)
    if not job._owns_output:
        raise InvalidRequest(
            [
                "Nobody knows which table is written. Call job.output_path(table) before read_plan: then a second task "
                "that would replace the same rows is refused."
            ]
        )
    job._may_be_skipped = True
    job._skips_late_writes = format == "delta"
    return options


def report_read(job: PlanJob, written: DataFrame) -> ReadReport:
    """Count what was written and put it on record. Call it once, when the sink has succeeded.

    :param written: the output, read back, with the columns ``topic``, ``partition`` and ``offset`` of the source. For a
        sink that cannot be read back, or that leaves records out on purpose: the frame of :func:`read_plan`, if it was
        persisted before its first use. After :func:`write_options`: the table's rows ``where(job.row_filter)``.

    On a compacted or transactional topic some offsets have no record, so counts cannot prove that all was read. Persist
    the frame there: that its scan came to its end under ``failOnDataLoss``, and that all it gave was written, can.

    :raises InvalidRequest: there was no :func:`read_plan`, a column is missing, or counting would read Kafka again.
    :raises StoreUnavailable: the report cannot be written, or this attempt has reported already.
    :raises LateAttempt: this job was given up for lost, and another one has begun to write the same output.
    """
    attempt, source = job._attempt, job._source
    if attempt is None or source is None:
        raise InvalidRequest(["report_read comes after read_plan with the same job, once its sink has succeeded."])
    if not job._skips_late_writes:
        _refuse_late(job, attempt)
    is_source = written is source or written.sameSemantics(source)
    if is_source and job._may_be_skipped:
        raise InvalidRequest(
            [
                "With write_options a write may be skipped, which only the table shows. Give report_read the table's "
                "rows of this split: spark.table(…).where(job.row_filter)."
            ]
        )
    counting = _count_by_partition(written)
    if job.partitions and _reads_kafka(counting, source, is_source):
        raise InvalidRequest(
            [
                "Counting that frame would read Kafka a second time. Give report_read what was written, read back from "
                "the output; or persist the frame of read_plan before its first use, and give it that."
            ]
        )
    counts = _collect(counting)
    proof = _proof(job, counts, counts if is_source else None, source)
    report = ReadReport(job.plan.plan_id, job.split, attempt, proof, counts, job._output)
    store_report(job.store, report)
    return report


def _refuse_late(job: PlanJob, attempt: int) -> None:
    by = withdraw_late(job.store, job.plan, job.split, attempt)
    if by is not None:
        what = f"Attempt {attempt} at split {job.split} of plan {job.plan.plan_id}"
        raise LateAttempt(what, by, job._output or "its output")


def _source_options(spark: SparkSession, job: PlanJob, options: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if job.bootstrap_servers:
        given[BOOTSTRAP_SERVERS] = job.bootstrap_servers
    for name, value in _settings(spark).items():
        if name.startswith(f"{CONF_PREFIX}kafka."):
            given[name.removeprefix(CONF_PREFIX)] = value
    given |= options
    refused = sorted(name for name in given if name.lower() in _DECIDED_BY_THE_PLAN)
    if refused:
        raise InvalidRequest(
            [
                f"Option {name} would change which records are read; that is the plan's to say. Leave it out."
                for name in refused
            ]
        )
    if not given.get(BOOTSTRAP_SERVERS):
        raise InvalidRequest(
            [
                f"No Kafka cluster is named. Set the Spark conf {CONF_PREFIX}{BOOTSTRAP_SERVERS}, or call "
                f'read_plan(spark, job, **{{"{BOOTSTRAP_SERVERS}": "host:9092"}}).'
            ]
        )
    return {
        **given,
        **spark_options(job.partitions),
        ISOLATION_LEVEL: job.plan.isolation_level,
        "failOnDataLoss": "true",
    }


def _settings(spark: SparkSession) -> dict[str, str]:
    if hasattr(spark.conf, "getAll"):
        return dict(spark.conf.getAll)
    return dict(spark.sparkContext.getConf().getAll())  # before Spark 4.0


def _count_by_partition(frame: DataFrame) -> DataFrame:
    """Number, first and last offset of each partition; nothing is run yet."""
    from pyspark.sql import functions as f

    missing = [name for name in ("topic", "partition", "offset") if name not in {c.lower() for c in frame.columns}]
    if missing:
        raise InvalidRequest(
            [
                f"What was written has no column {', '.join(missing)}, so it cannot be counted by partition. Keep the "
                "source's columns topic, partition and offset in the output (or rename them back for report_read); or "
                "persist the frame of read_plan before its first use and report that: report_read(job, records)."
            ]
        )
    return frame.groupBy("topic", "partition").agg(
        f.count("*").alias("records"), f.min("offset").alias("first"), f.max("offset").alias("last")
    )


def _collect(counting: DataFrame) -> dict[TopicPartition, PartitionRead]:
    """One row a partition comes to the driver, and nothing else."""
    rows = counting.collect()
    if any(value is None for row in rows for value in row):
        raise InvalidRequest(
            ["Some of what was written has no topic, partition or offset: it did not come from this plan."]
        )
    # Spark may take a folder's topic=2026 for a number.
    return {
        TopicPartition(str(row["topic"]), int(row["partition"])): PartitionRead(
            int(row["records"]), int(row["first"]), int(row["last"])
        )
        for row in rows
    }


def _proof(
    job: PlanJob,
    counts: dict[TopicPartition, PartitionRead],
    scanned: dict[TopicPartition, PartitionRead] | None,
    source: DataFrame,
) -> Proof:
    expected = {p.topic_partition: p.range.size for p in job.partitions}
    if expected == {tp: read.record_count for tp, read in counts.items()}:
        return "counts"
    persisted = _is_persisted(source)
    if persisted and (scanned or _collect(_count_by_partition(source))) == counts:
        return "scan"
    written = sum(read.record_count for read in counts.values())
    log.warning(
        "Split %d of plan %s: %d records were written for %d offsets, so the commit will refuse this read. %s",
        job.split,
        job.plan.plan_id,
        written,
        sum(expected.values()),
        "The persisted frame holds others than were written."
        if persisted
        else "If records are missing because the topic is compacted or transactional, call persist() on the frame of "
        "read_plan before its first use: then it shows that all there is was read.",
    )
    return "counts"


def _is_persisted(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk or level.useOffHeap)


def _reads_kafka(counting: DataFrame, source: DataFrame, is_source: bool) -> bool:
    """Whether the count would scan the plan's ranges: of the source or of what is made from it, and not persisted."""
    if is_source and not _is_persisted(source):
        return True
    if not hasattr(counting, "_jdf"):  # Spark Connect keeps plans to itself
        return False
    scan = re.search(r"KafkaRelation\(.*", source._jdf.queryExecution().analyzed().toString())
    leaves = counting._jdf.queryExecution().withCachedData().collectLeaves()
    # A cached leaf names the scan that it was filled by, too.
    scanned = (leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.nodeName() != "InMemoryRelation")
    return scan is not None and any(scan[0] in leaf.toString() for leaf in scanned)
