# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A request + the cluster's answers → one start and one end for every partition, by Flink's and Kafka's rules.

A start goes the way that it goes in Kafka's own consumer (SubscriptionState): an offset that is known (given,
committed, or the position) is validated against the log before it counts. Each partition is decided by its own facts
alone; all refusals are collected, so that one message names every bad partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar, assert_never

from airflow_kafka_offsets.errors import EndBeforeStart, NoCommittedOffset, PartitionsRefused, counted
from airflow_kafka_offsets.kafka_values import CommittedOffset, PartitionSnapshot, TopicPartition
from airflow_kafka_offsets.plan.body import Decision, Offset
from airflow_kafka_offsets.request import GroupStart, OffsetsStart, Request, TimeStart

T = TypeVar("T")
Committed = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the cluster said about the partitions that are asked for.

    :ivar snapshots: both ends of each log.
    :ivar topic_ids: ``None`` where the cluster has none.
    :ivar committed: of the group that the start names; ``None``: it names none.
    :ivar end_committed: of the group that the end names.
    :ivar at_start: the first offset at or after the start's time; absent where there is no such record.
    :ivar at_end: the same for the end's time.
    :ivar truncated: the first offset that differs, where a log was truncated below a known offset (KIP-320).
    """

    snapshots: Mapping[TopicPartition, PartitionSnapshot]
    topic_ids: Mapping[str, str | None]
    committed: Committed | None = None
    end_committed: Committed | None = None
    at_start: Mapping[TopicPartition, int] = field(default_factory=dict)
    at_end: Mapping[TopicPartition, int] = field(default_factory=dict)
    truncated: Mapping[TopicPartition, int] = field(default_factory=dict)


class ValidatedStart(NamedTuple):
    """Where a range starts, and what is skipped or read again.

    :ivar loss: a sentence: records from the offset on are gone, or are others; ``on_data_loss`` decides.
    :ivar is_refused: whatever that says, a person has to decide.
    """

    start: int
    decisions: tuple[Decision, ...] = ()
    loss: str | None = None
    is_refused: bool = False


def for_each(partitions: Iterable[TopicPartition], decide: Callable[[TopicPartition], T]) -> dict[TopicPartition, T]:
    """The decision for each partition.

    :raises PartitionsRefused: of the first refusal's kind, with every bad partition and each remedy once.
    """
    decided: dict[TopicPartition, T] = {}
    refused: list[PartitionsRefused] = []
    for tp in sorted(partitions):
        try:
            decided[tp] = decide(tp)
        except PartitionsRefused as error:
            refused.append(error)
    if refused:
        lines = [line for error in refused for line in error.partitions]
        raise type(refused[0])(lines, "\n".join(dict.fromkeys(error.remedy for error in refused)))
    return decided


# ── start ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def startup_offset(request: Request, facts: Facts, tp: TopicPartition) -> Offset:
    """Where the startup mode starts a partition, before it is validated (Flink's five startup modes).

    :raises NoCommittedOffset: the group has no offset, and nothing says what then (D4).
    """
    log, topic_id = facts.snapshots[tp], facts.topic_ids.get(tp.topic)
    match request.start:
        case "earliest":
            return Offset(log.log_start_offset, log.leader_epoch, topic_id)
        case "latest":
            return Offset(log.end_offset, log.leader_epoch, topic_id)
        case TimeStart():  # no match: the end (B6); a match past the end was produced after the end was asked for
            offset = min(facts.at_start.get(tp, log.end_offset), log.end_offset)
            return Offset(offset, log.leader_epoch, topic_id)
        case OffsetsStart(offsets) if tp in offsets:
            return Offset(offsets[tp], None, topic_id)
        case OffsetsStart(group_id=group_id) | GroupStart(group_id=group_id):  # C2: a partition that is not listed, too
            return _committed(request, facts, tp, group_id)
        case _ as never:
            assert_never(never)


def _committed(request: Request, facts: Facts, tp: TopicPartition, group_id: str | None) -> Offset:
    log, topic_id = facts.snapshots[tp], facts.topic_ids.get(tp.topic)
    commit = (facts.committed or {}).get(tp)
    if commit is not None:
        return Offset(commit.offset, commit.leader_epoch, topic_id)
    if request.otherwise is not None:
        offset = log.log_start_offset if request.otherwise == "earliest" else log.end_offset
        return Offset(offset, log.leader_epoch, topic_id)
    waiting = log.end_offset - log.log_start_offset
    why = "no start offset is given for it and there is no group_id" if group_id is None else (
        f"group {group_id!r} has no committed offset for it")  # fmt: skip
    raise NoCommittedOffset(
        [f"{tp}: {why}. 'earliest' reads up to {counted(waiting, 'record')}, 'latest' skips them"],
        'Say which: start=GroupOffsets(otherwise="earliest") or otherwise="latest"; or commit an offset first.',
    )


def validate_start(request: Request, facts: Facts, tp: TopicPartition, at: Offset) -> ValidatedStart:
    """Validate an offset against the log (C6, C7, E1-E7). Its topic is the one that is there."""
    log = facts.snapshots[tp]
    first, end, cut = log.log_start_offset, log.high_watermark, facts.truncated.get(tp, at.offset)
    resets = True  # whether Kafka's consumer would apply auto.offset.reset
    if at.leader_epoch is not None and log.leader_epoch is not None and at.leader_epoch > log.leader_epoch:
        line = (  # E6: a consumer would wait for ever for so new a leader
            f"{tp}: offset {at.offset} has leader epoch {at.leader_epoch}, above the leader's {log.leader_epoch}: the "
            "log was restored from an older copy, or the offset was copied from another cluster"
        )
        return ValidatedStart(min(max(at.offset, first), end), (), line, is_refused=True)
    if cut < at.offset:  # KIP-320: a consumer goes on there, and never resets
        left, resets = max(cut, first), False
        line = (
            f"{tp}: the log was truncated (unclean leader election): offsets {cut} to {at.offset} are other records now"
        )
    elif at.offset < first:
        left = first
        lost = counted(first - at.offset, "offset")
        line = f"{tp}: start offset {at.offset} is below log start offset {first} ({lost} lost)"
    elif at.offset > end:
        left, resets = (first, True) if at.leader_epoch is None else (end, False)  # KIP-320: with an epoch, at the end
        line = f"{tp}: start offset {at.offset} is beyond the end of the log, {end}"
    else:
        return ValidatedStart(at.offset)
    if resets and request.on_data_loss == "reset":
        left = log.end_offset if request.otherwise == "latest" else first
    return ValidatedStart(left, explain_gap(tp, at.offset, left, first, f"on_data_loss={request.on_data_loss}"), line)


def explain_gap(tp: TopicPartition, before: int, start: int, log_start: int, by: str) -> tuple[Decision, ...]:
    """What it means that a partition resumes at ``start`` instead of ``before``."""
    gone = min(log_start, start)
    lost = (Decision(tp, before, gone, "lost", by),) if before < gone else ()
    unread = max(before, gone)
    if start > unread:
        return (*lost, Decision(tp, unread, start, "skipped", by))
    return (*lost, Decision(tp, start, before, "again", by)) if start < before else lost


# ── end ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def end_offset(request: Request, facts: Facts, tp: TopicPartition, start: int) -> int:
    """The end of a range (exclusive). An end that was read already gives an empty range (K7).

    :raises EndBeforeStart: a given end is below the start, or beyond the log (K8, K9).
    :raises NoCommittedOffset: the range ends at a group's offset, and there is none (K4).
    """
    log = facts.snapshots[tp]
    match request.end:
        case "latest":
            return max(start, log.end_offset)  # a position may be above the last stable offset (K7)
        case TimeStart():
            return max(start, min(facts.at_end.get(tp, log.end_offset), log.end_offset))
        case GroupStart(group_id=group_id):
            commit = (facts.end_committed or {}).get(tp)
            if commit is None:
                raise NoCommittedOffset(
                    [f"{tp}: end=GroupOffsets() ends at the offset of group {group_id!r}, which has none"],
                    "Commit an end for each partition first, or use another end.",
                )
            return _given_end(tp, commit.offset, start, log)
        case OffsetsStart(offsets):
            if tp not in offsets:
                raise EndBeforeStart(
                    [f"{tp}: end=SpecificOffsets(…) does not name it"],
                    "Name an end for every partition that is subscribed to, or subscribe to fewer.",
                )
            return _given_end(tp, offsets[tp], start, log)
        case _ as never:
            assert_never(never)


def _given_end(tp: TopicPartition, end: int, start: int, log: PartitionSnapshot) -> int:
    if end > max(start, log.end_offset):
        raise EndBeforeStart(
            [f"{tp}: end offset {end} is beyond the end of the log, {log.end_offset}"],
            "A batch cannot wait for records that do not exist: lower the end, or run later.",
        )
    if end < start:
        raise EndBeforeStart(
            [f"{tp}: end offset {end} is below start offset {start}"], "Raise the end, or lower the start."
        )
    return end
