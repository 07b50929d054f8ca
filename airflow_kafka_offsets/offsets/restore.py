"""Where a pipeline goes on: its checkpoint, or the marks that its commits left in the group (DESIGN, Position).

Pure: the newest checkpoint, the group's commits and the topics' ids go in, the position of each partition comes out,
or a refusal that names every partition that speaks against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_kafka_offsets.errors import GroupMoved, TopicRecreated
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint, KeptOffset, applied_restarts, checkpoint_after
from airflow_kafka_offsets.offsets.commits import CommitMark, marks_of_positions, pipeline_mark, writer_of
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.refusals import Refusal, raise_refusals
from airflow_kafka_offsets.offsets.resolve import Position
from airflow_kafka_offsets.offsets.spec import PlanRequest


@dataclass(frozen=True, slots=True)
class Restored:
    """What a run goes on from.

    :ivar positions: by partition; ``None`` where the startup mode decides.
    :ivar checkpoint: the checkpoint behind them, if there is one.
    :ivar repaired: whether ``checkpoint`` is not in the store yet: its commit landed, and it was not written.
    :ivar starts_anew: whether what the plan starts from must be kept in a checkpoint before anything is read.
    :ivar recreated: topics that are another log than the checkpoint's.
    :ivar moved_back_by: partitions that a policy named by the user may move back, and that policy.
    :ivar warnings: what the plan should say.
    """

    positions: Mapping[TopicPartition, Position] | None
    checkpoint: Checkpoint | None = None
    repaired: bool = False
    starts_anew: bool = False
    recreated: frozenset[str] = frozenset()
    moved_back_by: Mapping[TopicPartition, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def kept(self) -> dict[TopicPartition, int]:
        """The checkpoint's offsets, of the logs that are still the same."""
        offsets = self.checkpoint.offsets if self.checkpoint else {}
        return {tp: kept.offset for tp, kept in offsets.items() if tp.topic not in self.recreated}


Committed = Mapping[TopicPartition, CommittedOffset]


def restore(
    request: PlanRequest,
    checkpoint: Checkpoint | None,
    committed: Committed,
    topic_ids: Mapping[str, str | None],
    find_plan: Callable[[str], OffsetPlan | None],
) -> Restored:
    """The position of each partition, by DESIGN's four rules.

    :param checkpoint: the newest one of this pipeline, if it has any.
    :param committed: what the group holds for the partitions that are to be planned.
    :param find_plan: a stored plan by its id, for a commit that landed without its checkpoint.
    :raises GroupMoved: the group is not where the checkpoint saw it, and ``on_group_moved`` is ``fail``.
    :raises TopicRecreated: a topic has another id than the checkpoint's, and ``on_recreated`` is ``fail``.
    """
    if checkpoint is None:
        warnings = _adopting_warning(request, committed)
        if request.restart is not None:
            moved_back_by = dict.fromkeys(committed, "restart")
            return Restored(None, starts_anew=True, moved_back_by=moved_back_by, warnings=warnings)
        return Restored(positions_in_group(committed), starts_anew=True, warnings=warnings)
    landed = _landed(request, checkpoint, committed, find_plan)
    current = landed or checkpoint
    recreated = _recreated(current, topic_ids)
    if request.restart is not None and request.restart not in applied_restarts(current):
        return Restored(
            None,
            current,
            repaired=landed is not None,
            starts_anew=True,
            recreated=recreated,
            moved_back_by=dict.fromkeys(committed, "restart"),
        )
    if recreated and request.on_recreated == "fail":
        raise _topics_recreated(current, topic_ids, recreated)
    moved = _moved(request, current, committed, recreated)
    new = _new(current, committed, recreated)
    reason = f"committed by plan {current.plan_id}" if landed else "checkpoint"
    positions = {
        tp: Position(kept.offset, reason, kept.leader_epoch)
        for tp, kept in current.offsets.items()
        if tp.topic not in recreated
    }
    return Restored(
        {**positions, **new.own, **moved.adopted},
        current,
        repaired=landed is not None,
        recreated=recreated,
        moved_back_by={
            **_restarted(current),
            **moved.moved_back_by,
            **{tp: "on_recreated" for tp in committed if tp.topic in recreated},
        },
        warnings=(
            *_startup_warning(request, current),
            *_expired_warning(current, committed, topic_ids),
            *_read_by_another_warning(new.of_others),
        ),
    )


def _restarted(checkpoint: Checkpoint) -> dict[TopicPartition, str]:
    """The partitions that a restart has moved back below the group and that no commit has brought to it since.

    Its own run failed, or read a part; or the pipeline leaves the group alone (``checkpoint-only``).
    """
    if checkpoint.restart is None:
        return {}
    kept = checkpoint.offsets.items()
    return {tp: "restart" for tp, k in kept if k.group_offset is not None and k.offset < k.group_offset}


