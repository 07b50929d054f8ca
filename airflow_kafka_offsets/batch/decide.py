"""What a run does, and whether it may commit: one state machine for batches of the log and for windows (docs/log.md).

It is pure: an order and a situation give a decision, or what the situation lacks for it (``Lacking``). A window is a
batch that has its name from its bounds, moves no position, and may be planned anew after its commit.
"""

from __future__ import annotations

from airflow_kafka_offsets.batch import messages
from airflow_kafka_offsets.batch.decide_batch import (
    BatchAtHand,
    do,
    do_again,
    leave,
    plan_anew,
    why_anew,
    window_draft,
    with_what_may_be_lost,
)
from airflow_kafka_offsets.batch.make_draft import Start, draft
from airflow_kafka_offsets.batch.no_airflow import NoAirflow
from airflow_kafka_offsets.batch.orders import (
    Commit,
    Create,
    Decision,
    Follow,
    Nothing,
    RunsBatch,
    Wait,
)
from airflow_kafka_offsets.batch.ownership import (
    group_moved,
    output_after,
    refuse_another_airflows_log,
    refuse_another_of_this_run,
    signature_of,
)
from airflow_kafka_offsets.batch.pipeline_position import GoesOn, adopted, goes_on, log_now, topics_now
from airflow_kafka_offsets.batch.situation import (
    RecordsOf,
    Reports,
    Situation,
    TopicsThatExist,
    WindowsBeside,
)
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import (
    BadRecords,
    BatchClosed,
    BatchGone,
    DataLoss,
    InvalidRequest,
    PlanReplaced,
    ReadNotVerified,
    StoreUnavailable,
)
from airflow_kafka_offsets.log.entries import Committed, History, Step, next_step
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.verify_reads import (
    ALL_ROWS,
    attempts_that_looked,
    fates_of,
    reads_of,
    require_verified,
    unverified,
)
from airflow_kafka_offsets.plan.completeness import not_planned
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.plan.position import Position, position_after
from airflow_kafka_offsets.plan.records_now import hulls
from airflow_kafka_offsets.plan.window_claims import Claim, TimeClaim, claim_of, claim_of_request
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.values.row_definition import Limit


def decide_run(order: RunsBatch, s: Situation) -> Decision:
    """
    :raises Lacking: an answer is not known yet.
    :raises RefusedError: to go on would lose records or read them twice.
    :raises RequestError: the order cannot be carried out.
    """
    return _window(order, s) if order.request.window else _next_batch(order, s)


def _next_batch(order: RunsBatch, s: Situation) -> Decision:
    request, me, on, own = order.request, order.me, goes_on(order, s), log_now(order, s).own
    if own is not None and own.folder is None:
        return Nothing(messages.NOTHING_AT_FIRST)
    batch = on.newest
    refuse_another_of_this_run(request, me, batch)
    if own is not None:
        batch = s.log(PipelineLog.read, own.folder or "")
        if batch is None:
            raise BatchGone(str(me.run), f"batch {own.key}", "was cleaned away", own.output)
        if not batch.log.committed and (on.newest is None or batch.folder != on.newest.folder):
            raise BatchGone(str(me.run), f"batch {own.key}", "was passed by when the group was adopted", own.output)
    step = next_step(
        me,
        batch.log if batch else None,
        own=own is not None,
        again=request.run_orders.redo,
        is_running=lambda run: s.airflow(NoAirflow.is_running, run),
    )
    if step == "do" and on.by_group:
        step = "plan next"  # the group knows that batch, or a later one, as committed: it is passed by
    _refuse_run_orders(order, batch, step, is_own=own is not None)
    if batch is None or step == "plan next":
        return _create(order, s, on)
    at_hand = BatchAtHand(order, s, batch, on)
    match step:
        case "wait":
            return Wait(batch)
        case "do":
            return do(at_hand)
        case "do again":
            return do_again(at_hand)
        case "leave":
            return leave(at_hand, messages.leaves(str(batch.log.plan.batch), batch.log.by))


def _refuse_run_orders(order: RunsBatch, batch: StoredBatch | None, step: Step, *, is_own: bool) -> None:
    """A run keeps its conf: what it has carried out before is no word any more when the run is cleared.

    :raises BatchClosed: a person's word names what it cannot change.
    """
    run_orders, plan = order.request.run_orders, batch.log.plan if batch else None
    name = plan.batch if plan else None
    planned_so = plan is not None and plan.by.run == order.me.run and (plan.reason or "").startswith("re_plan")
    if run_orders.re_plan and step in ("do again", "leave") and not planned_so:
        raise BatchClosed("re_plan", str(name), "it is committed")
    if run_orders.skip is None or step == "wait" or (is_own and name and run_orders.skip.batch == name.key):
        return
    if step != "do" or name is None:
        raise BatchClosed("skip", run_orders.skip.batch, "there is no unfinished batch for this run to do")
    if run_orders.skip.batch != name.key:
        raise BatchClosed("skip", run_orders.skip.batch, f"the unfinished batch is {name.key}")


