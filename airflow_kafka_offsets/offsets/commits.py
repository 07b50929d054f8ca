"""What may be committed: the mark that a commit carries, and the table that decides each partition.

The table is DESIGN.md's ("Commit"); the first row that matches wins, one refusal refuses all. Row 3 differs from the
page in three ways that walking it showed. It is only terminal where this plan's own commit is on record: otherwise a
plan that a named policy moves back, whose base is always beyond its end, could never be committed by row 4. It holds
*at* the end too: an idle partition, committed again at the same offset by a later run, is no conflict for a run that
was cleared after its own commit. And once the chain of checkpoints has gone on, such a run leaves the group as it is,
wherever that is: expired, moved back by a later restart, or repaired by the next run after a commit landed in part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from airflow_kafka_offsets.errors import CommitConflict, TopicRecreated, listed
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.refusals import Refusal, decide_each
from airflow_kafka_offsets.offsets.spec import RunKey

_CUT_RUN = 200  # characters of a run's name that does not fit
METADATA_LIMIT_BYTES = 4095  # confluent-kafka sends a trailing NUL, which counts towards the broker's 4,096


@dataclass(frozen=True, slots=True)
class CommitMark:
    """The metadata beside an offset that this package committed: which run and plan, and from which checkpoint.

    ``pipeline``: :func:`pipeline_mark` of the plan's ``checkpoint_id``; what one pipeline has committed in a group,
    another one has not read. ``window``: a mirrored window, which is never a position.
    """

    plan_id: str
    run: str | None = None
    parent: str | None = None
    pipeline: str | None = None
    window: bool = False

    def encode(self) -> str:
        """Compact JSON; a run name so long that it would not fit is cut, the plan's id never is."""
        fields: dict[str, object] = {"run": self.run, "plan": self.plan_id, "parent": self.parent}
        if self.pipeline is not None:
            fields["pipeline"] = self.pipeline
        if self.window:
            fields["window"] = True
        text = json.dumps(fields, separators=(",", ":"))
        if len(text.encode()) > METADATA_LIMIT_BYTES and self.run is not None:
            return replace(self, run=self.run[:_CUT_RUN]).encode()
        return text

    def is_of(self, run: RunKey) -> bool:
        """Whether ``run`` has made this commit."""
        return self.run == str(run) or (self.run is not None and self.run == str(run)[:_CUT_RUN])

    @classmethod
    def of(cls, committed: CommittedOffset | None) -> CommitMark | None:
        """The mark of this package's own commit; ``None`` for everybody else's."""
        if committed is None:
            return None
        try:
            fields = json.loads(committed.metadata)
            return cls(
                str(fields["plan"]), fields["run"], fields["parent"], fields.get("pipeline"), bool(fields.get("window"))
            )
        except (ValueError, KeyError, TypeError):
            return None


def marks_of_positions(committed: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, CommitMark]:
    """The marks of this package's commits that are positions, by partition, sorted; a mirrored window's is none."""
    marks = {tp: CommitMark.of(commit) for tp, commit in sorted(committed.items())}
    return {tp: mark for tp, mark in marks.items() if mark is not None and not mark.window}


def mark_of(plan: OffsetPlan) -> CommitMark:
    run = str(plan.run) if plan.run else None
    return CommitMark(plan.plan_id, run, plan.parent, pipeline_mark(plan.checkpoint_id), plan.window)


def pipeline_mark(checkpoint_id: str | None) -> str | None:
    """A pipeline as it is named in a commit: a digest, for a ``checkpoint_id`` may be longer than the broker takes."""
    return hashlib.sha256(checkpoint_id.encode()).hexdigest()[:16] if checkpoint_id else None


Decision = Literal["write", "keep"]


def decide_commit(
    plan: OffsetPlan,
    partition: PlannedPartition,
    committed: CommittedOffset | None,
    topic_id: str | None,
    *,
    own_commit_on_record: bool,
    parent_is_newest: bool = False,
    gone_on: bool = False,
) -> Decision:
    """Whether the partition's end is written, or the group is left as it is.

    :param committed: what the group holds now.
    :param topic_id: the topic's id now; ``None`` where the cluster has none or the topic is gone.
    :param own_commit_on_record: a receipt, or a checkpoint in the chain, names this very plan.
    :param parent_is_newest: the newest checkpoint is the plan's parent: nobody committed since it was made.
    :param gone_on: the newest checkpoint is another one than the plan's parent, such as the plan's own.
    :raises Refusal: rows 1, 3 and 6.
    """
    tp, end, base = partition.topic_partition, partition.end_offset, partition.base_offset
    recreated = recreated_since(plan, partition, topic_id)
    if recreated:
        raise recreated
    now = committed.offset if committed else None
    mark = CommitMark.of(committed)
    if now == end and ((mark and mark.plan_id == plan.plan_id) or base == end):
        return "write"  # row 2: renews the expiry; also the retry after a lost answer
    if own_commit_on_record and (gone_on or (now is not None and now >= end)):
        return "keep"  # row 3
    if now == base and (base is None or base <= end or partition.moved_back_by is not None):
        return "write"  # row 4
    if now is None and parent_is_newest:
        return "write"  # row 5
    raise Refusal(
        CommitConflict,
        f"{tp}: the group was at {_shown(base)} when the plan was made, the plan ends at {end}, "
        f"and now the group is at {_shown(now)}, committed by {writer_of(committed)}",
        f"Nothing was committed. Group {plan.group_id!r} was moved since the plan was made. Find out by whom and why; "
        "then one of these: clear the run with re_plan, or leave it to the next run, which both go on from the "
        'position (where that and the group differ, on_group_moved="keep-checkpoint" or "adopt-group" says which '
        "counts); or, if the move was a mistake, set the group back to where the plan found it "
        "(kafka-consumer-groups --reset-offsets), then clear the commit task or run kafka-offsets commit --execute. "
        "Records that can never be read are stepped over by kafka-offsets unblock.",
    )


