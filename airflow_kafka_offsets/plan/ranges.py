"""Request + the cluster's answers → one start and one end for every partition, each with its reason.

A start offset goes the way that it goes in Kafka's own consumer (SubscriptionState): it is *known* (given, committed,
saved) or it needs a *reset*; a known one is *validated* against the log before it counts. Each partition is decided by
its own facts alone; all refusals are collected, so that one message names every bad partition.

Order matters outside of this file: log starts are asked first, then ends, then timestamps (rules B6, B12). A record
produced in between then lies at or past the end, and belongs to the next run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from airflow_kafka_offsets.errors import (
    DataLoss,
    EndBeforeStart,
    NoCommittedOffset,
    NoRecordAtTime,
    PartitionsRefused,
    named,
)
from airflow_kafka_offsets.kafka_values import (
    CommittedOffset,
    OffsetRange,
    PartitionSnapshot,
    TopicPartition,
    is_older,
)
from airflow_kafka_offsets.plan.plan import HELD, Continuity, PlannedPartition
from airflow_kafka_offsets.plan.position import continuity
from airflow_kafka_offsets.request.modes import (
    AtTimestamp,
    FromLogEnd,
    SpecificOffsets,
)
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.policies import ByDuration, NewPartition
from airflow_kafka_offsets.request.times import iso

NO_COMMIT = "no commit"

# ── what the cluster said ─────────────────────────────────────────────────────────────────────────────────────────────


class Known(NamedTuple):
    """An offset that must be held against the log. ``leader_epoch``: of the commit that it came from (KIP-320)."""

    offset: int
    reason: str
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Logs:
    """The partitions' logs.

    :ivar snapshots: both ends of each.
    :ivar newest: the newest timestamp in each, where an end is a time; asked before the ends are, so that what is
        newest is in the plan's reach. Absent where there is no record.
    :ivar starts: the first offset at or after the start's time; absent where there is no such record.
    :ivar ends: the same for the end's time.
    :ivar future: the first offset whose own time is of the future, where an end is a time; absent where there is none.
    :ivar unanswered: partitions that are in none of these, because their leader has not answered, and why.
    """

    snapshots: Mapping[TopicPartition, PartitionSnapshot]
    newest: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    future: Mapping[TopicPartition, int] = field(default_factory=dict)
    unanswered: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts(Logs):
    """The resolver's whole input besides the request.

    :ivar committed: of the group; a partition without a commit is absent. ``None``: the group was not asked.
    :ivar positions: ``None``: the startup mode decides; else where each partition that has a position goes on, and
        every other partition is new.
    :ivar saved: the offsets of the position itself: what is jumped over is counted from there.
    :ivar recreated: topics that are another log than the position's; they start at their log start.
    :ivar cuts: the first offset from which on the log is another one than the one that the known start was taken from.
    :ivar held: why each partition is held that is. One that has a position is in no other answer: nobody was asked.
    :ivar new_partition: where a partition starts that has no position, and others have one.
    :ivar known_topics: of ``positions``.
    """

    committed: Mapping[TopicPartition, CommittedOffset] | None = None
    positions: Mapping[TopicPartition, Known] | None = None
    saved: Mapping[TopicPartition, int] = field(default_factory=dict)
    recreated: frozenset[str] = frozenset()
    cuts: Mapping[TopicPartition, int] = field(default_factory=dict)
    held: Mapping[TopicPartition, str] = field(default_factory=dict)
    new_partition: NewPartition = "earliest"
    known_topics: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known_topics", frozenset(tp.topic for tp in self.positions or ()))


# ── the states of a start offset ──────────────────────────────────────────────────────────────────────────────────────


class NeedsReset(NamedTuple):
    """No offset is known: ``auto_offset_reset`` decides."""

    reason: str


class Resolved(NamedTuple):
    """A start within the log."""

    offset: int
    reason: str
    lost: int = 0
    skipped: int = 0


def resolve(request: PlanRequest, facts: Facts) -> list[PlannedPartition]:
    """The planned partitions, sorted.

    :raises PartitionsRefused: of the first one's kind, with every bad partition and each remedy once.
    """
    found: list[PlannedPartition] = []
    refused: list[PartitionsRefused] = []
    for tp in sorted({*facts.snapshots, *facts.held}):
        try:
            found.append((_resolve_partition if tp in facts.snapshots else _keep_position)(request, facts, tp))
        except PartitionsRefused as error:
            refused.append(error)
    if refused:
        lines, remedies = [line for one in refused for line in one.partitions], (one.remedy for one in refused)
        raise type(refused[0])(lines, "\n".join(dict.fromkeys(remedies)))
    return found


def _resolve_partition(request: PlanRequest, facts: Facts, tp: TopicPartition) -> PlannedPartition:
    snapshot = facts.snapshots[tp]
    start, known = _resolve_start(request, facts, tp, snapshot)
    if tp in facts.held:
        end_offset, end_reason = start.offset, f"{HELD}{facts.held[tp]}"
    else:
        end_offset, end_reason = _resolve_end(request, facts, tp, snapshot, start)
    committed = (facts.committed or {}).get(tp)
    lost, skipped = jumped_over(start, facts.saved.get(tp), snapshot)
    position, _, epoch = known or Known(start.offset, start.reason)
    if epoch is None and position == start.offset:  # the log has it now, and may be cut below it later
        epoch = snapshot.leader_epoch
    return PlannedPartition(
        topic_partition=tp,
        range=OffsetRange(start.offset, end_offset),
        start_reason=start.reason,
        end_reason=end_reason,
        log_start_offset=snapshot.log_start_offset,
        position=position,
        position_epoch=epoch,
        committed_offset=None if committed is None else committed.offset,
        leader_epoch=snapshot.leader_epoch,
        lost=lost,
        skipped=skipped,
        continuity=_continuity(facts, tp, start.offset, snapshot),
        newest_timestamp=facts.newest.get(tp),
        past_end=max(0, snapshot.end_offset - end_offset),
        held_back=snapshot.high_watermark - snapshot.end_offset,
    )


def _keep_position(_: PlanRequest, facts: Facts, tp: TopicPartition) -> PlannedPartition:
    """A held partition, exactly where the position has it. Whether its log still has that, the run asks that reads it.

    What a person had skipped of it in the batch that is planned anew stays counted.
    """
    known, saved, committed = (facts.positions or {})[tp], facts.saved.get(tp), (facts.committed or {}).get(tp)
    skipped = 0 if saved is None else max(0, known.offset - saved)
    return PlannedPartition(
        topic_partition=tp,
        range=OffsetRange(known.offset, known.offset),
        start_reason=known.reason,
        end_reason=f"{HELD}{facts.held[tp]}",
        log_start_offset=None,
        position=known.offset,
        position_epoch=known.leader_epoch,
        committed_offset=None if committed is None else committed.offset,
        leader_epoch=known.leader_epoch,
        skipped=skipped,
        continuity=_continuity(facts, tp, known.offset, None),
    )


def jumped_over(start: Resolved, saved: int | None, snapshot: PartitionSnapshot) -> tuple[int, int]:
    """``lost`` and ``skipped``: from the position's offset on, or where there is none, as the start counts."""
    if saved is None or saved > snapshot.high_watermark:  # of a log that was cut, what was read is not known
        return start.lost, start.skipped
    lost = max(0, min(start.offset, snapshot.log_start_offset) - saved)
    return lost, max(0, start.offset - saved) - lost


