"""One Spark driver: what ``for_each_batch`` does, with a lake in the place of Spark and its sink.

The order is the one of ``airflow_kafka_offsets/spark``, whose own code runs where no Spark is needed: the plan, the
keys that the output holds, is the plan the current one, are the records there, ``begun``, look; then Spark works, the
sink looks once more, swaps, and the attempt reports. A user's function in the place of a sink does not look before it
swaps (``World.looks``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import DataLoss, LateAttempt, PlanReplaced
from airflow_kafka_offsets.log.read_reports import SplitAttempt, begin, require_current
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.topic_outputs import TOPIC, of_topic
from airflow_kafka_offsets.spark.batch_job import refuse_unknown_output
from airflow_kafka_offsets.spark.job_batch import Batch, planned_batch
from tests.builders import job_arguments
from tests.model.lake import Row, log_of
from tests.model.steps import Killed, SparkFailed, pause, wait_at

if TYPE_CHECKING:
    from tests.model.world import Handed, World


def drive(world: World, handed: Handed, split: int, *, short: bool = False) -> None:
    """Do one split of the plan that was handed over. ``short``: a job that reads half of it, and says so."""
    batch = planned_batch(job_arguments(handed.plan_object, handed.plan_id or "", split, world.store.uri))
    plan, output = batch.plan, batch.output or ""
    refuse_unknown_output(None, batch, _Sink(world, output))  # type: ignore[arg-type]
    names = batch.store.list(batch.folder)
    require_current(batch.store, batch.plan_object, plan, names)
    _require_records(world, plan, split)
    attempt = begin(batch.store, batch.plan_object, plan, split, output, names)
    _look(world, attempt)
    pause("read the records", SparkFailed)
    rows = _read(world, plan, split, short)
    for number, (part, of_part) in enumerate(_parts(output, batch, rows)):
        if world.looks:
            _look(world, attempt, wrote=number > 0)
        fate = wait_at("swap")
        if fate is None or fate.arrived:
            world.lake.swap(part, batch.key, split, frozenset(of_part))
            world.books.on_swap(attempt, plan, world.lake.splits(output, batch.key).get(split, frozenset()))
        if fate is not None:
            raise Killed if fate.then == "dies" else SparkFailed
    pause("read it back", SparkFailed)
    attempt.report(_report(plan, attempt, rows))


def _parts(output: str, batch: Batch, rows: set[Row]) -> list[tuple[str, set[Row]]]:
    """Each output that the split changes, with its rows: as ``RowSink.tables_of`` finds them."""
    if TOPIC not in output:
        return [(output, rows)]
    ids = {topic: batch.plan.found.topic_ids.get(topic) for topic in sorted(batch.topics)}
    return [(of_topic(output, topic), {row for row in rows if row[0][1] == ids[topic]}) for topic in ids]


def drive_by_offsets(world: World, handed: Handed, split: int) -> None:
    """A job of the user's own, which knows its offsets alone: it asks the store nothing, and writes under its batch.

    Spark knows no topic ids: it reads what is at the offsets. Not modelled: that it works for long. Nothing holds off
    one whose batch is planned anew meanwhile.
    """
    plan, rows = handed.plan, set[Row]()
    assert plan is not None
    assert plan.batch is not None
    for p in plan.splits[split]:
        topic = world.cluster.topics.get(p.topic_partition.topic)
        log = topic.logs.get(p.topic_partition.partition) if topic else None
        if topic is None or log is None or log.leader is None:
            raise SparkFailed
        if p.start_offset < log.log_start_offset or p.end_offset > log.high_watermark:
            raise SparkFailed
        there = (world.cluster.cluster_id, topic.topic_id, p.topic_partition.partition)
        rows |= {(there, offset, world.cut_at(there, offset)) for offset in range(p.start_offset, p.end_offset)}
    world.lake.swap(plan.asked.output or "", plan.batch.key, split, frozenset(rows))
    world.books.on_swap_by_offsets(handed.plan_object, plan, split, frozenset(rows))


class _Sink:
    """A sink that can tell which keys its output holds."""

    def __init__(self, world: World, output: str) -> None:
        self._world, self._output = world, output

    def keys(self, _: Any) -> list[str]:
        pause("list the keys", SparkFailed)
        return self._world.lake.keys(self._output)


def _look(world: World, attempt: SplitAttempt, *, wrote: bool = False) -> None:
    since = world.books.tick()
    try:
        attempt.look(wrote=wrote)
    except (LateAttempt, PlanReplaced) as error:
        if wrote:
            attempt.note_failure(error, lambda: False, wrote=True)
        raise
    world.books.on_attempt_looked(attempt, since)


def _require_records(world: World, plan: Plan, split: int) -> None:
    """As ``spark/kafka_check.py``: offsets and topic ids."""
    pause("look for the records", SparkFailed)
    gone = records_gone(world, plan, split)
    if gone:
        raise DataLoss(gone, "The records cannot be read any more.")


def _read(world: World, plan: Plan, split: int, short: bool) -> set[Row]:
    """Spark itself fails where offsets are gone (``failOnDataLoss``).

    Not modelled: a topic that is made anew after the look, and filled, before Spark reads it. Spark knows no topic ids.
    """
    if records_gone(world, plan, split):
        raise SparkFailed
    rows: set[Row] = set()
    for p in plan.splits[split]:
        log = log_of(plan, p.topic_partition)
        if world.cluster.topics[p.topic_partition.topic].logs[p.topic_partition.partition].leader is None:
            raise SparkFailed
        last = p.end_offset - (p.range.size + 1) // 2 if short else p.end_offset
        rows |= {(log, offset, world.cut_at(log, offset)) for offset in range(p.start_offset, last)}
    return rows


def records_gone(world: World, plan: Plan, split: int) -> list[str]:
    """A line for each partition of the split that cannot be read."""
    lines = []
    for p in plan.splits[split]:
        tp = p.topic_partition
        topic = world.cluster.topics.get(tp.topic)
        log = topic.logs.get(tp.partition) if topic else None
        if topic is None or log is None or topic.topic_id != plan.found.topic_ids[tp.topic]:
            lines.append(f"{tp}: another log")
        elif log.log_start_offset > p.start_offset or log.high_watermark < p.end_offset:
            lines.append(f"{tp}: offsets are gone")
    return lines


def _report(plan: Plan, attempt: SplitAttempt, rows: set[Row]) -> ReadReport:
    """What the output holds, read back: an honest count, whatever was asked for."""
    reads = {}
    for p in plan.splits[attempt.split]:
        mine = [offset for log, offset, _ in rows if log == log_of(plan, p.topic_partition)]
        if mine:
            reads[p.topic_partition] = PartitionRead(len(mine), len(set(mine)), min(mine), max(mine))
    return ReadReport(plan.plan_id, attempt.split, attempt.number, "rows", reads, attempt.output)