def _create(order: RunsBatch, s: Situation, on: GoesOn) -> Decision:
    """A new batch from the position on; nothing if there are no new records, and nothing to record."""
    request, me = order.request, order.me
    if request.run_context.run_type == "backfill":
        raise InvalidRequest(
            (
                "A backfill run does its own batch again, or reads a window; this one has no batch. Use "
                "startup_mode='timestamp' and bounded_mode='timestamp', which take the run's data interval, or its "
                "partition.",
            )
        )
    newest = on.newest.log.plan if on.newest else None
    history = on.newest.log.history if on.newest else History()
    words = (*(newest.restarts if newest else ()), *filter(None, (request.restart_of_dag,)))
    applied = tuple(word for word in dict.fromkeys(words) if word != on.restart)
    if on.restart is not None:
        start = Start(None, saved=on.position, applied=applied, restart=on.restart, before=newest)
    else:
        start = Start(on.position, on.position, adopted(order, on), applied, before=newest, whole=not on.by_group)
    fresh = draft(request, me, s, start).with_warnings(on.warnings)
    fresh = fresh.with_warnings(_set_back_warning(fresh, on))
    fresh = with_what_may_be_lost(order, s, fresh) if start.position is None else fresh
    if fresh.empty and not _orders_something(order, on) and not _records_something(request, fresh, on.position):
        return Nothing(messages.has_nothing(on.after), fresh)
    moved = output_after(request, fresh.asked, newest)
    fresh = fresh.with_warnings([moved] if moved else [])
    sentence = messages.plans_next(
        fresh, on.next_number, on.after, restart=on.restart, adopts=bool(adopted(order, on)), by_group=on.by_group
    )
    return Create(fresh, on.next_number, sentence, on.after, position=on.position, history=history)


def _orders_something(order: RunsBatch, on: GoesOn) -> bool:
    """Whether a person's order has to be on record, also where nothing is new: else it holds for this run alone."""
    wrote, me = on.newest.log.last_instance if on.newest else None, order.me.instance
    takes_over = me is not None and wrote not in (None, me)
    return bool(on.foreign) or on.restart is not None or on.by_group or takes_over


def _records_something(request: PlanRequest, fresh: Draft, position: Position | None) -> bool:
    """Whether an empty plan moves the position: a first start, a re-created topic, records that were lost.

    A new partition that was never written would start at 0 in any later run; by another policy it would skip records.
    One that is held is on record all the same: records may come before the run that reads it, and another policy.
    """
    if position is None:
        return True
    after = position_after(fresh, position)
    unknown = 0 if request.policies.answers["new_partition"] == "earliest" else None
    before = {tp: saved.offset for tp, saved in position.offsets.items()}
    held = {p.topic_partition for p in fresh.partitions if p.held}
    moved = any(before.get(tp, None if tp in held else unknown) != at.offset for tp, at in after.offsets.items())
    same_logs = all(after.topic_ids.get(topic) == topic_id for topic, topic_id in position.topic_ids.items())
    return moved or not same_logs or after.cluster_id != position.cluster_id


def _set_back_warning(fresh: Draft, on: GoesOn) -> list[str]:
    """The first plan of a pipeline takes the group over, also where that is further."""
    if not fresh.asked.group_follows or on.newest is not None or on.by_group:
        return []
    ahead = [p for p in fresh.partitions if p.committed_offset is not None and p.committed_offset > p.end_offset]
    if not ahead:
        return []
    first = ahead[0]
    return [
        f"Group {fresh.asked.group_id!r} is ahead of this plan in {len(ahead)} partitions ({first.topic_partition}: at "
        f"{first.committed_offset}, the plan ends at {first.end_offset}). The commit sets it back."
    ]


