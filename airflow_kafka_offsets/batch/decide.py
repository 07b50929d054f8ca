"""What a run does: one state machine for batches of the log and for windows (docs/log.md, rules 1 to 3).

It is pure: an order and a situation give a decision, or an ``Ask`` for what it lacks. A window is a batch that has its
name from its bounds, moves no position, and may be planned anew after its commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from airflow_kafka_offsets.batch import messages
from airflow_kafka_offsets.batch.decide_by_hand import decide_leave_out, decide_redo, decide_reset
from airflow_kafka_offsets.batch.decide_commit import decide_commit
from airflow_kafka_offsets.batch.decisions import (
    Create,
    Decision,
    DoAgain,
    Leave,
    Nothing,
    Replace,
    Take,
    Wait,
)
from airflow_kafka_offsets.batch.draft import Start, draft
from airflow_kafka_offsets.batch.orders import Commit, LeaveOut, NextBatch, Order, Redo, Reset, Window
from airflow_kafka_offsets.batch.ownership import (
    group_moved,
    output_after,
    output_of_batch,
    refuse_another_airflows_log,
    refuse_another_airflows_marks,
    refuse_another_pipeline,
    refuse_records_left_behind,
)
from airflow_kafka_offsets.batch.records_now import RecordsNow, hulls
from airflow_kafka_offsets.batch.situation import (
    Ask,
    BatchIn,
    BatchTakenBy,
    FailedTasks,
    HasSucceededBefore,
    HighestAttempts,
    IsRunning,
    Lacking,
    LogNow,
    NewestBatch,
    OffsetsOfGroup,
    RecordsOf,
    Reports,
    Situation,
    TopicsOf,
    WindowBefore,
    WindowNamed,
)
from airflow_kafka_offsets.errors import (
    BatchClosed,
    BatchGone,
    DataLoss,
    InvalidRequest,
    RefusedError,
    StoreBehindGroup,
    WorkStoreLost,
)
from airflow_kafka_offsets.offsets.batch import log as steps
from airflow_kafka_offsets.offsets.batch.anew import planned_anew, shortened, skipped
from airflow_kafka_offsets.offsets.batch.key import number_of
from airflow_kafka_offsets.offsets.batch.log import next_step
from airflow_kafka_offsets.offsets.batch.mark import Held, Mark, Signature, newest_batch, position_of_marks
from airflow_kafka_offsets.offsets.model import ClusterDescription, TopicPartition
from airflow_kafka_offsets.offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.offsets.plan.position import KeptOffset, Position, position_after, position_within
from airflow_kafka_offsets.offsets.reads.verify import unverified, verified_splits
from airflow_kafka_offsets.offsets.request.parse import PlanRequest
from airflow_kafka_offsets.offsets.window.claims import Claim, TimeClaim, claim_of, claim_of_request
from airflow_kafka_offsets.offsets.window.late import count_late, missed_by_window, offsets_beside
from airflow_kafka_offsets.stores.pipeline_log import StoredBatch


def decide(order: Order, situation: Situation) -> Decision | Ask:
    """
    :raises RefusedError: to go on would lose records or read them twice.
    :raises RequestError: the order cannot be carried out.
    """
    try:
        return _decide(order, situation)
    except Lacking as lacking:
        return Ask(lacking.question)


def _decide(order: Order, s: Situation) -> Decision:
    match order:
        case NextBatch():
            return _next_batch(order, s)
        case Window():
            return _window(order, s)
        case Commit():
            return decide_commit(order, s)
        case Reset():
            return decide_reset(order, s)
        case LeaveOut():
            return decide_leave_out(order, s)
        case Redo():
            return decide_redo(order, s)
        case _ as never:
            assert_never(never)


# ── where the pipeline goes on ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class GoesOn:
    """Where a pipeline goes on, once topics, group and log agree.

    :ivar position: ``None`` where it has none yet; :ivar after: the key of the batch that it is after.
    :ivar newest: the newest batch of the log.
    :ivar marked: the key of the newest batch that the group knows of.
    :ivar foreign: what somebody else wrote to the group, where a policy says what then.
    :ivar by_marks: the position is the one of the group's marks: the log is lost, or behind them.
    :ivar restart: the restart word that is to be applied.
    """

    position: Position | None
    after: str | None
    newest: StoredBatch | None
    marked: str | None
    foreign: Held = field(default_factory=dict)
    by_marks: bool = False
    restart: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def next_number(self) -> int:
        """Above the newest batch and above the group's mark, so that no number comes back, whatever was lost."""
        newest = number_of(self.newest.log.plan.batch.key) if self.newest else 0
        return max(newest, number_of(self.marked)) + 1


