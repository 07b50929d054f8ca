"""The whole job: read the batch, hand it to ``write``, report what was written."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import InvalidRequest, UnknownOutput
from airflow_kafka_offsets.log.pipeline_log import read_what_is_left
from airflow_kafka_offsets.log.read_reports import begun_output, has_begun
from airflow_kafka_offsets.plan.plan import BatchName, number_of
from airflow_kafka_offsets.plan.window_claims import claim_of, pipeline_in_key, window_of_key
from airflow_kafka_offsets.progress_log import EVERY_S, QUIET_S
from airflow_kafka_offsets.spark.driver_jvm import jvm_of
from airflow_kafka_offsets.spark.job_batch import Batch, planned_batch
from airflow_kafka_offsets.spark.kafka_source import read_batch
from airflow_kafka_offsets.spark.report import Divided, report_batch, require_what_is_held, still_whole
from airflow_kafka_offsets.spark.sinks.sink_contract import Merged

Write = Callable[[DataFrame, Any], Any]

log = logging.getLogger(__name__)

A_WHILE_S, RARELY_S = 60.0, 10.0


def for_each_batch(spark: SparkSession, write: Write, argv: Sequence[str] | None = None, **options: Any) -> Batch:
    """Do the batch that this job was started for.

    If ``write`` raises, the split counts as half written until an attempt has reported it. Where a sink can read its
    rows back, and an attempt before has left each record there once, that one's report still counts.
    What takes longer than two seconds logs how far it is, at INFO (:mod:`~airflow_kafka_offsets.spark.batch_job`).

    :param spark: the session of the job.
    :param write: ``write(records, batch)``; a sink of ``spark.sinks``, or a function like Structured Streaming's
        ``foreachBatch`` one. It returns the frame that reads back what it wrote, with the source's columns ``topic``,
        ``partition`` and ``offset``; several for several sinks, each a whole copy; ``batch.scanned`` or nothing where
        the result has no offsets: then the report counts what Spark scanned (``records.persist()`` first, or Kafka is
        read twice).
    :param argv: the job's arguments, by default ``sys.argv[1:]``.
    :param options: further options of Spark's Kafka source; see :func:`read_batch`.
    :raises UnknownOutput: the output holds batches that the log does not know; nothing was written.
    :raises DataLoss: compaction has taken records that the output has; nothing was written.
    :raises InvalidRequest: the sink writes another output than the resolve task has, or two drivers could
        overwrite each other's commit of it; nothing was begun.
    """
    batch = planned_batch(argv, spark)
    _agree_on_output(batch, write)
    batch.set_aside = getattr(write, "set_aside_words", None)
    name = f"{batch.plan.batch}, split {batch.split}"
    with progress_lines(spark, f"{name}: looks at the output and at Kafka"):
        getattr(write, "check", lambda _: None)(spark)
        refuse_unknown_output(spark, batch, write)
        _refuse_rows_of_another_log(spark, batch, write)
        records = read_batch(spark, batch, **{**getattr(write, "source_options", {}), **options})
        if batch.attempt > 1 and _is_committed(batch):
            require_what_is_held(spark, batch, write, records)
    with progress_lines(spark, f"{name}: writes"):
        try:
            written = write(records, batch)
        except Exception as error:
            whole = partial(still_whole, spark, batch, write)
            batch._begun.note_failure(error, whole, wrote=batch.may_have_written)
            raise
    with progress_lines(spark, f"{name}: counts what was written"):
        _note_columns(batch, write, written)
        report_batch(batch, *_frames(written))
    return batch


def _note_columns(batch: Batch, write: Any, written: Any) -> None:
    """What a sink reads back has all columns of its output; a function's frame may have three. A row sink has noted."""
    frame = written.records if isinstance(written, Merged) else written
    if hasattr(write, "output") and hasattr(frame, "schema"):
        batch.note_columns(write.output, frame)


def _agree_on_output(batch: Batch, write: Any) -> None:
    writes = getattr(write, "output", None)
    if writes is None:
        return
    had = batch.plan.asked.output or begun_output(batch.store, batch.folder)
    if had not in (None, writes):
        raise InvalidRequest(
            [
                f"This job writes {writes}, and {batch.plan.batch} is written to {had}. Where the path was changed: "
                "put it back until this batch is committed. Else name the same in the DAG and in the job, so that no "
                "other pipeline is given it. If each run has a path of its own: clear the run that has begun it. "
                f"If {had} cannot be written any more: name {writes} in the DAG (output=), and give one run the conf "
                '{"kafka_offsets": {"policies": {"output_changed": "accept"}}}.'
            ]
        )
    batch.output = writes


def refuse_unknown_output(spark: SparkSession, batch: Batch, write: Any) -> None:
    """Refuse an output that holds batches which the log does not know, if the sink can list what it holds.

    What a lost log had written and not committed would stay beside its re-read.

    :raises UnknownOutput: naming the keys of these batches.
    """
    name = batch.plan.batch
    look = _windows_of_nobody if name.number is None else _later_keys
    for sink in getattr(write, "sinks", [write]):
        if hasattr(sink, "keys") and (unknown := look(spark, batch, name, sink)):
            raise UnknownOutput(str(getattr(sink, "output", batch.output)), str(name), sorted(unknown))


