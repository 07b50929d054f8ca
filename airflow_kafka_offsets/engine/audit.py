"""Whether the batches of a log join, so that each record is in exactly one of them, but for recorded decisions.

In sequence, a batch starts at the position that the last one left. By window, adjacent windows share a cut. Where a
range does not begin there, decisions of the plan have to cover the difference. A committed batch has to verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, Position
from airflow_kafka_offsets.log.reports import Verdict, verify
from airflow_kafka_offsets.plan.body import Decision, PlanBody


class Finding(NamedTuple):
    """What is not accounted for: records that are in no batch, or in two, without a recorded decision."""

    batch: int
    what: str


@dataclass(frozen=True, slots=True)
class Audited:
    """One batch of the log.

    :ivar body: empty where it was cleaned.
    :ivar after: the position that its commit holds; empty without one.
    :ivar verdict: ``None`` where no report is asked for, or it is not committed.
    """

    batch: Batch
    body: PlanBody = field(default_factory=PlanBody)
    after: Position = field(default_factory=dict)
    verdict: Verdict | None = None

    @property
    def without_partitions(self) -> Audited:
        """What a summary needs: the headers and the decisions."""
        return Audited(self.batch, PlanBody(decisions=self.body.decisions))


def read_log(log: PipelineLog, newest: Batch, first: int = 1) -> Iterator[Audited]:
    """All that an audit looks at, from batch ``first`` on: batch by batch, for all may be larger than memory."""

    def read(batch: Batch) -> Audited:
        if batch.is_cleaned:
            return Audited(batch)
        body = log.body(batch)
        after = log.position_after(batch) if batch.is_committed else {}
        has_to_verify = batch.is_closed and batch.plan.require_report
        return Audited(batch, body, after, verify(batch, body, log.report) if has_to_verify else None)

    return log.read_each(range(first, newest.number + 1), read)


def findings(audited: Iterable[Audited]) -> Iterator[Finding]:
    """What is missing or read again without a recorded decision.

    A batch is kept in memory only until the batch beside it has been read.
    """
    before: Audited | None = None
    by_start, by_end = dict[int, Audited](), dict[int, Audited]()
    for one in audited:
        yield from (Finding(one.batch.number, line) for line in _inside(one))
        window = one.batch.plan.window
        if window is None:
            yield from _join(before, one)
            before = one
            continue
        left, right = by_end.pop(window[0], None), by_start.pop(window[1], None)
        yield from _join(left, one)
        yield from _join(one, right)
        by_start |= {} if left else {window[0]: one}
        by_end |= {} if right else {window[1]: one}


def _join(before: Audited | None, one: Audited | None) -> Iterator[Finding]:
    """Whether a batch begins where the one before it has ended."""
    if before is None or one is None or one.batch.is_cleaned:
        return
    if before.batch.plan.cluster_id == one.batch.plan.cluster_id:
        lines = _windows_join(before, one) if one.batch.plan.window else _batches_join(before, one)
        yield from (Finding(one.batch.number, line) for line in lines)


def _inside(one: Audited) -> Iterator[str]:
    """One batch by itself: the position that it resumes from, its ranges, its report, its commit."""
    for tp, planned in sorted(one.body.ranges.items()):
        yield from _not_decided(tp, one.body.resume_from[tp].offset, planned.start, one.body.decisions)
        after = one.after.get(tp)
        if after is not None and after.offset != planned.end:
            yield f"{tp}: it reads up to {planned.end}, and its commit holds {after.offset}"
    yield from one.verdict.problems if one.verdict else ()


def _batches_join(before: Audited, one: Audited) -> Iterator[str]:
    for tp, at in sorted(before.after.items()):
        resumed = one.body.resume_from.get(tp)
        if tp in one.body.ranges and resumed is not None:
            yield from _not_decided(tp, at.offset, resumed.offset, one.body.decisions)
        elif resumed is None or resumed.offset != at.offset:
            yield f"{tp}: the position {at.offset} after batch {before.batch.number} is not kept"


def _windows_join(before: Audited, one: Audited) -> Iterator[str]:
    for tp in sorted(one.body.ranges.keys() & before.body.ranges.keys()):
        lost = [d.end or 0 for d in before.body.decisions if d.partition == tp and d.kind == "lost"]
        cut = max(before.body.ranges[tp].end, *lost, 0)
        decisions = (*before.body.decisions, *one.body.decisions)
        yield from _not_decided(tp, cut, one.body.resume_from[tp].offset, decisions)


def _not_decided(tp: TopicPartition, at: int, start: int, decisions: Iterable[Decision]) -> Iterator[str]:
    """The offsets between ``at`` and ``start`` that no decision covers."""
    kinds = ("again",) if start < at else ("lost", "skipped")
    of_partition = [d for d in decisions if d.partition == tp]
    if start == at or any(d.end is None for d in of_partition):  # the topic was re-created
        return
    covered = [OffsetRange(d.start, d.end) for d in of_partition if d.end is not None and d.kind in kinds]
    what = "are read twice" if start < at else "are in no batch"
    for left in OffsetRange(min(at, start), max(at, start)).without(covered):
        yield f"{tp}: offsets {left.start_offset} to {left.end_offset} {what}, and no decision is recorded"