def _continuity(
    facts: Facts, tp: TopicPartition, start_offset: int, snapshot: PartitionSnapshot | None
) -> Continuity | None:
    """How the range joins the position; ``None`` where there is none to join."""
    saved = facts.saved.get(tp)
    if tp.topic in facts.recreated:
        return "re-created"
    if saved is None and facts.positions is None:
        return None
    return continuity(saved, start_offset, snapshot, is_cut=tp in facts.cuts)


# ── start ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _resolve_start(
    request: PlanRequest, facts: Facts, tp: TopicPartition, snapshot: PartitionSnapshot
) -> tuple[Resolved, Known | None]:
    """The start, and the known offset that it came of, if one was known."""
    state = _state(request, facts, tp, snapshot)
    if isinstance(state, NeedsReset):
        return _reset(request, facts, tp, snapshot, state.reason), None
    if isinstance(state, Known):
        return _validate(request, facts, tp, snapshot, state), state
    return state, None


def _state(
    request: PlanRequest, facts: Facts, tp: TopicPartition, snapshot: PartitionSnapshot
) -> Known | NeedsReset | Resolved:
    if facts.positions is None or request.window:
        return _from_mode(request, facts, tp, snapshot)
    if tp.topic in facts.recreated:
        return Resolved(snapshot.log_start_offset, "topic re-created → log start")
    position = facts.positions.get(tp)
    return _new(request, facts, tp, snapshot) if position is None else position


