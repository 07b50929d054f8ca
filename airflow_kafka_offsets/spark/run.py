"""A whole driver::

    plan still current? → list attempts → begun <highest + 1> → look → read → write → look → report

If the write raises, nothing is reported, so nothing is verified. An empty batch is written and reported like any other:
rows that an earlier attempt left under its key go.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark.arguments import Arguments, parse
from airflow_kafka_offsets.spark.attempts import begin
from airflow_kafka_offsets.spark.batch import Batch, Written
from airflow_kafka_offsets.spark.count import account, columns, observe
from airflow_kafka_offsets.spark.objects import read_object
from airflow_kafka_offsets.spark.plan import Plan, read_plan
from airflow_kafka_offsets.spark.secrets import keep_secrets_out_of_the_log
from airflow_kafka_offsets.spark.sinks.contract import Sink
from airflow_kafka_offsets.spark.source import read_records, source_options
from airflow_kafka_offsets.spark.store import HadoopStore, Store

log = logging.getLogger(__name__)

Write = Callable[[DataFrame, Batch], DataFrame | None]


@dataclass(frozen=True, slots=True)
class Work:
    """What a driver was started for, before its attempt begins.

    :ivar names: what was in the folder of the batch before the plan was read.
    """

    spark: SparkSession
    arguments: Arguments
    store: Store
    names: Sequence[str]
    plan: Plan
    job: Mapping[str, Any] | None

    def begin(self, output: str | None) -> Batch:
        """Begin the attempt. The settings of the read are looked at first, so that a wrong one begins nothing."""
        given, plan = self.arguments, self.plan
        options = source_options(self.spark, plan, given.servers)
        if self.job is not None and self.job.get("rows"):
            options["includeHeaders"] = "true"
        digest = None if given.job is None else _digest(given.job)
        place = begin(self.store, given.folder, self.names, given.entry, plan, digest, output)
        records, observation = observe(read_records(self.spark, plan, options))
        batch = Batch(
            spark=self.spark,
            pipeline=plan.pipeline,
            number=plan.number,
            key=plan.key,
            window=plan.window_utc,
            ranges=plan.read_ranges,
            skips=plan.skips,
            records=records,
            job=self.job,
            output=output,
            place=place,
            observation=observation,
        )
        log.info("%s: offsets to read: %d, partitions: %d.", batch, sum(batch.sizes.values()), len(batch.ranges))
        return batch


def for_each_batch(
    spark: SparkSession, write: Sink | Write, argv: Sequence[str] | None = None, store: Store | None = None
) -> Batch | None:
    """Read the batch that this job was started for, write it, and report what was written.

    :param spark: the session of the job.
    :param write: a sink; or a function ``write(records, batch)`` that replaces the rows of ``batch.key`` and returns a
        frame that reads them back, with the source's topic, partition and offset. If it returns ``None``, the records
        are counted as Spark reads them: call ``records.persist()`` first, or Kafka is read twice.
    :param argv: the arguments of the job; by default ``sys.argv[1:]``.
    :param store: the checkpoint location, if Spark cannot reach it: an object with ``get``, ``put`` and ``list``.
    :returns: the batch; ``None``: there was nothing to do.
    :raises InvalidJob: arguments or settings are missing or wrong.
    :raises OtherOutput: the output is not this batch's, or not this pipeline's; nothing was begun.
    :raises LateAttempt: another driver, plan or commit has taken this job's place; nothing is reported.
    :raises StoreUnavailable: the checkpoint location does not answer, or lacks an object.
    """
    work = open_work(spark, argv, store)
    return None if work is None else write_work(work, write)


def read_batch(spark: SparkSession, argv: Sequence[str] | None = None, store: Store | None = None) -> Batch:
    """Begin an attempt at the batch that this job was started for. Its records are ``batch.records``.

    From then on the batch only verifies with the report of this attempt, or of a later one. If there is nothing to do
    (the batch is verified, and its records are gone), the process ends with status 0.

    Parameters and errors are those of :func:`for_each_batch`.
    """
    work = open_work(spark, argv, store)
    if work is None:
        raise SystemExit(0)
    return work.begin(None)


def report_batch(batch: Batch, written: DataFrame | Written | None = None) -> None:
    """Count what was written, and report it. Call it once, after the write has succeeded.

    :param written: as ``write`` of :func:`for_each_batch` returns it.
    :raises LateAttempt: this driver has lost its place; nothing is reported.
    """
    counted = account(batch, written)
    batch.look()
    batch.place.report(columns(counted))
    total = {name: sum(getattr(c, name) for c in counted.values()) for name in ("rows", "bad", "filtered", "gaps")}
    log.info("%s: %s.", batch, ", ".join(f"{name} {number}" for name, number in total.items()))


def open_work(spark: SparkSession, argv: Sequence[str] | None, store: Store | None) -> Work | None:
    """The plan and the job object that the arguments name; ``None``: there is nothing to do."""
    keep_secrets_out_of_the_log(spark)
    arguments = parse(sys.argv[1:] if argv is None else argv)
    if arguments.has_nothing_to_do:
        log.info("%s has nothing to do: the batch is verified, and its records are gone.", arguments.folder)
        return None
    store = HadoopStore(spark, arguments.root) if store is None else store
    names = store.list(arguments.folder)
    plan = read_plan(store, arguments.folder, arguments.entry)
    job = None if arguments.job is None else read_object(store, arguments.job, _digest(arguments.job))
    return Work(spark, arguments, store, names, plan, job)


def write_work(work: Work, write: Sink | Write) -> Batch:
    """The whole attempt, from its begin to its report."""
    if not isinstance(write, Sink):
        batch = work.begin(None)
        report_batch(batch, write(batch.records, batch))
        return batch
    write.check(work.spark, work.plan.pipeline.partition("/")[0])
    batch = work.begin(write.output)
    write.write(batch, batch.records)
    report_batch(batch, write.read_back(batch))
    return batch


def _digest(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".json")