def _later_keys(spark: SparkSession, batch: Batch, name: BatchName, write: Any) -> list[str]:
    """Keys of batches after the one that this goes on from; the driver of the first split looks for them.

    An unfinished batch is the newest of its log. A committed one, which is done again, has known ones after it: they
    are written after its commit, so the log is looked at after the output.
    """
    if batch.split != batch.plan.splits_to_start()[0]:
        return []
    later = [key for key in write.keys(spark) if key != name.key and number_of(key) > number_of(name.after)]
    return [] if later and _is_committed(batch) else later


def _windows_of_nobody(spark: SparkSession, batch: Batch, name: BatchName, write: Any) -> list[str]:
    """A window's own key, where no driver of this log has begun it, and those of windows by time that overlap it.

    Every split's driver looks, since any may be the first. It looks at the output before it looks who has begun: a
    driver that writes has begun before.
    """
    if has_begun(batch.store, batch.plan_object):
        return []
    unknown = [key for key in write.keys(spark) if key == name.key or _is_in_the_way(spark, batch, key, write)]
    return [] if unknown and has_begun(batch.store, batch.plan_object) else unknown


def _is_in_the_way(spark: SparkSession, batch: Batch, key: str, sink: Any) -> bool:
    """Whether the key is of a window that overlaps the batch's, and that nobody of this log has written.

    One of another pipeline is where it has the same topics: a DAG that was renamed, and does its hours once more.
    """
    found = window_of_key(key)
    if found is None or not claim_of(batch.plan).overlaps(found[0]):
        return False
    _, window_name, pipeline = found
    if pipeline != pipeline_in_key(batch.plan.pipeline or ""):
        return not batch.plan.topics.isdisjoint(_topics_in(spark, key, sink))
    window = read_what_is_left(batch.store, f"{batch.folder.rpartition('/')[0]}/{window_name}")
    return window is None or window.log.plan.withdrawn or not window.log.plan.splits_to_start()


def _topics_in(spark: SparkSession, key: str, sink: Any) -> set[str]:
    """What the output has under the key; nothing where that is not seen, or where rows are merged by a key."""
    if getattr(sink, "is_merged", False) or not hasattr(sink, "rows") or (rows := sink.rows(spark, (key, key))) is None:
        return set()
    names = [name for name in ("kafka_topic", "topic") if name in rows.columns]
    return {str(row[0]) for name in names[:1] for row in rows.select(name).distinct().collect()}


def _is_committed(batch: Batch) -> bool:
    found = read_what_is_left(batch.store, batch.folder)
    return found is not None and found.log.committed is not None


def _refuse_rows_of_another_log(spark: SparkSession, batch: Batch, write: Any) -> None:
    """What the same batch has merged of a topic that was made anew since would look newer: offsets begin anew.

    :raises InvalidRequest: the table has such rows.
    """
    topics = sorted(batch.topics_made_anew)
    for sink in getattr(write, "sinks", [write]) if topics else ():
        rows = sink.rows(spark, (batch.key, batch.key)) if getattr(sink, "is_merged", False) else None
        if rows is not None and not rows.where(rows["topic"].isin(topics) & (rows["offset"] >= 0)).isEmpty():
            raise InvalidRequest(
                [
                    f"{sink.output} has rows that {batch.plan.batch} has merged, and {', '.join(topics)} was deleted "
                    "and created again since: its new records have lower offsets, and would change none of these rows. "
                    f"Nothing was begun. Set the column offset to -1 where kafka_batch = '{batch.key}' and topic is "
                    f"one of {', '.join(topics)}. Then clear the Spark task."
                ]
            )


def _frames(written: Any) -> list[Any]:
    """What ``write`` returned, as :func:`report_batch` takes it; anything else counts as nothing, as in streaming."""
    found = list(written) if isinstance(written, list | tuple) else [written]
    if all(frame is None or isinstance(frame, Divided | Merged) or hasattr(frame, "sparkSession") for frame in found):
        return found
    log.warning("The job's function returned no frame but %s: what Spark scanned is counted.", type(written).__name__)
    return []


# ── how far Spark is ──────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def progress_lines(spark: SparkSession, what: str) -> Iterator[None]:
    """Log how far Spark is while the block runs: a line a second for what takes longer than two.

    After the first minute it is a line every ten seconds: a job of three hours would have ten thousand of them. The
    numbers are those of the stages that run now, so they begin anew with each stage.

    :param what: the beginning of each line: ``batch 7, split 0: writes``.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_log_lines, args=(spark, what, ended), name="kafka-offsets-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _log_lines(spark: SparkSession, what: str, ended: threading.Event) -> None:
    began, wait_s = time.monotonic(), QUIET_S
    while not ended.wait(wait_s):
        seconds = time.monotonic() - began
        with suppress(Exception):  # a session that is being stopped does not answer; the job must not fail by that
            log.info("%s for %.0f s%s", what, seconds, _tasks(spark))
        wait_s = EVERY_S if seconds < A_WHILE_S else RARELY_S


def _tasks(spark: SparkSession) -> str:
    if jvm_of(spark) is None:
        return ""
    tracker: Any = spark.sparkContext.statusTracker()
    stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
    if not stages:
        return ""
    done, of_all, run, failed = (
        sum(getattr(stage, name) for stage in stages)
        for name in ("numCompletedTasks", "numTasks", "numActiveTasks", "numFailedTasks")
    )
    again = f", {failed:,} have failed" if failed else ""
    return f": {done:,} of {of_all:,} tasks are done, {run:,} run{again}"