def decide_mirror(
    plan: OffsetPlan, partition: PlannedPartition, committed: CommittedOffset | None, topic_id: str | None
) -> str | None:
    """Whether a window's end may be written to the group: ``None`` if so, else why the group is left as it is.

    It may where the group stands at the window's own start, so that nothing between the two is passed over unread, or
    at its end by this very plan (a retry). A position that a run of this package left there is never replaced: the mark
    of a window is none, and whoever goes on from there would not know where.

    :raises Refusal: row 1 of the commit table.
    """
    recreated = recreated_since(plan, partition, topic_id)
    if recreated:
        raise recreated
    tp, start, end = partition.topic_partition, partition.start_offset, partition.end_offset
    now, mark = committed.offset if committed else None, CommitMark.of(committed)
    if mark is not None and mark.window and mark.plan_id == plan.plan_id and now == end:
        return None
    if now != start:
        return f"{tp}: the window starts at {start}, and the group is at {_shown(now)}"
    if mark is not None and not mark.window:
        return f"{tp}: the group is at {now}, the position that {writer_of(committed)} has committed"
    return None


def why_not_mirrored(
    plan: OffsetPlan, committed: Mapping[TopicPartition, CommittedOffset], topic_ids: Mapping[str, str | None]
) -> str | None:
    """Why the group is left alone; one partition that speaks against it is enough, and all of them are named."""

    def reason(p: PlannedPartition) -> str | None:
        return decide_mirror(plan, p, committed.get(p.topic_partition), topic_ids.get(p.topic_partition.topic))

    reasons = [line for line in decide_each(plan.partitions, reason) if line]
    return f"group {plan.group_id!r} does not stand at this window's start:\n{listed(reasons)}" if reasons else None


def compare(
    plan: OffsetPlan,
    committed: Mapping[TopicPartition, CommittedOffset],
    topic_ids: Mapping[str, str | None],
    *,
    own_commit_on_record: bool,
    parent_is_newest: bool,
    gone_on: bool,
) -> tuple[dict[TopicPartition, CommittedOffset], list[TopicPartition]]:
    """What is written to the group, and which partitions are left as they are; see :func:`decide_commit`.

    :raises PartitionsRefused: one partition or more is refused, and so nothing is written.
    """

    def decide(p: PlannedPartition) -> Decision:
        if plan.window:
            return "write"  # decide_mirror has spoken
        return decide_commit(
            plan,
            p,
            committed.get(p.topic_partition),
            topic_ids.get(p.topic_partition.topic),
            own_commit_on_record=own_commit_on_record,
            parent_is_newest=parent_is_newest,
            gone_on=gone_on,
        )

    metadata = mark_of(plan).encode()
    to_write: dict[TopicPartition, CommittedOffset] = {}
    kept: list[TopicPartition] = []
    for p, decision in zip(plan.partitions, decide_each(plan.partitions, decide), strict=True):
        if decision == "write":
            to_write[p.topic_partition] = CommittedOffset(p.end_offset, p.leader_epoch, metadata)
        else:
            kept.append(p.topic_partition)
    return to_write, kept


def recreated_since(plan: OffsetPlan, partition: PlannedPartition, topic_id: str | None) -> Refusal | None:
    """Row 1: why the partition cannot be committed if its topic is another log by now."""
    tp = partition.topic_partition
    planned_id = plan.topic_ids.get(tp.topic)
    if planned_id is None or topic_id == planned_id:
        return None
    return Refusal(
        TopicRecreated,
        f"{tp}: the topic's id is {topic_id or 'gone'}, the plan was made for {planned_id}",
        "The topic was deleted or re-created since the plan was made, and its records are another log's. Nothing was "
        'committed. A new run reads the new log, with on_recreated="earliest".',
    )


def _shown(offset: int | None) -> str:
    return "no commit" if offset is None else str(offset)


def writer_of(committed: CommittedOffset | None) -> str:
    """Who wrote a commit, as far as its metadata tells."""
    if committed is None:
        return "nobody: it expired or was deleted"
    mark = CommitMark.of(committed)
    if mark is None:
        return "somebody else (not by this provider)"
    return f"run {mark.run}, plan {mark.plan_id}" if mark.run else f"plan {mark.plan_id} of no run"
