"""A run's frozen plan: made once, kept, and given again to every retry and clear (DESIGN, Frozen plans).

A window is made the run's own before its plan is stored; the checkpoint that a plan goes on from is there before it.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import PlanCommitted, PlanLost
from airflow_kafka_offsets.offsets.checkpoint import checkpoint_of_starts
from airflow_kafka_offsets.offsets.commits import CommitMark
from airflow_kafka_offsets.offsets.late import count_late
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import PlanRequest, RunKey
from airflow_kafka_offsets.offsets.windows import TimeClaim, claim_of
from airflow_kafka_offsets.planner import Made, make_on_chain, now_ms
from airflow_kafka_offsets.replay import check_replay, has_committed
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.reads import begin_read, begun_outputs, begun_outputs_of_run, splits_left_over
from airflow_kafka_offsets.stores.runs import (
    StoredPlan,
    find_plan,
    plans_of_run,
    receipts,
    remember_plan,
    replace_plan,
    store_plan,
)
from airflow_kafka_offsets.stores.turns import IsAlive, nobody_lives
from airflow_kafka_offsets.stores.windows import WindowRegister

log = logging.getLogger(__name__)


def plan_run(
    request: PlanRequest, run: RunKey, store: WorkStore, cluster: OffsetReader, *, is_alive: IsAlive = nobody_lives
) -> StoredPlan:
    """The run's frozen plan: the one that it has, checked, else a new one, stored and read back.

    :param is_alive: whether another run is queued or running; such a one is waited for if it came first.
    :raises OverlappingRun: a living run of the same pipeline came first.
    :raises PlanLost: the run has committed, and its plan is gone.
    :raises PlanSuperseded: the plan that it has must not be read again; see :func:`check_replay` for the others.
    :raises PlanCommitted: ``re_plan``, and the run has committed.
    :raises WindowRepeated: another run has records of this window.
    """
    kept = find_plan(store, run)
    if kept is None:
        made = _make_kept_plan(request, store, cluster, now_ms=now_ms(), is_alive=is_alive)
        register = _hold_window(store, made, run, is_alive)
        made = _count_late(store, register, made)
        stored = store_plan(store, run, made)
        _release_window(store, made, stored.plan, run)  # where another try of this run was faster
        return stored
    committed = _committed_plan(store, run, cluster)
    # A window's commit says that the group was moved, not where a pipeline is: its newer plan may have been read since.
    if committed and committed.plan_id != kept.plan.plan_id and not committed.window:
        kept = _put_back(store, run, committed, kept.plan)
    if request.re_plan and committed:
        raise PlanCommitted(str(run), committed.plan_id)
    if request.re_plan:
        return _plan_anew(request, run, kept, store, cluster, is_alive)
    to_read = check_replay(request, kept.plan, store, cluster, is_alive)
    _hold_window(store, to_read, run, is_alive)  # held, unless the work store was lost meanwhile
    if to_read is not kept.plan:
        return _replace(store, run, to_read, cluster)
    _release_others(store, kept.plan, run)
    remember_plan(store, kept.plan.plan_id, kept.name)  # a resolve that was killed may not have come that far
    log.info("Replaying plan %s of run %s", kept.plan.plan_id, run)
    return kept


def _plan_anew(
    request: PlanRequest, run: RunKey, kept: StoredPlan, store: WorkStore, cluster: OffsetReader, is_alive: IsAlive
) -> StoredPlan:
    """Another plan in the place of the kept one. Where that has begun, each of its outputs is overwritten."""
    old = kept.plan
    begun = bool(begun_outputs_of_run(store, old)) or old.starts_all_splits
    most = max(found.plan.splits for found in plans_of_run(store, run))
    request = replace(request, splits=max(request.splits, most) if begun else request.splits)
    made = _make_kept_plan(request, store, cluster, now_ms=now_ms(), is_alive=is_alive)
    successor = replace(made, replaces=old.plan_id, starts_all_splits=begun)
    is_the_same = successor.plan_id == old.plan_id and _made_upon(successor) == _made_upon(old)
    if is_the_same and not splits_left_over(store, old):  # nothing has changed since
        _hold_window(store, old, run, is_alive)
        _release_others(store, old, run)
        return kept
    register = _hold_window(store, successor, run, is_alive)
    successor = _count_late(store, register, successor)
    for split in range(successor.splits) if begun_outputs(store, successor) else ():
        begin_read(store, successor, split, None)  # the run had this plan before: those reads were overwritten since
    log.warning("Run %s is planned anew: plan %s takes the place of %s", run, successor.plan_id, old.plan_id)
    stored = _replace(store, run, successor, cluster)
    for given_up in (old, successor):
        _release_window(store, given_up, stored.plan, run)
    return stored


def _committed_plan(store: WorkStore, run: RunKey, cluster: OffsetReader) -> OffsetPlan | None:
    """Which of the plans that the run has had is committed, if one is: a late commit may be of a replaced one."""
    plans = (found.plan for found in reversed(plans_of_run(store, run)))
    return next((plan for plan in plans if has_committed(plan, store, cluster)), None)


def _replace(store: WorkStore, run: RunKey, successor: OffsetPlan, cluster: OffsetReader) -> StoredPlan:
    """Store ``successor`` in the place of the plan that it names.

    :raises PlanCommitted: a late commit of a plan of this run has landed meanwhile. That is the run's plan again.
    """
    stored = replace_plan(store, run, successor)  # from here on a commit of any other refuses itself
    committed = _committed_plan(store, run, cluster)
    if committed and committed.plan_id != stored.plan.plan_id:
        if not committed.window:
            _put_back(store, run, committed, stored.plan)
        raise PlanCommitted(str(run), committed.plan_id)
    return stored


def _put_back(store: WorkStore, run: RunKey, committed: OffsetPlan, instead_of: OffsetPlan) -> StoredPlan:
    """The run has committed ``committed``, so that is its plan. Others may have begun to overwrite its output, which
    therefore does not count until it is written anew, all of it.
    """
    log.warning("Run %s goes back to plan %s, which it has committed", run, committed.plan_id)
    for split in range(committed.splits):
        begin_read(store, committed, split, None)
    return replace_plan(store, run, replace(committed, replaces=instead_of.plan_id, starts_all_splits=True))


def _made_upon(plan: OffsetPlan) -> tuple[str | None, list[int | None]]:
    """What a commit compares. It may have moved on under the same records: a run that found none has committed."""
    return plan.parent, [p.base_offset for p in plan.partitions]


def _hold_window(store: WorkStore, plan: OffsetPlan, run: RunKey, is_alive: IsAlive) -> WindowRegister | None:
    """Make the window of ``plan`` the run's own, before the plan is stored; the register as it was read for that.

    Any other plan claims nothing: ``None``.

    :raises WindowRepeated: another run of the same pipeline has records of it.
    """
    claim = claim_of(plan)
    if claim is None:
        return None
    assert plan.checkpoint_id is not None
    register = WindowRegister(store, plan.cluster_id, plan.checkpoint_id, run, is_alive)
    register.hold(claim)
    return register


def _count_late(store: WorkStore, register: WindowRegister | None, plan: OffsetPlan) -> OffsetPlan:
    """With what came too late for the window before, of which this plan's is the next.

    That one is found where this one was registered, by the objects that were read for that; at midnight on the day
    before. One that was planned anew since is compared as it is now.
    """
    claim = claim_of(plan)
    if register is None or not isinstance(claim, TimeClaim):
        return plan
    for other in register.runs_until(claim.start_ms):
        previous = find_plan(store, other)
        if previous is not None:
            return count_late(previous.plan, plan)
    return plan


def _release_others(store: WorkStore, kept: OffsetPlan, run: RunKey) -> None:
    """Give up the windows of plans that the run does not have any more: who replaced them may have died meanwhile."""
    for found in plans_of_run(store, run):
        _release_window(store, found.plan, kept, run)


def _release_window(store: WorkStore, given_up: OffsetPlan, kept: OffsetPlan, run: RunKey) -> None:
    claim = claim_of(given_up)
    if claim is not None and claim != claim_of(kept):
        assert given_up.checkpoint_id is not None
        WindowRegister(store, given_up.cluster_id, given_up.checkpoint_id, run, lambda run: True).release(
            claim, claim_of(kept)
        )


def _make_kept_plan(
    request: PlanRequest, store: WorkStore, cluster: OffsetReader, *, now_ms: int, is_alive: IsAlive
) -> OffsetPlan:
    """A plan that goes on from its pipeline's checkpoint, and the checkpoints that have to be there before it is read.

    They are written before the plan is: a plan's parent must exist, and what the startup mode decided once must not be
    decided again. If another run was faster, its checkpoint is gone on from.

    :raises PlanLost: the run has committed before, and that plan is gone.
    """
    assert request.run is not None
    known = {found.plan.plan_id for found in plans_of_run(store, request.run)}
    _refuse_lost(request.run, receipts(store, request.run) - known)
    while True:
        made = make_on_chain(request, cluster, store, now_ms=now_ms, is_alive=is_alive)
        if made.chain is None:
            return made.plan
        restored = made.restored
        _refuse_lost(request.run, _commits_of(request.run, made) - known)
        if restored.repaired and restored.checkpoint and not made.chain.append(restored.checkpoint):
            continue
        if not restored.starts_anew:
            return made.plan
        starts = checkpoint_of_starts(request, made.plan, made.committed, restored.checkpoint)
        if made.chain.append(starts):
            return replace(made.plan, parent=starts.id)


def _commits_of(run: RunKey, made: Made) -> set[str]:
    """The plans of ``run`` whose commits the newest checkpoint, or the group itself, still names."""
    newest = made.restored.checkpoint
    kept = {newest.plan_id} if newest and newest.plan_id and newest.run == str(run) else set()
    marks = [CommitMark.of(commit) for commit in made.committed.values()]
    return kept | {mark.plan_id for mark in marks if mark and mark.is_of(run)}


def _refuse_lost(run: RunKey, committed: set[str]) -> None:
    if committed:
        raise PlanLost(str(run), min(committed))
