"""Stepping over a range that can never be read: position + the offset to go on from → partitions without records.

Pure. A step is an empty range [to, to): nothing is read, what lies between the position and ``to`` is counted, as
``lost`` below the log start and as ``skipped`` above. It goes forward only, and inside of the log: to move back is a
``restart``, which a person has to name, and past the end there is nothing that could be unreadable. Partitions that are
not named are not decided here: they stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.errors import EndBeforeStart, InvalidRequest, NoPosition
from airflow_kafka_offsets.offsets.commits import CommitMark
from airflow_kafka_offsets.offsets.model import (
    CommittedOffset,
    OffsetRange,
    PartitionSnapshot,
    TopicPartition,
    by_topic,
)
from airflow_kafka_offsets.offsets.offset_maps import parse_partition_offsets
from airflow_kafka_offsets.offsets.parse import parse_request
from airflow_kafka_offsets.offsets.plan import PlannedPartition
from airflow_kafka_offsets.offsets.refusals import Refusal, raise_refusals
from airflow_kafka_offsets.offsets.resolve import Resolved, jumped_over
from airflow_kafka_offsets.offsets.restore import Restored
from airflow_kafka_offsets.offsets.spec import EarliestOffset, PlanRequest, UntilSpecificOffsets

STARTUP_MODE = "unblock"  # of the plan, in the place of a mode: no mode decided its starts


def parse_unblock(
    to: Mapping[str, Mapping[str, int]] | str,
    *,
    checkpoint_id: str,
    group_id: str | None = None,
    on_group_moved: str = "fail",
) -> PlanRequest:
    """The request to go on from ``to``, whose bounded mode it is.

    :raises InvalidRequest: with every problem.
    """
    problems: list[str] = []
    ends: dict[TopicPartition, int] = {}
    try:
        ends = parse_partition_offsets(to)
        if not ends:
            problems.append('to names no partition; give {"orders": {"0": 480}}: the next record to read.')
    except ValueError as error:
        problems.append(f"to {error}.")
    named = {"bounded_offsets": to, "partitions": by_topic(ends)} if ends else {"topics": "unknown"}
    try:
        request = parse_request(
            now_ms=0,
            startup_mode=EarliestOffset.name,
            bounded_mode=UntilSpecificOffsets.name if ends else "latest-offset",
            checkpoint_id=checkpoint_id,
            group_id=group_id,
            on_group_moved=on_group_moved,
            **named,
        )
    except InvalidRequest as error:
        raise InvalidRequest((*problems, *error.problems)) from None
    if problems:
        raise InvalidRequest(tuple(problems))
    return request


def concerned(
    to: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, CommittedOffset], newest: str
) -> dict[TopicPartition, CommittedOffset]:
    """What of the group counts here: the named partitions, and every commit that landed after the newest checkpoint.

    The latter of all partitions: such a commit has to be completed before anything is put on top of it. Whether the
    group was moved elsewhere is the next run's question.
    """

    def landed(commit: CommittedOffset) -> bool:
        mark = CommitMark.of(commit)
        return mark is not None and mark.parent == newest

    return {tp: commit for tp, commit in committed.items() if tp in to or landed(commit)}


def refuse_unknown(to: Mapping[TopicPartition, int], checkpoint_offsets: Mapping[TopicPartition, object]) -> None:
    """:raises NoPosition: the checkpoint lacks a partition: it has no position yet that could be blocked."""
    raise_refusals(
        [
            Refusal(
                NoPosition,
                f"{tp}: the checkpoint does not hold it",
                "A run starts a new partition at its log start. Correct the topic or the number; kafka-offsets "
                "checkpoint shows what the checkpoint holds.",
            )
            for tp in sorted(to)
            if tp not in checkpoint_offsets
        ]
    )


def step_over(
    to: Mapping[TopicPartition, int],
    restored: Restored,
    snapshots: Mapping[TopicPartition, PartitionSnapshot],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> list[PlannedPartition]:
    """The empty range of each partition whose position is not at ``to`` yet, sorted.

    :raises EndBeforeStart: ``to`` is below the position, or beyond the end of the log, of some partition.
    """
    steps: list[PlannedPartition] = []
    refusals: list[Refusal] = []
    for tp in sorted(to):
        position = (restored.positions or {})[tp]
        snapshot, end = snapshots[tp], to[tp]
        if end == position.offset:
            continue
        if end < position.offset:
            refusals.append(
                Refusal(
                    EndBeforeStart,
                    f"{tp}: {end} is below the position {position.offset} ({position.reason})",
                    "unblock only goes forward. To read records again, start a run with restart set to a new word: it "
                    "applies the startup mode once more, such as specific-offsets.",
                )
            )
        elif end > snapshot.high_watermark:
            refusals.append(
                Refusal(
                    EndBeforeStart,
                    f"{tp}: {end} is beyond the end of the log, {snapshot.high_watermark}",
                    "There is nothing to step over there: give an offset up to the end.",
                )
            )
        else:
            start = Resolved(end, f"position {position.offset} → {end}, stepped over")
            lost, skipped = jumped_over(start, restored.kept.get(tp), snapshot)
            commit = committed.get(tp)
            steps.append(
                PlannedPartition(
                    tp,
                    OffsetRange(end, end),
                    start.reason,
                    "nothing is read",
                    snapshot.log_start_offset,
                    base_offset=commit.offset if commit else None,
                    leader_epoch=snapshot.leader_epoch,
                    lost=lost,
                    skipped=skipped,
                    moved_back_by=restored.moved_back_by.get(tp),
                    continuity="gap",
                )
            )
    raise_refusals(refusals)
    return steps