def goes_on(order: NextBatch, s: Situation) -> GoesOn:
    """Topics, group and log agree, or it raises (docs/log.md, "When log and group disagree").

    :raises RefusedError: one of its kinds.
    """
    request, me, newest = order.request, order.me, log_now(order, s).newest
    description, held = topics_now(order, s), group_now(order, s)
    signature = Signature.of(s.pipeline, me.instance or "")
    follows = held if held is not None and request.mirrors else {}  # checkpoint-only neither looks nor signs
    marks = signature.own(follows)
    if request.policies.on_another_airflow == "fail":
        refuse_another_airflows_log(me, newest, newest.log.last_instance if newest else None)
        refuse_another_airflows_marks(request, me, marks)
    position, after = _position_of(newest)
    restart = _restart_word(request, newest)
    found = GoesOn(position, after, newest, newest_batch(marks), restart=restart)
    by_marks = _position_of_marks(description, held, marks, position)
    if newest is None:
        refuse_another_pipeline(request, signature, follows)
        if restart is None and by_marks is None and me.run and s.need(HasSucceededBefore(me.run)):
            raise WorkStoreLost(s.pipeline, s.store, me.run.task_id)
    if restart is not None:
        return found
    if newest is None and by_marks is not None:
        warning = (
            f"The work store has no batch of this pipeline: it goes on from the group's marks, after {found.marked}."
        )
        found = replace(found, position=by_marks, after=found.marked, by_marks=True, warnings=(warning,))
    elif number_of(found.marked) > _last_number(newest):
        match request.policies.on_group_moved:
            case "fail":
                numbers = number_of(after), number_of(found.marked)
                raise StoreBehindGroup(s.pipeline, s.store, *numbers)
            case "adopt-group":
                found = replace(found, position=by_marks, after=found.marked, by_marks=True)
    elif newest is None:
        return found  # a first plan takes the group over
    foreign = signature.foreign(follows, found.position, _recorded(newest))
    of_here = found.position is None or found.position.cluster_id == description.cluster_id
    if foreign and request.policies.on_group_moved == "fail" and of_here:
        raise group_moved(request.scope.group_id, foreign, found.position)
    return replace(found, foreign=foreign)


def topics_now(order: NextBatch | Window, s: Situation) -> ClusterDescription:
    return s.need(TopicsOf(order.request.scope.subscription))


def group_now(order: NextBatch | Window, s: Situation) -> Held | None:
    """What the group holds; ``None`` where this plan does not need it."""
    return s.need(OffsetsOfGroup(order.request, tuple(topics_now(order, s).partitions()))).held


def log_now(order: NextBatch, s: Situation) -> LogNow:
    return s.need(NewestBatch(order.me.run))


def adopted(order: NextBatch | Window, on: GoesOn) -> Held:
    """What somebody else wrote to the group, where a person says that the pipeline goes on from there."""
    return on.foreign if order.request.policies.on_group_moved == "adopt-group" else {}


def _position_of(newest: StoredBatch | None) -> tuple[Position | None, str | None]:
    """The position of the log, and the key of the batch that it is after."""
    if newest is None:
        return None, None
    batch, committed = newest.log.plan.batch, newest.log.committed
    if committed is not None:
        return committed.position, batch.key
    return newest.log.planned.position, batch.after


def _last_number(newest: StoredBatch | None) -> int:
    """The highest number that the group may carry: an unfinished batch knew all marks below its own."""
    if newest is None:
        return 0
    number = number_of(newest.log.plan.batch.key)
    return number if newest.log.committed else number - 1


def _position_of_marks(
    description: ClusterDescription, held: Held | None, marks: Mapping[TopicPartition, Mark], before: Position | None
) -> Position | None:
    ids = {name: topic.topic_id for name, topic in description.topics.items()}
    return position_of_marks(held or {}, marks, description.cluster_id, ids, before)


def _restart_word(request: PlanRequest, newest: StoredBatch | None) -> str | None:
    word = request.words.restart
    return word if word is not None and (newest is None or word not in newest.log.plan.restarts) else None


def _recorded(newest: StoredBatch | None) -> dict[TopicPartition, int | None]:
    """What an unfinished plan has recorded of the group: it may not have signed that yet."""
    if newest is None or newest.log.committed:
        return {}
    return {p.topic_partition: p.committed_offset for p in newest.log.plan.partitions}


