"""``unblock``: the way past records that can never be read, for a person who has decided to give them up.

A plan without records moves the position over them. It is made from the pipeline's checkpoint as every plan is, kept in
the work store, and committed in the order and under the table of every commit; so a crash at any step leaves what a
crash of a run leaves, and the next run goes on from it: before the commit nothing has happened, after it the mark in
the group names the plan, from which the checkpoint is written. It is no run's plan: there is no receipt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from airflow_kafka_offsets.committing import Cluster, CommitOutcome, commit_run, parse_commit_mode, parse_fencing
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.restore import Restored, restore
from airflow_kafka_offsets.offsets.spec import PlanRequest, UntilSpecificOffsets
from airflow_kafka_offsets.offsets.unblock import STARTUP_MODE, concerned, refuse_unknown, step_over
from airflow_kafka_offsets.planner import now_ms, take_snapshots
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.runs import find_plan_by_id, store_plan_of_no_run
from airflow_kafka_offsets.stores.turns import IsAlive


@dataclass(frozen=True, slots=True)
class Unblocked:
    """What was stepped over, or with a dry run would be.

    :ivar plan: ``None`` where every position is at its offset already.
    :ivar positions: of the named partitions, before.
    :ivar repaired_from: the plan whose commit had landed without its checkpoint, which is written first.
    """

    plan: OffsetPlan | None
    outcome: CommitOutcome | None
    positions: Mapping[TopicPartition, int]
    repaired_from: str | None = None


def unblock(
    request: PlanRequest,
    store: WorkStore,
    cluster: Cluster,
    *,
    commit_mode: str | None = None,
    fencing: str = "transaction",
    dry_run: bool = False,
    is_alive: IsAlive | None = None,
) -> Unblocked:
    """Move the position of a pipeline forward, over records that nobody will read.

    :param request: from :func:`~airflow_kafka_offsets.offsets.unblock.parse_unblock`.
    :param commit_mode: ``on-success`` (default), or ``checkpoint-only`` for a pipeline that leaves the group alone.
    :param fencing, is_alive: as of :func:`~airflow_kafka_offsets.committing.commit_run`.
    :raises NoPosition: there is no checkpoint, or it lacks a partition.
    :raises EndBeforeStart: an offset is below the position, or beyond the end of the log.
    :raises GroupMoved: the group is not where the checkpoint saw it, and ``on_group_moved`` is ``fail``.
    """
    parse_fencing(fencing)
    if parse_commit_mode(commit_mode) == "never":
        raise InvalidRequest(("commit_mode 'never' would move nothing: use on-success or checkpoint-only.",))
    assert isinstance(request.bounded, UntilSpecificOffsets)
    assert request.checkpoint_id is not None
    to = request.bounded.offsets
    description = cluster.describe(request.subscription)
    topic_ids = {name: topic.topic_id for name, topic in description.topics.items()}
    chain = CheckpointChain(store, description.cluster_id, request.checkpoint_id)
    while True:
        newest = chain.required()
        committed, restored = _position(request, to, newest, topic_ids, store, cluster)
        # A commit that landed without its checkpoint is completed first; if a run was faster, its checkpoint counts.
        if dry_run or not restored.repaired or (restored.checkpoint and chain.append(restored.checkpoint)):
            break
    current = restored.checkpoint or newest
    refuse_unknown(to, current.offsets)
    steps = step_over(to, restored, take_snapshots(cluster, sorted(to), "read_uncommitted"), committed)
    positions = {tp: position.offset for tp, position in (restored.positions or {}).items() if tp in to}
    repaired_from = current.plan_id if restored.repaired else None
    if not steps:
        return Unblocked(None, None, positions, repaired_from)
    plan = _plan(current, topic_ids, steps)
    if dry_run:
        outcome = commit_run(
            replace(plan, parent=newest.id),  # what is repaired is not written, so the check finds the one before it
            store,
            cluster,
            commit_mode=commit_mode,
            fencing=fencing,
            dry_run=True,
        )
    else:
        store_plan_of_no_run(store, plan)
        outcome = commit_run(plan, store, cluster, commit_mode=commit_mode, fencing=fencing, is_alive=is_alive)
    return Unblocked(plan, outcome, positions, repaired_from)


def _position(
    request: PlanRequest,
    to: Mapping[TopicPartition, int],
    newest: Checkpoint,
    topic_ids: Mapping[str, str | None],
    store: WorkStore,
    cluster: Cluster,
) -> tuple[Mapping[TopicPartition, CommittedOffset], Restored]:
    if request.group_id not in (None, newest.group_id):
        raise InvalidRequest(
            (
                f"group_id is {request.group_id!r}, and the checkpoint of {newest.checkpoint_id!r} is of group "
                f"{newest.group_id!r}: leave group_id out, or name the checkpoint_id of the other pipeline.",
            )
        )
    committed: Mapping[TopicPartition, CommittedOffset] = {}
    if newest.group_id is not None:
        committed = cluster.committed(newest.group_id, sorted({*newest.offsets, *to}))
    committed = concerned(to, committed, newest.id)
    request = replace(request, group_id=newest.group_id)
    return committed, restore(request, newest, committed, topic_ids, partial(find_plan_by_id, store))


def _plan(current: Checkpoint, topic_ids: Mapping[str, str | None], steps: list[PlannedPartition]) -> OffsetPlan:
    return OffsetPlan(
        cluster_id=current.cluster_id,
        group_id=current.group_id,
        checkpoint_id=current.checkpoint_id,
        isolation_level="read_uncommitted",
        startup_mode=STARTUP_MODE,
        bounded_mode=UntilSpecificOffsets.name,
        window=False,
        resolved_at_ms=now_ms(),
        topic_ids={name: topic_ids.get(name) for name in {p.topic_partition.topic: None for p in steps}},
        partitions=tuple(steps),
        subscription=current.subscription,
        parent=current.id,
    )
