# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A whole driver::

    plan still current? → list attempts → begun <highest + 1> → look → read → write → look → report

A sink that stages writes out of sight; what it has staged is proved before it is published. If the write raises,
nothing is reported, so nothing is verified. An empty batch is written and reported like any other: rows that an earlier
attempt left under its key go.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark.arguments import Arguments, parse
from airflow_kafka_offsets.spark.attempts import (
    begin,
    begun_since,
    has_begun,
    last_commit,
    read_begun,
    reported_counts,
    reported_rows,
)
from airflow_kafka_offsets.spark.batch import Batch, Written
from airflow_kafka_offsets.spark.count import (
    Counted,
    Partition,
    Proof,
    account,
    columns,
    from_columns,
    is_whole,
    observe,
)
from airflow_kafka_offsets.spark.errors import OutputLost, RecordsGone
from airflow_kafka_offsets.spark.fates import RowSink, see_headers
from airflow_kafka_offsets.spark.heal import heal
from airflow_kafka_offsets.spark.kept import is_kept
from airflow_kafka_offsets.spark.lost import first_offsets, missing_batches, name_lost
from airflow_kafka_offsets.spark.objects import read_object
from airflow_kafka_offsets.spark.plan import Plan, read_plan
from airflow_kafka_offsets.spark.retries import try_again
from airflow_kafka_offsets.spark.secrets import keep_secrets_out_of_the_log
from airflow_kafka_offsets.spark.sinks.contract import Sink
from airflow_kafka_offsets.spark.source import is_refused, read_records, source_options
from airflow_kafka_offsets.spark.store import HadoopStore, Store, jvm_of

log = logging.getLogger(__name__)

Write = Callable[[DataFrame, Batch], DataFrame | None]