# ── a window ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _window(order: RunsBatch, s: Situation) -> Decision:
    request, me = order.request, order.me
    claim = claim_of_request(request, topics_now(order, s)) or claim_of(window_draft(order, s))
    batch, number = s.log(PipelineLog.look_at_window, claim.name)
    own = s.log(PipelineLog.batch_of_run, me.run) if batch is None and me.run else None
    if own is not None and own.folder == f"windows/{claim.name}":  # the records may be gone by now
        raise BatchGone(str(me.run), str(claim), "was cleaned away", own.output)
    if request.policies.answers["another_airflow"] == "fail":
        refuse_another_airflows_log(me, batch)
    if batch is None:
        return _create_window(order, s, claim, number)
    refuse_another_of_this_run(request, me, batch)
    step = next_step(me, batch.log, own=True, again=True, is_running=lambda run: s.airflow(NoAirflow.is_running, run))
    if step == "wait":
        return Wait(batch)
    at_hand = BatchAtHand(order, s, batch, None)
    skip, closed = request.run_orders.skip, step == "do again"
    done = closed and skip is not None and (batch.log.plan.by.run, batch.log.plan.reason) == (me.run, skip.words)
    if skip is not None and not done and (closed or skip.batch not in (claim.name, batch.log.plan.batch.key)):
        why = "it is committed; use re_plan" if closed else f"this run's window is {claim.name}"
        raise BatchClosed("skip", skip.batch, why)
    if not closed:
        return do(at_hand)
    reason = why_anew(at_hand)
    return do_again(at_hand) if reason is None else plan_anew(at_hand, reason)


def _create_window(order: RunsBatch, s: Situation, claim: Claim, number: int) -> Create:
    fresh = window_draft(order, s, first=True)
    before, _, ended_ms = s.need(WindowsBeside(claim)) if isinstance(claim, TimeClaim) else (None, None, None)
    if order.request.policies.answers["another_airflow"] == "fail":
        refuse_another_airflows_log(order.me, before)
    plan = before.log.plan if before else None
    moved = output_after(order.request, fresh.asked, plan, "the window before it is written to")
    fresh = fresh.with_warnings([moved] if moved else [])
    if isinstance(claim, TimeClaim) and not claim.by_topic and ended_ms is not None and ended_ms < claim.start_ms:
        fresh = fresh.with_warnings([not_planned(ended_ms, claim.start_ms)])
    history = History(before.log.history.definitions if before else ())
    sentence = f"plans the {claim}: no run has planned it yet"
    return Create(fresh, number, sentence, claim=claim, history=history)


# ── whether a batch may be committed (docs/log.md, rule 4) ────────────────────────────────────────────────────────────
# To create the next entry of the batch's log *is* the commit. Everything before can be given up without a trace.


def decide_commit(order: Commit, s: Situation) -> Follow:
    """
    :raises ReadNotVerified: the reports do not show that the batch was read.
    :raises BadRecords: more of its records were set aside than the limit allows.
    :raises DataLoss: Spark may have read other records than were planned.
    :raises PlanReplaced: the batch was planned anew since Spark was given its plan.
    :raises GroupMoved: somebody else wrote to the group; nothing was committed.
    :raises StoreUnavailable: this is not the store that the run was planned in.
    """
    reference, me = order.reference, order.me
    if reference.folder is None:
        return Follow()
    batch = s.log(PipelineLog.read, reference.folder)
    if batch is None:
        _refuse_another_store(order, reference.folder, s)
        raise BatchGone(str(me.run), f"batch {reference.folder}", "was cleaned away")
    refuse_another_airflows_log(me, batch)
    plan, position = batch.log.plan, batch.log.planned.position
    if plan.plan_id != reference.plan_id:
        raise PlanReplaced(str(plan.batch), str(reference.plan_id), plan.plan_id)
    proof, fates, reports = None, ALL_ROWS, None
    again = batch.log.redone
    newer_than = again.attempts if again and again.by.run == me.run else None
    if order.require_report:
        read_back = order.require_report == "read-back"
        reports = s.need(Reports(batch))
        proof, fates = require_verified(plan, reports, newer_than, read_back=read_back), fates_of(reports)
        _refuse_too_many(batch, fates.set_aside, order.limit)
    if batch.log.committed is None or newer_than is not None:
        _refuse_what_no_task_shows(order, batch, s)
        _refuse_another_log(batch, s)
    if batch.log.committed:
        return Follow(batch, None, proof, fates)
    group_id = plan.asked.group_id
    if plan.asked.group_follows and group_id is not None:  # looked at last, so that a reset meanwhile is found
        held = s.cluster(Cluster.committed, group_id, tuple(p.topic_partition for p in plan.partitions))
        foreign = signature_of(batch.log, me).foreign(held, position)
        if foreign and _is_on_its_cluster(plan, s):
            raise group_moved(group_id, foreign, position)
    after = None if plan.asked.window else position_after(plan, position)
    definitions = tuple(sorted(filter(None, fates.definitions)))
    reads = None if reports is None else reads_of(plan, reports)
    entry = Committed(
        me, order.now_ms, plan.plan_id, fates.set_aside, fates.left_out, definitions, reads, position=after
    )
    return Follow(batch, entry, proof, fates)