def to_compare(request: PlanRequest, facts: Facts) -> dict[TopicPartition, Known]:
    """The known starts, with their epochs, of the partitions that have had another leader since.

    Their logs may have been cut below the start and have grown past it again, which no end of a log shows.
    """
    by_position = facts.positions is not None and not request.window
    known: Mapping[TopicPartition, Known | CommittedOffset] = (
        facts.positions if by_position else facts.committed
    ) or {}
    found: dict[TopicPartition, Known] = {}
    for tp, at in known.items():
        snapshot = facts.snapshots.get(tp)
        # Not where the start is gone by retention: there the epoch does not help (E7).
        if (
            snapshot is None
            or at.offset < snapshot.log_start_offset
            or not is_older(at.leader_epoch, snapshot.leader_epoch)
        ):
            continue
        with suppress(PartitionsRefused):  # resolve() says it
            state = _state(request, facts, tp, snapshot)
            if isinstance(state, Known) and state.leader_epoch is not None:
                found[tp] = state
    return found


def _new(request: PlanRequest, facts: Facts, tp: TopicPartition, snapshot: PartitionSnapshot) -> Resolved:
    """Whatever the startup mode, nothing of a new partition is skipped (Flink's F3 and F4), unless somebody says so."""
    grown, log_start = tp.topic in facts.known_topics, snapshot.log_start_offset
    match facts.new_partition:
        case "earliest":
            offset, where = log_start, "log start"
        case "latest":
            offset, where = snapshot.end_offset, "end"
        case "timestamp":
            assert isinstance(request.startup, AtTimestamp)  # parse_request refuses others
            offset, where, *_ = _from_time(request, facts, request.startup.of(tp), tp, snapshot)
        case _ as never:
            assert_never(never)
    # What a new topic had before its log start is not known; what lay before a later start was not wanted.
    lost = log_start if grown and offset == log_start and facts.new_partition != "latest" else 0
    reason = f"{'new partition' if grown else 'new topic'} → {where}" + (f", {lost} lost" if lost else "")
    return Resolved(offset, reason, lost, offset - log_start)


def _from_mode(
    request: PlanRequest, facts: Facts, tp: TopicPartition, snapshot: PartitionSnapshot
) -> Known | NeedsReset | Resolved:
    match request.startup:
        case "earliest-offset":
            return Resolved(snapshot.log_start_offset, "earliest → log start")
        case "latest-offset":
            skipped = snapshot.end_offset - snapshot.log_start_offset
            return Resolved(snapshot.end_offset, "latest → end", skipped=skipped)
        case AtTimestamp() as mode:
            return _from_time(request, facts, mode.of(tp), tp, snapshot)
        case SpecificOffsets() as mode:
            given = mode.of(tp)
            if isinstance(given, FromLogEnd):
                offset = _within_log(given, snapshot)
                return Resolved(offset, str(given), skipped=offset - snapshot.log_start_offset)
            return Known(given, "specific offset") if given is not None else _from_commit(request, facts, tp)
        case "group-offsets":
            return _from_commit(request, facts, tp)
        case _ as never:
            assert_never(never)


def _within_log(given: FromLogEnd, snapshot: PartitionSnapshot) -> int:
    """Where the log has fewer offsets: its other end."""
    log_start, end = snapshot.log_start_offset, snapshot.end_offset
    return max(log_start, end - given.offsets) if given.which == "latest" else min(end, log_start + given.offsets)