# ── a batch of the log ────────────────────────────────────────────────────────────────────────────────────────────────


def _next_batch(order: NextBatch, s: Situation) -> Decision:
    request, me, on, own = order.request, order.me, goes_on(order, s), log_now(order, s).own
    if own is not None and own.folder is None:
        return Nothing(messages.NOTHING_AT_FIRST)
    batch = on.newest
    if own is not None:
        batch = s.need(BatchIn(own.folder or ""))
        if batch is None:
            raise BatchGone(str(me.run), f"batch {own.key}", "was cleaned away", own.output)
        if not batch.log.committed and (on.newest is None or batch.folder != on.newest.folder):
            raise BatchGone(str(me.run), f"batch {own.key}", "was passed by when the group was adopted", own.output)
    step = next_step(
        me,
        batch.log if batch else None,
        own=own is not None,
        again=request.words.redo,
        is_running=lambda run: s.need(IsRunning(run)),
    )
    if isinstance(step, steps.Do) and on.by_marks:
        step = steps.PlanNext()  # the group knows that batch, or a later one, as committed: it is passed by
    _refuse_words(request, batch, step)
    if batch is None or isinstance(step, steps.PlanNext):
        return _create(order, s, on)
    match step:
        case steps.Wait(holder):
            return Wait(batch, holder)
        case steps.Do(take):
            return _do(_Unfinished(order, s, batch, take, on))
        case steps.DoAgain():
            return _do_again(order, s, batch, on)
        case steps.Leave(by):
            return _leave(order, batch, messages.leaves(str(batch.log.plan.batch), by))


def _refuse_words(request: PlanRequest, batch: StoredBatch | None, step: steps.Step) -> None:
    """:raises BatchClosed: a person's word names what it cannot change."""
    words, name = request.words, batch.log.plan.batch if batch else None
    if words.re_plan and isinstance(step, steps.DoAgain | steps.Leave):
        raise BatchClosed("re_plan", str(name), "it is committed")
    if words.skip is None or isinstance(step, steps.Wait):
        return
    if not isinstance(step, steps.Do) or name is None:
        raise BatchClosed("skip", words.skip.batch, "there is no unfinished batch for this run to do")
    if words.skip.batch != name.key:
        raise BatchClosed("skip", words.skip.batch, f"the unfinished batch is {name.key}")


def _create(order: NextBatch, s: Situation, on: GoesOn) -> Decision:
    """A new batch from the position on; nothing if there are no new records, and nothing to record."""
    request, me = order.request, order.me
    if request.occasion.run_type == "backfill":
        raise InvalidRequest(
            (
                "A backfill run does its own batch again, or reads a window; this one has no batch. Use "
                "startup_mode='timestamp' and bounded_mode='timestamp', which take the run's data interval, or its "
                "partition.",
            )
        )
    newest = on.newest.log.plan if on.newest else None
    applied = newest.restarts if newest else ()
    if on.restart is not None:
        start = Start(None, kept=on.position, applied=applied, restart=on.restart)
    else:
        before_ms = newest.resolved_at_ms if newest else None
        start = Start(on.position, on.position, adopted(order, on), applied, planned_before_ms=before_ms)
    fresh = draft(request, me, s, start).with_warnings(on.warnings)
    fresh = fresh.with_warnings(_set_back_warning(fresh, on))
    if fresh.empty and not _orders_something(order, on) and not _records_something(fresh, on.position):
        return Nothing(messages.has_nothing(on.after), fresh)
    moved = output_after(request, fresh.asked, newest)
    fresh = fresh.with_warnings([moved] if moved else [])
    said = messages.plans_next(
        fresh, on.next_number, on.after, restart=on.restart, adopts=bool(adopted(order, on)), by_marks=on.by_marks
    )
    return Create(fresh, on.next_number, said, on.after, position=on.position)


def _orders_something(order: NextBatch, on: GoesOn) -> bool:
    """Whether a person's order has to be on record, also where nothing is new: else it holds for this run alone."""
    wrote, me = on.newest.log.last_instance if on.newest else None, order.me.instance
    takes_over = me is not None and wrote not in (None, me)
    return bool(on.foreign) or on.restart is not None or on.by_marks or takes_over