def _is_on_its_cluster(plan: Plan, s: Situation) -> bool:
    """Another cluster's group says nothing of this batch. Where none of its topics is there, no group has offsets."""
    there = s.need(TopicsThatExist(tuple(plan.found.topic_ids)))
    return there is not None and there.cluster_id == plan.found.cluster_id


def _refuse_what_no_task_shows(order: Commit, batch: StoredBatch, s: Situation) -> None:
    """Where no report is asked for, the tasks of the run that has the batch show that it was read.

    :raises ReadNotVerified: one has not succeeded; or another run has taken it, whose job may be writing.
    """
    plan, holder, run = batch.log.plan, batch.log.holder, order.me.run
    lines = [f"task {task}" for task in order.not_done]
    if run is not None and not order.require_report and not (holder.run and holder.run.is_same_dag_run(run)):
        lines.append(f"{holder} has taken {plan.batch} since")
    if lines and plan.splits_to_start() and unverified(plan, s.need(Reports(batch))):
        raise ReadNotVerified(
            lines,
            f"No report is asked for, so only the tasks of the run that has {plan.batch} show that it was read: this "
            "one commits nothing. Clear the run from that task on. Where another run has it, that one commits it.",
        )


def _refuse_another_log(batch: StoredBatch, s: Situation) -> None:
    """Offsets do not say which records Spark has read. A log that is the same now was so while it read.

    One that was cut, and ends below the range, was read before. Whether a topic was made anew, a driver has seen before
    it reported, if it could.

    :raises DataLoss: a log was cut and has grown past its range since, or a topic is another one, and not all reports
        show that the one before was read.
    """
    plan = batch.log.plan
    if not plan.to_read():
        return
    records = s.need(RecordsOf(plan, may_hold=True))
    grown = [p for p in hulls(plan.splits) if records.ends.get(p.topic_partition, 0) >= p.end_offset]
    lines = records.replaced(grown)
    made_anew = records.made_anew
    if made_anew and unverified(plan, attempts_that_looked(plan, s.need(Reports(batch)), made_anew)):
        lines += made_anew.values()
    if lines:
        raise DataLoss(lines, _after_another_log(batch))


def _after_another_log(batch: StoredBatch) -> str:
    """What happened, and what to do: a committed batch of the log is not planned anew."""
    plan = batch.log.plan
    may_have = f"Spark may have read other records than those that were planned for {plan.batch}"
    if batch.log.committed and not plan.asked.window:
        return (
            f"{may_have}, which was committed before and is done again. The next batch reads those records, too. Look "
            f"at the rows with kafka_batch = '{plan.batch.key}': remove those from these offsets on that the topic has "
            "now, and that the batch did not have before. Then clear the run from its resolve task on: it leaves the "
            "batch as it is."
        )
    return (
        f"{may_have}, so nothing is committed. Clear the run from its resolve task on, or let the next run plan the "
        'batch anew into the same place: for a log that was cut with policies={"data_loss": "advance"}, for a topic '
        'that was created again with {"topic_recreated": "earliest"}. (A window that is committed needs "re_plan" '
        "beside it in the run's conf.)"
    )


def _refuse_too_many(batch: StoredBatch, set_aside: int, limit: Limit | None) -> None:
    """Each driver has counted its own split.

    :raises BadRecords: all splits together have more than the limit allows.
    """
    plan = batch.log.plan
    allowed = set_aside if limit is None else limit.allowed(plan.record_count_upper_bound)
    if set_aside > allowed:
        before = "It was committed before" if batch.log.committed else "Nothing is committed"
        left = f"{before}; its rows and its bad records are in the outputs until it is done again."
        raise BadRecords(str(plan.batch), set_aside, allowed, str(limit), left=left)


def _refuse_another_store(order: Commit, folder: str, s: Situation) -> None:
    """Which batch a run took is never cleaned away: where that is not known, the run was planned in another place.

    :raises StoreUnavailable: it was.
    """
    run = order.me.run
    if run is not None and s.log(PipelineLog.batch_of_run, run) is None:
        raise StoreUnavailable(
            f"Cannot find {folder} of pipeline {s.pipeline!r} in the work store {s.store}",
            f"what is seen under this name knows nothing of run {run}, which its resolve task has planned",
            "This worker must see the work store that the resolve task wrote. A local folder works on one machine: set "
            "[kafka_offsets] work_store to a place that all machines reach.",
        )