def positions_in_group(committed: Committed) -> dict[TopicPartition, Position] | None:
    """Rule 1 without a checkpoint: a commit that names any plan of this package is the position of its partition."""
    positions = {
        tp: Position(committed[tp].offset, f"committed by plan {mark.plan_id}", committed[tp].leader_epoch)
        for tp, mark in marks_of_positions(committed).items()
    }
    return positions or None


def _landed(
    request: PlanRequest,
    checkpoint: Checkpoint,
    committed: Committed,
    find_plan: Callable[[str], OffsetPlan | None],
) -> Checkpoint | None:
    """The checkpoint that a commit should have left, where marks in the group name this one as their parent."""
    marked = {tp: mark for tp, mark in marks_of_positions(committed).items() if mark.parent == checkpoint.id}
    plan_ids = sorted({mark.plan_id for mark in marked.values()})
    if not plan_ids:
        return None
    if len(plan_ids) > 1 and request.on_group_moved != "fail":
        return None
    if len(plan_ids) > 1:
        raise GroupMoved(
            [f"{tp}: committed by plan {marked[tp].plan_id}" for tp in sorted(marked)],
            f"{len(plan_ids)} plans were committed after one checkpoint, so the group does not tell where to go on. "
            'Set on_group_moved="keep-checkpoint" to read from the checkpoint again, or "adopt-group" to trust it.',
        )
    plan = find_plan(plan_ids[0])
    if plan is not None:
        ends = {p.topic_partition: p for p in plan.partitions}
        seen = {tp: ends[tp].end_offset if tp in marked else ends[tp].base_offset for tp in ends}
        return checkpoint_after(plan, checkpoint, seen)
    return _checkpoint_of_marks(checkpoint, next(iter(marked.values())), {tp: committed[tp] for tp in marked})


def _checkpoint_of_marks(checkpoint: Checkpoint, mark: CommitMark, marked: Committed) -> Checkpoint:
    """The plan is not in the store any more; what the group holds are its ends."""
    kept = {tp: KeptOffset(commit.offset, commit.offset, commit.leader_epoch) for tp, commit in marked.items()}
    return Checkpoint(
        sequence=checkpoint.sequence + 1,
        parent=checkpoint.id,
        checkpoint_id=checkpoint.checkpoint_id,
        cluster_id=checkpoint.cluster_id,
        group_id=checkpoint.group_id,
        plan_id=mark.plan_id,
        run=mark.run,
        startup=checkpoint.startup,
        restart=checkpoint.restart,
        subscription=checkpoint.subscription,
        topic_ids=checkpoint.topic_ids,
        offsets={**checkpoint.offsets, **kept},
    )


def _recreated(checkpoint: Checkpoint, topic_ids: Mapping[str, str | None]) -> frozenset[str]:
    """The topics whose id is not the checkpoint's any more: the same name, another log (rule 4, E6)."""
    return frozenset(
        topic
        for topic, topic_id in topic_ids.items()
        if topic_id is not None and checkpoint.topic_ids.get(topic) not in (None, topic_id)
    )


def _topics_recreated(
    checkpoint: Checkpoint, topic_ids: Mapping[str, str | None], recreated: frozenset[str]
) -> TopicRecreated:
    return TopicRecreated(
        [
            f"{topic}: its id is {topic_ids[topic]}, the checkpoint's offsets are of {checkpoint.topic_ids[topic]}"
            for topic in sorted(recreated)
        ],
        "The topic was deleted and created again: it is another log, and the offsets mean nothing in it. "
        'Set on_recreated="earliest" to read the new one from its start.',
    )


@dataclass(frozen=True, slots=True)
class _Moved:
    adopted: Mapping[TopicPartition, Position]
    moved_back_by: Mapping[TopicPartition, str]


def _moved(request: PlanRequest, checkpoint: Checkpoint, committed: Committed, recreated: frozenset[str]) -> _Moved:
    """Rule 2: the group holds something else than the checkpoint saw. Absent is expired, not moved."""
    moved = {
        tp: commit
        for tp, commit in sorted(committed.items())
        if tp in checkpoint.offsets
        and tp.topic not in recreated
        and commit.offset != checkpoint.offsets[tp].group_offset
    }
    if moved and request.on_group_moved == "fail":
        raise_refusals([_group_moved(request, checkpoint, tp, commit) for tp, commit in moved.items()])
    if request.on_group_moved == "adopt-group":
        adopted = {tp: c for tp, c in moved.items() if not _is_window(c)}  # whose mark is never a position
        return _Moved(
            {tp: Position(c.offset, "group moved → adopted", c.leader_epoch) for tp, c in adopted.items()}, {}
        )
    if request.on_group_moved == "keep-checkpoint":
        behind = [
            tp for tp, commit in committed.items() if tp.topic not in recreated and _is_behind(checkpoint, tp, commit)
        ]
        return _Moved({}, dict.fromkeys(behind, "keep-checkpoint"))
    return _Moved({}, {})


