"""The position of a pipeline: of each partition the next offset to read, as the last commit left it.

It is the truth about where a run starts (Flink's F1: state beats every startup mode, and beats the group's commits).
A partition that a batch lacks keeps its offset, so that a broker's partition list that is short for a moment drops
nothing (F6, FLINK-6006). An empty position is a position: every partition is new then (F9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from airflow_kafka_offsets.kafka_values import (
    CommittedOffset,
    OffsetRange,
    PartitionSnapshot,
    TopicPartition,
    in_same_logs,
)
from airflow_kafka_offsets.plan.plan import Continuity, Draft, Found, Plan, PlannedPartition
from airflow_kafka_offsets.request.modes import AtTimestamp


@dataclass(frozen=True, slots=True)
class SavedOffset:
    """The next offset to read of one partition."""

    offset: int
    leader_epoch: int | None = None

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError(f"offset {self.offset} is negative")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a pipeline goes on.

    :ivar cluster_id: of the cluster that the offsets are of.
    :ivar startup: the startup request that the pipeline began with, in words; ``""`` where only the group says it.
    :ivar restarts: every word that ``restart`` was applied with; none of them is applied a second time.
    :ivar topic_ids: of the topics that the offsets are of; ``None`` where the cluster has no ids.
    """

    cluster_id: str
    offsets: Mapping[TopicPartition, SavedOffset]
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    startup: str = ""
    restarts: tuple[str, ...] = ()


def position_after(plan: Draft, before: Position | None) -> Position:
    """The position once ``plan`` is committed, which went on from ``before``."""
    return _with(plan, before, {p.topic_partition: SavedOffset(p.end_offset, p.leader_epoch) for p in plan.partitions})


def position_within(plan: Draft, before: Position | None) -> Position:
    """The position that ``plan`` itself went on from, with all that the startup mode and people have decided for it.

    A batch that is planned anew goes on from here: what the startup mode has decided once is not decided again, else
    ``latest-offset`` would skip what has come since.
    """
    saved = {p.topic_partition: SavedOffset(p.position, p.position_epoch) for p in plan.partitions}
    return _with(plan, before, saved)


def _with(plan: Draft, before: Position | None, offsets: Mapping[TopicPartition, SavedOffset]) -> Position:
    found = plan.found
    old_ids = before.topic_ids if before is not None and before.cluster_id == found.cluster_id else {}
    inherited = in_same_logs(before.offsets, before, found) if before else {}
    offsets = {**inherited, **offsets}
    topics = {tp.topic for tp in offsets}
    ids = {topic: topic_id for topic, topic_id in {**old_ids, **found.topic_ids}.items() if topic in topics}
    startup = before.startup if before is not None and before.startup and not plan.restarted else plan.asked.startup
    return Position(found.cluster_id, offsets, ids, startup, plan.restarts)


# ── a person sets a position: where each partition goes, and the plan of the batch that says so ───────────────────────
# The scenarios are those of ``kafka-consumer-groups --reset-offsets``; some are startup modes. As there, an offset that
# the log does not have is brought to the nearer end of the log. Unlike there, what the move costs is counted: records
# that are left out, records that are gone, and records that will be read again. The plan reads nothing: its ranges are
# empty, at the new offsets.


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """From the present position forward by so many offsets, or back if negative."""

    offsets: int = 0

    def __str__(self) -> str:
        return f"where it is{f' {self.offsets:+d}' if self.offsets else ''}"


@dataclass(frozen=True, slots=True)
class ToOffset:
    """One offset, for every partition."""

    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset}"


@dataclass(frozen=True, slots=True)
class ToOffsets:
    """An offset for each partition; partitions that are not among them stay where they are.

    :ivar origin: where they come from, such as ``file offsets.csv`` or ``group billing``.
    """

    offsets: Mapping[TopicPartition, SavedOffset]
    origin: str

    def __str__(self) -> str:
        return f"the offsets of {self.origin}"


Target = Literal["earliest-offset", "latest-offset"] | AtTimestamp | ShiftBy | ToOffset | ToOffsets