def _records_something(fresh: Draft, position: Position | None) -> bool:
    """Whether an empty plan moves the position: a first start, a re-created topic, records that were lost."""
    if position is None:
        return True
    after = position_after(fresh, position)
    moved = any(position.offsets.get(tp, KeptOffset(0)).offset != kept.offset for tp, kept in after.offsets.items())
    same_logs = all(after.topic_ids.get(topic) == topic_id for topic, topic_id in position.topic_ids.items())
    return moved or not same_logs or after.cluster_id != position.cluster_id


def _set_back_warning(fresh: Draft, on: GoesOn) -> list[str]:
    """The first plan of a pipeline takes the group over, also where that is further."""
    if not fresh.asked.mirrors or on.newest is not None or on.by_marks:
        return []
    ahead = [p for p in fresh.partitions if p.committed_offset is not None and p.committed_offset > p.end_offset]
    if not ahead:
        return []
    first = ahead[0]
    return [
        f"Group {fresh.asked.group_id!r} is ahead of this plan in {len(ahead)} partitions ({first.topic_partition}: at "
        f"{first.committed_offset}, the plan ends at {first.end_offset}). The commit sets it back."
    ]


# ── an unfinished batch, of the log or a window ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A batch that is to be done, and who is to do it.

    :ivar take: whether somebody else had it before.
    :ivar on: where the pipeline goes on; ``None`` for a window, which goes on from nowhere.
    """

    order: NextBatch | Window
    s: Situation
    batch: StoredBatch
    take: bool
    on: GoesOn | None

    @property
    def plan(self) -> Plan:
        return self.batch.log.plan

    @property
    def what(self) -> str:
        return str(self.plan.batch) if self.on else f"the {claim_of(self.plan)}"

    def replaced(self, plan: Plan, *, moves_output: bool = False) -> Replace:
        return Replace(self.batch, plan, f"plans {self.what} anew: {plan.reason}", moves_output)

    def fresh(self) -> Draft:
        """What the batch would be, planned now from where it goes on, into the output that it has."""
        request, me, old = self.order.request, self.order.me, self.plan
        if self.on is None:
            drafted = window_draft(self.order, self.s)
        else:
            kept = self.batch.log.planned.position
            if self.on.restart is not None:
                start = Start(None, kept=kept, applied=old.restarts, restart=self.on.restart)
            else:
                start = Start(position_within(old, kept), kept, adopted(self.order, self.on), old.restarts)
            drafted = draft(request, me, self.s, start).with_warnings(self.on.warnings)
            if self.on.restart is None:  # what the startup mode has decided once stays decided
                asked = replace(drafted.asked, startup=old.asked.startup)
                drafted = replace(drafted, restarted=old.restarted, asked=asked)
        output, left = output_of_batch(request, drafted.asked, self.batch, self.s)
        drafted = drafted.with_warnings([left] if left else [])
        return replace(drafted, asked=replace(drafted.asked, output=output))


def _do(unfinished: _Unfinished) -> Decision:
    """The unfinished batch: as it is, or planned anew in place where that cannot be."""
    order, s, batch, plan = unfinished.order, unfinished.s, unfinished.batch, unfinished.plan
    request, me, skip = order.request, order.me, order.request.words.skip
    if skip is not None and plan.reason != skip.words:
        verified = verified_splits(plan, s.need(Reports(batch))) if skip.past else {}
        return unfinished.replaced(skipped(plan, me, skip, verified))
    reason = _why_anew(unfinished)
    if reason is not None:
        return _plan_anew(unfinished, reason)
    moved = _moved_output(unfinished)
    if moved is not None:
        return moved
    records = s.need(RecordsOf(plan))
    group_id = request.scope.group_id
    if unfinished.on and not missing(plan, records) and plan.asked.mirrors and group_id != plan.asked.group_id:
        asked = replace(plan.asked, group_id=group_id, mirrors=request.mirrors)  # who uses the old one must not stop it
        return unfinished.replaced(planned_anew(plan, replace(plan, asked=asked), me, f"its group is {group_id!r}"))
    return _take_what_is_there(unfinished, records)


def _why_anew(unfinished: _Unfinished) -> str | None:
    order, on, words = unfinished.order, unfinished.on, unfinished.order.request.words
    if words.re_plan:
        return "re_plan"
    if unfinished.plan.withdrawn:
        return "it was withdrawn"
    if on is not None and on.restart is not None:
        return f"restart {on.restart}"
    if on is not None and adopted(order, on):
        return "the group is adopted"
    return None


def _plan_anew(unfinished: _Unfinished, reason: str) -> Decision:
    """By a new look-up. What a window has written may be all that is left of its records.

    :raises DataLoss: a window's records are gone, and no policy gives them up.
    """
    order, plan, fresh = unfinished.order, unfinished.plan, unfinished.fresh
    if unfinished.on is None:
        gone = missing(plan, unfinished.s.need(RecordsOf(plan)))
        if gone and order.request.policies.on_data_loss == "fail":
            keep = "Leave out re_plan to keep the rows that are written. " if order.request.words.re_plan else ""
            raise DataLoss(
                gone, messages.advance_or_stop(f"The records went after {unfinished.what} was planned.", keep)
            )
        reason = "; ".join([reason, *messages.gone(gone)])
    return unfinished.replaced(planned_anew(plan, fresh(), order.me, reason))


def _moved_output(unfinished: _Unfinished) -> Replace | None:
    """The batch planned anew into the output that the DAG names now; ``None`` where it stays."""
    order, s, batch, plan = unfinished.order, unfinished.s, unfinished.batch, unfinished.plan
    task = (order.me.run.dag_id, order.me.run.task_id) if order.me.run else None
    asks = replace(plan.asked, output=order.request.output, task=task)
    output, left = output_of_batch(order.request, asks, batch, s)
    if output == plan.asked.output:
        return None
    if left:
        refuse_records_left_behind(missing(plan, s.need(RecordsOf(plan))), str(plan.asked.output))
    moved = replace(plan.with_warnings([left] if left else []), asked=replace(asks, output=output))
    anew = planned_anew(plan, moved, order.me, f"its output is {output}")
    return unfinished.replaced(anew, moves_output=not left)


def missing(plan: Plan, records: RecordsNow) -> list[str]:
    """A line for each topic and range of the whole plan that is not there as it was planned."""
    needed = hulls(plan.splits)
    return [*records.another_log, *records.deleted(needed), *records.replaced(needed)]


def _take_what_is_there(unfinished: _Unfinished, records: RecordsNow) -> Decision:
    """As it is where all records are there. Where some are gone, only splits that are not verified need theirs.

    :raises DataLoss: they need what is gone, and no policy gives it up.
    """
    order, s, batch, plan = unfinished.order, unfinished.s, unfinished.batch, unfinished.plan
    gone = missing(plan, records)
    splits = tuple(plan.splits_to_start())
    if gone:
        attempts = s.need(Reports(batch))
        verified = verified_splits(plan, attempts)
        needed = hulls(split for number, split in enumerate(plan.splits) if number not in verified)
        deleted, replaced = records.deleted(needed), records.replaced(hulls(plan.splits))
        lost = [*records.another_log, *deleted, *replaced]
        if not unverified(plan, attempts):
            splits = ()
        elif not lost:
            splits = tuple(number for number in splits if number not in verified)
        elif order.request.policies.on_data_loss == "fail" and not records.another_log:
            first = f"The records went after {unfinished.what} was planned, and before it was read."
            raise DataLoss(lost, messages.advance_or_stop(first))
        elif records.another_log or replaced:  # what is written of it is not in the log any more
            return unfinished.replaced(planned_anew(plan, unfinished.fresh(), order.me, messages.gone(lost)[0]))
        else:
            shorter = shortened(plan, order.me, verified, records.log_starts, messages.gone(lost)[0])
            return unfinished.replaced(shorter)
    unread, warnings = _unread(unfinished)
    holder = batch.log.holder
    failed = s.need(FailedTasks(holder.run)) if _may_tell(unfinished) and holder.run else []
    said = (
        messages.does(unfinished.what, batch.log, order.me, failed)
        if splits or not gone
        else f"finishes {unfinished.what}: all of it is written, and verified"
    )
    return Take(batch, splits, unfinished.take, said, unread, records.waiting(plan) if unfinished.on else 0, warnings)


def _may_tell(unfinished: _Unfinished) -> bool:
    """Whether Airflow may know how another run's tasks ended: it is one of this Airflow, and not this very run."""
    me, holder = unfinished.order.me, unfinished.batch.log.holder
    if holder == me or holder.run is None or holder.instance != me.instance:
        return False
    return me.run is None or not holder.run.is_same_dag_run(me.run)