def _from_time(
    request: PlanRequest, facts: Facts, timestamp_ms: int, tp: TopicPartition, snapshot: PartitionSnapshot
) -> Resolved:
    offset = facts.starts.get(tp)
    if offset is None:
        _refuse_no_match(request, tp, timestamp_ms)
        none = f"no record at or after {iso(timestamp_ms)}"
        if request.policies.answers["no_match"] == "earliest":
            return Resolved(snapshot.log_start_offset, f"{none} → log start")
        return Resolved(snapshot.end_offset, f"{none} → end")
    # A match past the end was produced after the end was asked for: the next run, from the end, reads it. A window has
    # no next run that would: there both bounds are where the time was found.
    return Resolved(offset if request.window else min(offset, snapshot.end_offset), f"timestamp {iso(timestamp_ms)}")


def _refuse_no_match(request: PlanRequest, tp: TopicPartition, timestamp_ms: int) -> None:
    if request.policies.answers["no_match"] == "fail":
        raise NoRecordAtTime(
            [f"{tp} has no record at or after {iso(timestamp_ms)}"],
            'Run later, give an earlier time, or leave policies={"no_match": "fail"} out: the end of the log counts '
            "then.",
        )


def _from_commit(request: PlanRequest, facts: Facts, tp: TopicPartition) -> Known | NeedsReset:
    if facts.committed is None:
        raise NoCommittedOffset(
            [f"{tp}: no start offset is given for it, and there is no group_id whose commit could be used"],
            "Give group_id, or name every partition in specific_offsets.",
        )
    commit = facts.committed.get(tp)
    if commit is None:
        return NeedsReset(NO_COMMIT)
    return Known(commit.offset, "committed", commit.leader_epoch)


def _validate(
    request: PlanRequest, facts: Facts, tp: TopicPartition, snapshot: PartitionSnapshot, known: Known
) -> Resolved:
    cut = facts.cuts.get(tp)
    offset, log_start, end = known.offset, snapshot.log_start_offset, snapshot.end_offset
    if (
        known.leader_epoch is not None
        and snapshot.leader_epoch is not None
        and known.leader_epoch > snapshot.leader_epoch
    ):
        raise DataLoss(  # E6: a consumer would wait for ever for a leader that new
            [
                f"{tp}: offset {offset} ({known.reason}) has leader epoch {known.leader_epoch}, later than the "
                f"leader's {snapshot.leader_epoch}"
            ],
            "The topic was re-created, its log was restored from an older copy, or the commit was copied from another "
            "cluster. `kafka-offsets reset` sets a pipeline's position. Without one: commit offsets of this log "
            "(kafka-consumer-groups --reset-offsets), or use another group_id.",
        )
    if cut is not None:
        return _after_cut(request, tp, snapshot, known, cut)
    if log_start <= offset <= snapshot.high_watermark:
        return Resolved(offset, known.reason)
    if offset < log_start:
        return _after_loss(
            request, facts, tp, snapshot, known, lost=log_start - offset,
            line=f"{tp}: start offset {offset} ({known.reason}) is below log start offset {log_start} "
            f"({log_start - offset} offsets are gone)",
        )  # fmt: skip
    return _after_loss(
        request, facts, tp, snapshot, known, lost=0,
        line=f"{tp}: start offset {offset} ({known.reason}) is beyond the end of the log, {end} "
        "(the log was truncated, or the offset is another topic's)",
    )  # fmt: skip


def _after_cut(
    request: PlanRequest, tp: TopicPartition, snapshot: PartitionSnapshot, known: Known, cut: int
) -> Resolved:
    """A log that lost its end in an unclean leader election: a consumer goes on at the cut, and never resets (E5)."""
    policies = request.policies
    if policies.answers["data_loss"] == "fail" or (
        policies.answers["data_loss"] == "reset" and policies.auto_offset_reset in ("none", None)
    ):
        raise DataLoss(
            [
                f"{tp}: from offset {cut} on, the log is another one than the one that was read up to {known.offset} "
                f"({known.reason})"
            ],
            "A leader was elected that lacked the log's end (an unclean election): records that were read are not in "
            "Kafka any more, and other records get their offsets. Their rows stay in the output. Set "
            'policies={"data_loss": "advance"} to go on at the first offset that differs. Of one run, its conf: '
            '{"kafka_offsets": '
            '{"policies": {"data_loss": "advance"}}}.',
        )
    start = max(cut, snapshot.log_start_offset)
    return Resolved(start, f"the log is another one from {cut} on → {start}", start - cut)