@dataclass
class Work:
    """What a driver was started for, before its attempt begins.

    :ivar names: what was in the folder of the batch before the plan was read, or the attempt before had failed.
    """

    spark: SparkSession
    arguments: Arguments
    store: Store
    names: Sequence[str]
    plan: Plan
    job: Mapping[str, Any] | None

    def begin(self, output: str | None, *, from_outputs: bool = False, may_subscribe: bool = True) -> Batch:
        """Begin the attempt. The settings of the read are looked at first, so that a wrong one begins nothing.

        :param from_outputs: nothing is read from Kafka: it has ``records`` no more.
        :param may_subscribe: in the first attempt, many partitions are read faster; see :func:`read_records`.
        :raises RecordsGone: Kafka lacks records of a committed batch.
        """
        given, plan = self.arguments, replace(self.plan, ranges=()) if from_outputs else self.plan
        options = self._options
        rows, headers = (self.job or {}).get("rows"), {"includeHeaders": "true"}
        with_headers = rows and (is_kept(plan) or see_headers(rows))
        read = partial(read_records, self.spark, may_subscribe=may_subscribe and self.is_first)
        records = read(plan, options | headers if with_headers else options)
        if not from_outputs:
            self._refuse_fewer(records)
        ui = None if jvm_of(self.spark) is None else self.spark.sparkContext.uiWebUrl
        slot = begin(self.store, given.folder, self.names, given.entry, plan, given.digest, output, ui)
        observed = (records, None) if rows else observe(records)  # rows are observed as they are made
        jobs = {begun["job"] for begun in read_begun(self.store, given.folder, self.names)} - {given.digest, None}
        pipeline = given.folder.partition("/")[0]
        batch = Batch(
            self.spark,
            self.plan,
            observed[0],
            self.job,
            output,
            slot,
            observed[1],
            read=lambda which: read(which, options | headers),
            former_jobs=[read_object(self.store, f"{pipeline}/jobs/{name}.json", name) for name in sorted(jobs)],
            is_committed=bool(self.commit),
        )
        log.info("%s: offsets to read: %d, partitions: %d.", batch, batch.plan.offsets, len(batch.ranges))
        return batch

    def _refuse_fewer(self, records: DataFrame) -> None:
        """
        :raises RecordsGone: Kafka has fewer records than the batch is committed with: the topic was compacted since.
        """
        committed = sum(self.commit.get(name, 0) for name in ("rows", "bad", "filtered"))
        if committed and (count := records.count()) < committed:
            what = f"Batch {self.plan.number} of pipeline {self.plan.pipeline} is not rewritten"
            cause = (
                f"It is committed with {committed:,} records, and Kafka has {count:,} of them: the topic is compacted"
            )
            rows = "Its rows stay"
            if begun_since(self.commit, self.names):  # which may have ended in its write
                version = self.commit["snapshot"] and f"version {self.commit['snapshot']}"
                rows = f"An attempt has begun since: restore its rows from {version or 'a copy'}"
            raise RecordsGone(what, cause, f"{rows}; mark the run as a success")

    @property
    def is_first(self) -> bool:
        """Whether no attempt has begun yet."""
        return not has_begun(self.names)

    def list_again(self) -> None:
        """An attempt of this driver has failed, and another one is to begin."""
        self.names = self.store.list(self.arguments.folder)

    @cached_property
    def _options(self) -> dict[str, str]:
        """Of the source, for the plan or a part of it, or the first offsets of an earlier one."""
        return source_options(self.spark, self.plan, self.arguments.servers)

    @cached_property
    def commit(self) -> Mapping[str, Any]:
        """The last commit of the batch; empty: it has none."""
        return last_commit(self.store, self.arguments.folder, self.names)

    def look(self, sink: Sink) -> None:
        """:raises OutputLost: rows of earlier batches are not in the output; it names those not given up."""
        try:
            sink.look(self.spark, self.plan)
        except OutputLost as error:
            present = partial(sink.present, self.spark)
            lost = missing_batches(self.store, self.arguments.pipeline, self.plan, sink.output, present)
            raise name_lost(error, lost, self._is_readable, self.plan) from None

    def require_rows(self, sink: Sink) -> None:
        """:raises OutputLost: the output does not have the batch itself, which Kafka has no more."""
        key = self.plan.key
        if reported_rows(self.store, self.arguments.folder, self.names) and key not in sink.present(self.spark, [key]):
            what, cause = f"Batch {key} is written, and its records are gone", f"{sink.output} lacks its rows"
            remedy = f"Restore the table; or give these rows up: {self.plan.conf(acknowledge={'rows': [key]})}"
            raise OutputLost(what, cause, remedy)

    def _is_readable(self, plan: Plan) -> bool:
        """Whether Kafka still has the records of an earlier batch."""
        options = self._options  # a wrong one is no answer
        try:
            read_records(self.spark, first_offsets(plan), options).count()
        except Exception as error:
            log.info("The first offsets of batch %s cannot be read: %s", plan.key, str(error).splitlines()[0])
            return False
        return True


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
    :raises OtherOutput: the output is not this pipeline's; nothing was begun.
    :raises OutputLost: rows of earlier batches are not in the output.
    :raises LateAttempt: another driver, plan or commit has taken this job's place; nothing is reported.
    :raises StoreUnavailable: the checkpoint location does not answer, or lacks an object.
    """
    return write_work(open_work(spark, argv, store), write)


def read_batch(spark: SparkSession, argv: Sequence[str] | None = None, store: Store | None = None) -> Batch:
    """Begin an attempt at the batch that this job was started for. Its records are ``batch.records``.

    From then on the batch only verifies with the report of this attempt, or of a later one. If there is nothing to do
    (the batch is verified, and its records are gone), the process ends with status 0.

    Parameters and errors are those of :func:`for_each_batch`.
    """
    work = open_work(spark, argv, store)
    if work.arguments.has_nothing_to_do:
        raise SystemExit(0)
    return work.begin(None, may_subscribe=False)


def report_batch(batch: Batch, written: DataFrame | Written | None = None) -> None:
    """Count what was written, and report it. Call it once, after the write has succeeded.

    :param written: as ``write`` of :func:`for_each_batch` returns it.
    :raises LateAttempt: this driver has lost its place; nothing is reported.
    """
    counted, proof = account(batch, written)
    _report(batch, counted, proof, None)


def _report(batch: Batch, counted: Mapping[Partition, Counted], proof: Proof, snapshot: str | None) -> None:
    batch.look()
    batch.slot.report(counts=columns(counted), snapshot=snapshot, proof=proof)
    total = {name: sum(getattr(c, name) for c in counted.values()) for name in ("rows", "bad", "filtered", "gaps")}
    log.info("%s: %s, proved: %s.", batch, ", ".join(f"{name} {number}" for name, number in total.items()), proof)


def open_work(spark: SparkSession, argv: Sequence[str] | None, store: Store | None) -> Work:
    """The plan and the job object that the arguments name."""
    keep_secrets_out_of_the_log(spark)
    arguments = parse(sys.argv[1:] if argv is None else argv)
    store = HadoopStore(spark, arguments.root) if store is None else store
    names = store.list(arguments.folder)
    plan = read_plan(store, arguments.folder, arguments.entry)
    job = None if arguments.job is None else read_object(store, arguments.job, arguments.digest)
    return Work(spark, arguments, store, names, plan, job)


def write_work(work: Work, write: Sink | Write) -> Batch | None:
    """The whole attempt, from its begin to its report; ``None``: there is nothing to do. If Spark refuses how it reads,
    there is a second one.
    """
    if work.arguments.has_nothing_to_do:
        log.info("%s has nothing to do: the batch is written, and its records are gone.", work.arguments.folder)
        if isinstance(write, Sink):
            work.require_rows(write)
        return None
    try:
        return _attempt(work, write)
    except Exception as error:
        if not work.is_first or not is_refused(error):
            raise
        log.info("%s: a partition is new since the plan. The next attempt assigns partitions.", work.arguments.folder)
        work.list_again()
        return _attempt(work, write)


def _attempt(work: Work, write: Sink | Write) -> Batch:
    if not isinstance(write, Sink):
        batch = work.begin(None)
        report_batch(batch, write(batch.records, batch))
        return batch
    write.check(work.spark, work.plan)
    work.look(write)
    heals = work.plan.from_outputs
    try:
        batch = work.begin(write.output, from_outputs=heals)
    except RecordsGone:
        heals = isinstance(write, RowSink) and write.sink.keeps_rows
        if not heals or not (work.commit["bad"] or begun_since(work.commit, work.names)):
            raise
        batch = work.begin(write.output, from_outputs=True)
    said = (work.store, work.arguments.folder, work.names)
    committed = reported_counts(*said, work.commit["attempt"]) if heals else {}
    once = partial(heal, committed=from_columns(committed)) if heals else _write
    why = f"Another writer has committed to {write.output} meanwhile: {batch} is written again."
    written = try_again(lambda tries: once(replace(batch, tries=tries), write), write.is_conflict, why)
    work.look(write)
    _report(batch, *written)
    return batch


def _write(batch: Batch, sink: Sink) -> tuple[Mapping[Partition, Counted], Proof, str | None]:
    """Write, prove and publish. What is not proved is not published; the commit task says why."""
    written = sink.write(batch, batch.records)
    if not isinstance(written, Written):
        written = Written(written, batch.records)
    counted, proof = account(batch, written)
    if written.publish is None or not is_whole(batch.sizes, counted):
        return counted, proof, written.snapshot
    batch.look()
    return counted, proof, written.publish()