def _unread(unfinished: _Unfinished) -> tuple[int, tuple[str, ...]]:
    """How many offsets the same look-up would find now and a window's plan lacks, and a warning if there are some."""
    if unfinished.on is not None:
        return 0, ()
    try:
        now = window_draft(unfinished.order, unfinished.s)
    except RefusedError:  # a replay is not refused for what it does not read
        return 0, ()
    missed = offsets_beside(unfinished.plan, now)
    unread = sum(missed.values())
    return unread, (missed_by_window(missed),) if unread else ()


# ── a committed batch, of the log or a window ─────────────────────────────────────────────────────────────────────────


def _do_again(order: NextBatch | Window, s: Situation, batch: StoredBatch, on: GoesOn | None) -> Decision:
    """Once more; where its records are gone, what is written stays."""
    plan = batch.log.plan
    if on is not None and adopted(order, on):
        raise group_moved(order.request.scope.group_id, on.foreign, on.position)
    what = str(plan.batch) if on else f"the {claim_of(plan)}"
    records = s.need(RecordsOf(plan))
    gone = missing(plan, records)
    unread, warnings = _unread(_Unfinished(order, s, batch, False, on))
    if gone:
        if order.request.words.redo:
            raise DataLoss(
                gone, f"{plan.batch if on else what} is committed, and its output stays as it is. Leave out redo."
            )
        return _leave(order, batch, messages.leaves_for_good(what), (*warnings, messages.went(what, gone)))
    splits = tuple(plan.splits_to_start())
    attempts = s.need(HighestAttempts(batch, splits))
    because = "redo asks for it" if on else "each run of a window writes it anew"
    said = messages.does_once_more(what, batch.log, order.me, because)
    return DoAgain(batch, splits, attempts, said, unread, records.waiting(plan) if on else 0, warnings)