def _is_window(commit: CommittedOffset) -> bool:
    mark = CommitMark.of(commit)
    return mark is not None and mark.window


def _is_behind(checkpoint: Checkpoint, tp: TopicPartition, commit: CommittedOffset) -> bool:
    """The group is further than the checkpoint, or holds what somebody else has read of a partition new to it."""
    kept = checkpoint.offsets.get(tp)
    return kept is None or kept.offset < commit.offset


def _group_moved(request: PlanRequest, checkpoint: Checkpoint, tp: TopicPartition, commit: CommittedOffset) -> Refusal:
    kept = checkpoint.offsets[tp]
    seen = "nothing" if kept.group_offset is None else str(kept.group_offset)
    return Refusal(
        GroupMoved,
        f"{tp}: the checkpoint is at {kept.offset} and saw the group at {seen}; now the group is at {commit.offset}, "
        f"committed by {writer_of(commit)}",
        f"Somebody moved group {request.group_id!r} since the last run. Set "
        'on_group_moved="adopt-group" to go on from the group, or "keep-checkpoint" to go on from the checkpoint.',
    )


@dataclass(frozen=True, slots=True)
class _New:
    """This package's commits on partitions that the checkpoint lacks (rule 4).

    A commit that says it is another pipeline's of the same group is no position: what that has read, this one has not.
    """

    own: Mapping[TopicPartition, Position]
    of_others: Mapping[TopicPartition, CommitMark]


def _new(checkpoint: Checkpoint, committed: Committed, recreated: frozenset[str]) -> _New:
    here = (None, pipeline_mark(checkpoint.checkpoint_id))
    marks = {
        tp: mark
        for tp, mark in marks_of_positions(committed).items()
        if tp not in checkpoint.offsets and tp.topic not in recreated
    }
    own = {tp: committed[tp] for tp, mark in marks.items() if mark.pipeline in here}
    return _New(positions_in_group(own) or {}, {tp: mark for tp, mark in marks.items() if tp not in own})


def _startup_warning(request: PlanRequest, checkpoint: Checkpoint) -> list[str]:
    if request.startup_words == checkpoint.startup:
        return []
    return [
        f"This pipeline began with {checkpoint.startup} and goes on from its checkpoint: {request.startup_words} is "
        "not applied. To apply it once, set restart to a new word (such as today's date).",
    ]


def _expired_warning(checkpoint: Checkpoint, committed: Committed, topic_ids: Mapping[str, str | None]) -> list[str]:
    expired = [
        tp
        for tp, kept in sorted(checkpoint.offsets.items())
        if kept.group_offset is not None and tp not in committed and tp.topic in topic_ids
    ]
    if not expired:
        return []
    return [
        f"The group's commits for {len(expired)} partitions ({expired[0]} first) are gone: Kafka forgets a group "
        "without members after offsets.retention.minutes, seven days by default. The checkpoint counts.",
    ]


def _read_by_another_warning(others: Mapping[TopicPartition, CommitMark]) -> list[str]:
    """A mapped resolve task whose list was reordered, a renamed pipeline, or two pipelines on one group."""
    if not others:
        return []
    first = next(iter(others))
    return [
        f"{len(others)} partitions ({first} first) are new to this pipeline, and group commits of another one, by run "
        f"{others[first].run}, do not count for it: they are read from their log start. If that pipeline is this one "
        "under another checkpoint_id (a mapped task whose list was reordered, a renamed DAG), give the task the old "
        "checkpoint_id.",
    ]


def _adopting_warning(request: PlanRequest, committed: Committed) -> tuple[str, ...]:
    """There is no checkpoint, and this package has committed: by this pipeline before it was renamed, or by another."""
    runs = [mark.run for mark in marks_of_positions(committed).values()]
    if not runs:
        return ()
    if request.restart is not None:
        return (
            f"restart {request.restart!r} is applied, and the commits of run {runs[0]} do not count: records may be "
            "read once more, or skipped, as the startup mode says. There is no checkpoint of this pipeline, so it is "
            "not known whether the word was applied before (by a renamed DAG). Take the word out, if it was.",
        )
    return (
        f"There is no checkpoint of this pipeline: it goes on from what run {runs[0]} has committed in the group. If "
        "that was another pipeline, whose records this one has to read too, set restart to a new word (such as today's "
        "date).",
    )