def _after_loss(
    request: PlanRequest,
    facts: Facts,
    tp: TopicPartition,
    snapshot: PartitionSnapshot,
    known: Known,
    lost: int,
    line: str,
) -> Resolved:
    """An offset outside of the log, under the policy ``data_loss`` (C6, C7, E1-E5, E7)."""
    log_start, end = snapshot.log_start_offset, snapshot.end_offset
    truncated = known.offset > end
    what = f"beyond the end ({known.offset} > {end})" if truncated else "out of range"
    counted = f", {lost} lost" if lost else ""
    reset = request.policies.auto_offset_reset
    match request.policies.answers["data_loss"]:
        case "fail":
            raise DataLoss(
                [line],
                'Set policies={"data_loss": "advance"} to start at the log start, "reset" to do as auto_offset_reset '
                'says, or restore the records first. Of one run, its conf: {"kafka_offsets": {"policies": '
                '{"data_loss": "advance"}}}.',
            )
        case "advance":
            return Resolved(log_start, f"{what} → log start{counted}", lost)
        case "reset" if reset in ("none", None):  # Kafka's OffsetOutOfRangeException, and LogTruncationException
            raise DataLoss(
                [f"{line}, and auto_offset_reset is {'not set' if reset is None else 'none'}"],
                'Set auto_offset_reset to earliest or latest, or policies={"data_loss": "advance"} to start at the log '
                "start.",
            )
        case "reset" if truncated and known.leader_epoch is not None:
            # KIP-320: the epoch shows that the log was cut; the consumer goes on at the cut and never resets.
            return Resolved(end, f"{what}, leader epoch known → end")
        case "reset":
            found = _reset(request, facts, tp, snapshot, what)
            return Resolved(found.offset, found.reason + counted, lost, found.skipped)
        case _ as never:
            assert_never(never)


def _reset(
    request: PlanRequest, facts: Facts, tp: TopicPartition, snapshot: PartitionSnapshot, reason: str
) -> Resolved:
    group_id = request.scope.group_id
    waiting = snapshot.end_offset - snapshot.log_start_offset
    match request.policies.auto_offset_reset:
        case "earliest":
            return Resolved(snapshot.log_start_offset, f"{reason} → earliest")
        case "latest":
            whose = " by the client configuration's auto.offset.reset" if request.reset_by_client else ""
            return Resolved(snapshot.end_offset, f"{reason} → latest{whose}", skipped=waiting)
        case ByDuration(duration_ms, written):
            found = _from_time(request, facts, request.run_context.now_ms - duration_ms, tp, snapshot)
            skipped = found.offset - snapshot.log_start_offset
            return Resolved(found.offset, f"{reason} → {written}: {found.reason}", skipped=skipped)
        case "none":
            raise NoCommittedOffset(
                [f"{tp}: {reason}, and auto_offset_reset is 'none'"],
                f"Commit a start for group {group_id!r} first, or set auto_offset_reset to earliest or latest.",
            )
        case None:  # Kafka's own default, latest, would skip records in silence (A1)
            raise NoCommittedOffset(
                [
                    f"{tp}: group {group_id!r} has no commit here. From earliest, up to {waiting} records are read; "
                    "from latest, they are skipped"
                ],
                f'Say which: {named("startup_mode")}="earliest-offset" or "latest-offset", or '
                f'{named("auto_offset_reset")} "earliest" or "latest" for partitions without a commit.',
            )
        case _ as never:
            assert_never(never)