def _leave(order: NextBatch | Window, batch: StoredBatch, said: str, warnings: tuple[str, ...] = ()) -> Leave:
    """``taken`` is appended if the log says that somebody has it, or does it again."""
    again = batch.log.redone
    mine_again = again is not None and bool(again.attempts) and again.by.run == order.me.run
    return Leave(batch, mine_again or batch.log.last_instance != order.me.instance, said, warnings)


# ── a window ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _window(order: Window, s: Situation) -> Decision:
    request, me = order.request, order.me
    claim = claim_of_request(request, topics_now(order, s)) or claim_of(window_draft(order, s))
    batch, number = s.need(WindowNamed(claim.name))
    own = s.need(BatchTakenBy(me.run)) if batch is None and me.run else None
    if own is not None and own.folder == f"windows/{claim.name}":  # the records may be gone by now
        raise BatchGone(str(me.run), str(claim), "was cleaned away", own.output)
    if request.policies.on_another_airflow == "fail":
        refuse_another_airflows_log(me, batch, batch.log.last_instance if batch else None)
    if batch is None:
        return _create_window(order, s, claim, number)
    step = next_step(me, batch.log, own=True, again=True, is_running=lambda run: s.need(IsRunning(run)))
    if isinstance(step, steps.Wait):
        return Wait(batch, step.holder)
    unfinished = _Unfinished(order, s, batch, isinstance(step, steps.Do) and step.take, None)
    skip, closed = request.words.skip, isinstance(step, steps.DoAgain)
    if skip is not None and (closed or skip.batch not in (claim.name, batch.log.plan.batch.key)):
        why = "it is committed; use re_plan" if closed else f"this run's window is {claim.name}"
        raise BatchClosed("skip", skip.batch, why)
    if not closed:
        return _do(unfinished)
    reason = _why_anew(unfinished)
    return _do_again(order, s, batch, None) if reason is None else _plan_anew(unfinished, reason)


def _create_window(order: Window, s: Situation, claim: Claim, number: int) -> Create:
    fresh = window_draft(order, s)
    before = s.need(WindowBefore(claim)) if isinstance(claim, TimeClaim) else None
    plan = before.log.plan if before else None
    moved = output_after(order.request, fresh.asked, plan, "the window before it is written to")
    fresh = fresh.with_warnings([moved] if moved else [])
    return Create(fresh, number, f"plans the {claim}: no run has planned it yet", claim=claim)


def window_draft(order: NextBatch | Window, s: Situation) -> Draft:
    """The window as it would be planned now, with what came too late for the one before."""
    fresh = draft(order.request, order.me, s, Start())
    claim = claim_of(fresh)
    if not isinstance(claim, TimeClaim) or claim.by_topic:
        return fresh
    before = s.need(WindowBefore(claim))
    return fresh if before is None else count_late(before.log.plan, fresh)