@dataclass(frozen=True, slots=True)
class Move:
    """Where one partition was, and where it goes.

    :ivar before: ``None``: the pipeline has no position in it yet, and would begin at the log start.
    :ivar asked: the offset that was asked for; ``after`` differs where the log does not have it.
    :ivar skipped: offsets that are there and will not be read; an upper bound of the records, as are the other counts.
    :ivar lost: offsets that were not read, and are gone from Kafka.
    :ivar reads_again: offsets that an earlier batch has read already.
    """

    topic_partition: TopicPartition
    before: SavedOffset | None
    after: SavedOffset
    asked: int
    log: PartitionSnapshot
    skipped: int = 0
    lost: int = 0
    reads_again: int = 0

    @property
    def goes_on_at(self) -> int:
        """Where the pipeline would go on without the move."""
        return self.before.offset if self.before else self.log.log_start_offset

    @property
    def changes(self) -> bool:
        return self.after.offset != self.goes_on_at

    @property
    def brought(self) -> str:
        """To which end the offset was brought; empty where the log has it."""
        if self.after.offset == self.asked:
            return ""
        return "log start" if self.asked < self.after.offset else "end"


def move(
    target: Target, tp: TopicPartition, before: SavedOffset | None, log: PartitionSnapshot, found: int | None = None
) -> Move:
    """Where ``target`` brings one partition.

    :param found: what the look-up of the target's time found; ``None`` where there is no such record.
    """
    goes_on_at = before.offset if before else log.log_start_offset
    asked = _asked(target, tp, goes_on_at, log, found)
    offset = min(max(asked, log.log_start_offset), log.high_watermark)
    epochs: dict[int, int | None] = {log.end_offset: log.leader_epoch}
    if before is not None:
        epochs[before.offset] = before.leader_epoch
    if isinstance(target, ToOffsets):
        epochs[target.offsets[tp].offset] = target.offsets[tp].leader_epoch
    forward = max(0, offset - goes_on_at)
    lost = min(forward, max(0, log.log_start_offset - goes_on_at))
    again = max(0, min(goes_on_at, log.high_watermark) - offset)  # a log that was cut holds other records
    return Move(tp, before, SavedOffset(offset, epochs.get(offset)), asked, log, forward - lost, lost, again)


def _asked(target: Target, tp: TopicPartition, goes_on_at: int, log: PartitionSnapshot, found: int | None) -> int:
    match target:
        case "earliest-offset":
            return log.log_start_offset
        case "latest-offset":
            return log.end_offset
        case AtTimestamp():
            return log.end_offset if found is None else found
        case ShiftBy(offsets):
            return goes_on_at + offsets
        case ToOffset(offset):
            return offset
        case ToOffsets(offsets=by_partition):
            return by_partition[tp].offset
        case _ as never:
            assert_never(never)


def reset_draft(
    last: Plan,
    moves: Iterable[Move],
    topic_ids: Mapping[str, str | None],
    held: Mapping[TopicPartition, CommittedOffset],
    reason: str,
    now_ms: int,
) -> Draft:
    """A draft that reads nothing, after which the position is where ``moves`` say.

    :param last: the plan of the newest batch, whose pipeline this is.
    :param held: what the group holds.
    """
    partitions = tuple(_planned(one, held.get(one.topic_partition), reason) for one in moves)
    topics = {p.topic_partition.topic for p in partitions}
    return Draft(
        pipeline=last.pipeline,
        asked=replace(last.asked, interval=None),
        found=Found(cluster_id=last.found.cluster_id, topic_ids={t: topic_ids.get(t) for t in sorted(topics)}),
        partitions=partitions,
        resolved_at_ms=now_ms,
        restarts=last.restarts,
    )


def continuity(
    saved: int | None, start_offset: int, log: PartitionSnapshot | None, *, is_cut: bool = False
) -> Continuity:
    """How a range joins the position's offset in the same log."""
    if saved is None:
        return "new"
    if start_offset == saved:
        return "contiguous"
    if is_cut or (log is not None and saved > log.high_watermark):
        return "truncated"
    return "gap" if start_offset > saved else "overlap"


def _planned(one: Move, held: CommittedOffset | None, reason: str) -> PlannedPartition:
    offset = one.after.offset
    brought = f", brought to the {one.brought}" if one.brought else ""
    return PlannedPartition(
        one.topic_partition,
        OffsetRange(offset, offset),
        f"{reason}{brought}",
        "a reset reads nothing",
        one.log.log_start_offset,
        position=offset,  # so that a batch that is planned anew after this does not bring the old one back
        position_epoch=one.after.leader_epoch,
        committed_offset=held.offset if held else None,
        leader_epoch=one.after.leader_epoch,
        lost=one.lost,
        skipped=one.skipped,
        continuity=continuity(one.before.offset if one.before else None, offset, one.log),
    )