# ── end ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _resolve_end(
    request: PlanRequest, facts: Facts, tp: TopicPartition, snapshot: PartitionSnapshot, start: Resolved
) -> tuple[int, str]:
    match request.bounded:
        case "latest-offset":
            if snapshot.end_offset < start.offset:  # K7: above the last stable offset, not above the high watermark
                return start.offset, f"start is past the last stable offset {snapshot.end_offset} → nothing to read"
            return snapshot.end_offset, "latest"
        case AtTimestamp() as mode:
            timestamp_ms = mode.of(tp)
            match_offset = facts.ends.get(tp)
            if ends_at_future(facts, tp):
                end, reason = _end_at_future(request, facts, tp, snapshot)
            elif match_offset is None:
                _refuse_no_match(request, tp, timestamp_ms)
                end, reason = snapshot.end_offset, f"no record at or after {iso(timestamp_ms)} → end"
            else:
                end = match_offset if request.window else min(match_offset, snapshot.end_offset)
                reason = f"timestamp {iso(timestamp_ms)}"
            if end < start.offset:
                return start.offset, f"{reason} is {end}: already read"
            return end, reason
        case "group-offsets":
            commit = (facts.committed or {}).get(tp)
            if commit is None:
                raise NoCommittedOffset(
                    [
                        f"{tp}: bounded_mode='group-offsets' ends at the commit of group {request.scope.group_id!r}, "
                        "which has none here"
                    ],
                    "Commit an end for each partition first, or use another bounded_mode.",
                )
            return _checked_end(tp, commit.offset, "committed", start, snapshot), "committed"
        case SpecificOffsets() as until:
            until_offset = until.of(tp)
            if isinstance(until_offset, FromLogEnd):
                end = _within_log(until_offset, snapshot)
                if end < start.offset:
                    return start.offset, f"{until_offset} is {end}: already read"
                return end, str(until_offset)
            if until_offset is None:
                raise EndBeforeStart(
                    [f"{tp}: bounded_offsets does not name it"],
                    "Name an end for every partition that is subscribed to, or subscribe to fewer (partitions=...).",
                )
            return _checked_end(tp, until_offset, "specific offset", start, snapshot), "specific offset"
        case _ as never:
            assert_never(never)


def ends_at_future(facts: Facts, tp: TopicPartition) -> bool:
    """Whether the look-up of the end found a record of the future: it would find that one at every later end too."""
    return tp in facts.ends and facts.ends[tp] >= facts.future.get(tp, facts.ends[tp] + 1)


def future_in_words(facts: Facts, tp: TopicPartition) -> str:
    newest = facts.newest.get(tp)
    time = "" if newest is None else f" (the newest time in this partition is {iso(newest)})"
    return f"{tp}: the record at offset {facts.ends[tp]} has a time in the future{time}"


def _end_at_future(
    request: PlanRequest, facts: Facts, tp: TopicPartition, snapshot: PartitionSnapshot
) -> tuple[int, str]:
    """A position goes on to the end of the log, so that each record has its run; a window has no run after it."""
    found = facts.ends[tp]
    if not request.window:
        return snapshot.end_offset, f"the record at {found} has a time in the future → end"
    if request.policies.answers["data_loss"] == "fail":
        raise DataLoss(
            [f"{future_in_words(facts, tp)}. The window would end there"],
            "Every later window would end there, too, and what comes behind that record would be in none of them. "
            'Mend the producer. Read by position: startup_mode="group-offsets" with bounded_mode="timestamp" reads '
            'each record once, whatever its time. Or set policies={"data_loss": "advance"} to let the window end '
            "there, in the "
            'DAG or for one run in its conf: {"kafka_offsets": {"policies": {"data_loss": "advance"}}}.',
        )
    return found, f"the record at {found} has a time in the future"


def _checked_end(tp: TopicPartition, end: int, reason: str, start: Resolved, snapshot: PartitionSnapshot) -> int:
    if end == start.offset:  # empty, also where a position is above the last stable offset (K7)
        return end
    if end > snapshot.end_offset:
        raise EndBeforeStart(
            [f"{tp}: end offset {end} ({reason}) is beyond the end of the log, {snapshot.end_offset}"],
            "A batch cannot wait for records that do not exist: lower the end, or run later.",
        )
    if end < start.offset:
        raise EndBeforeStart(
            [f"{tp}: end offset {end} ({reason}) is below start offset {start.offset} ({start.reason})"],
            "Raise the end, or lower the start.",
        )
    return end
