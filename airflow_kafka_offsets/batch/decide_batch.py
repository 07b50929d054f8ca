"""What a run does with a batch that is there, of the log or a window: do it, plan it anew in place, do it once more.

A window is a batch that has its name from its bounds, moves no position, and may be planned anew after its commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_kafka_offsets.batch import messages
from airflow_kafka_offsets.batch.make_draft import Start, draft, held_by_order, refuse_topics_made_anew
from airflow_kafka_offsets.batch.no_airflow import NoAirflow
from airflow_kafka_offsets.batch.orders import (
    Decision,
    Do,
    Leave,
    Replace,
    RunsBatch,
)
from airflow_kafka_offsets.batch.ownership import (
    group_moved,
    output_of_batch,
    refuse_records_left_behind,
    refuse_to_do_elsewhere,
    refuse_window_of_another_task,
)
from airflow_kafka_offsets.batch.pipeline_position import GoesOn, adopted, topics_now
from airflow_kafka_offsets.batch.retention_margin import near_retention
from airflow_kafka_offsets.batch.situation import (
    HighestAttempts,
    RecordsOf,
    Reports,
    SettingsOf,
    Situation,
    WindowsBeside,
)
from airflow_kafka_offsets.errors import (
    ClusterChanged,
    DataLoss,
    RefusedError,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Taken
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.verify_reads import attempts_that_looked, unverified, verified_splits
from airflow_kafka_offsets.plan.completeness import joined, may_be_lost, may_lack, missed_by_window, offsets_beside
from airflow_kafka_offsets.plan.missing_topics import vanished_topics
from airflow_kafka_offsets.plan.plan import Asked, Draft, Plan, VerifiedSplit
from airflow_kafka_offsets.plan.planned_anew import as_first_started, planned_anew, shortened, skipped
from airflow_kafka_offsets.plan.position import position_within
from airflow_kafka_offsets.plan.records_now import RecordsNow, hulls
from airflow_kafka_offsets.plan.window_claims import TimeClaim, claim_of
from airflow_kafka_offsets.request.modes import AtTimestamp


@dataclass(frozen=True, slots=True)
class BatchAtHand:
    """A batch that is there, and who is to do it.

    :ivar on: where the pipeline goes on; ``None`` for a window, which goes on from nowhere.
    """

    order: RunsBatch
    s: Situation
    batch: StoredBatch
    on: GoesOn | None

    @property
    def plan(self) -> Plan:
        return self.batch.log.plan

    @property
    def what(self) -> str:
        return str(self.plan.batch) if self.on else f"the {claim_of(self.plan)}"

    def records(self) -> RecordsNow:
        """Which records of the plan are there. Where a partition may be held, no leader is waited for.

        Unless rows of it are verified: to hold it would give them up, and nobody can tell whether Kafka still has the
        records.
        """
        policies = self.order.request.policies
        if self.on is None or (policies.answers["unavailable"] == "fail" and not policies.hold):
            return self.s.need(RecordsOf(self.plan))
        found = self.s.need(RecordsOf(self.plan, may_hold=True))
        if not found.unled(hulls(self.plan.splits)):
            return found
        verified = self.verified()
        read: dict[bool, set[TopicPartition]] = {True: set(), False: set()}  # by whether that is verified
        for number, split in enumerate(self.plan.splits):
            read[number in verified] |= {p.topic_partition for p in split} & found.without_answer
        to_hold = all(policies.may_hold(tp) and tp not in read[True] for tp in read[False])
        return found if to_hold else self.s.need(RecordsOf(self.plan))

    def verified(self) -> dict[int, VerifiedSplit]:
        """The splits that need not be read again."""
        return verified_splits(self.plan, self.s.need(Reports(self.batch)))

    def taken(self, attempts: Mapping[int, int] | None = None, unread: int = 0) -> Taken:
        """What says in the log that this run does the batch from now on.

        :param attempts: see :class:`Taken`; of an unfinished batch there are none.
        """
        return Taken(self.order.me, self.order.request.run_context.now_ms, attempts or {}, unread)

    def as_if(self, plan: Plan) -> BatchAtHand:
        """The same, were ``plan`` the batch's plan."""
        log = replace(self.batch.log, planned=replace(self.batch.log.planned, plan=plan))
        return replace(self, batch=replace(self.batch, log=log))

    def replaced(self, plan: Plan) -> Replace:
        plan = replace(plan, resolved_at_ms=self.order.request.run_context.now_ms)
        return Replace(self.batch, plan, f"plans {self.what} anew: {plan.reason}")

    def output(self, asks: Asked) -> tuple[str | None, str]:
        """The output that the batch has from now on, and a warning where rows stay behind.

        :raises DataLoss: rows would stay behind, and Kafka has their records no more.
        """
        output, left = output_of_batch(self.order.request, asks, self.batch, self.s)
        if left:
            refuse_records_left_behind(
                self.s.need(RecordsOf(self.plan)).missing(self.plan), self.plan.asked.output or "the output before"
            )
        return output, left

    def fresh(self) -> Draft:
        """What the batch would be, planned now from where it goes on, into the output that it has."""
        request, me, old = self.order.request, self.order.me, self.plan
        if self.on is None:
            drafted = window_draft(self.order, self.s, first=self.plan.withdrawn)
        else:
            saved = self.batch.log.planned.position
            if self.on.restart is not None:
                start = Start(None, saved=saved, applied=old.restarts, restart=self.on.restart)
            else:
                start = Start(position_within(old, saved), saved, adopted(self.order, self.on), old.restarts)
            drafted = draft(request, me, self.s, start).with_warnings(self.on.warnings)
            if self.on.restart is None:  # what the startup mode has decided once stays decided
                asked = replace(drafted.asked, startup=old.asked.startup)
                drafted = as_first_started(old, replace(drafted, restarted=old.restarted, asked=asked))
        output, left = self.output(drafted.asked)
        drafted = drafted.with_warnings([left] if left else [])
        return replace(drafted, asked=replace(drafted.asked, output=output))


def do(at_hand: BatchAtHand) -> Decision:
    """The unfinished batch: as it is, or planned anew in place where that cannot be."""
    order, plan = at_hand.order, at_hand.plan
    request, me, skip = order.request, order.me, order.request.run_orders.skip
    if skip is not None and plan.reason != skip.words:
        without = skipped(plan, me, skip, at_hand.verified() if skip.named else {})
        if without is not None:
            left = at_hand.as_if(without)
            held = held_in_words(left)
            return at_hand.replaced(without if held is None else plan_anew(left, f"{skip.words}; {held}").plan)
    reason = why_anew(at_hand)
    if reason is not None:
        return plan_anew(at_hand, reason)
    moved = _moved_output(at_hand)
    if moved is not None:
        return moved
    records = at_hand.records()
    follows, group_id = request.group_follows, request.scope.group_id
    if at_hand.on and plan.asked.group_follows and not records.missing(plan):
        # Who uses the old group must not stop it.
        asked = replace(plan.asked, group_id=group_id, group_follows=follows)
        if asked != plan.asked:
            reason = f"its group is {group_id!r}" if follows else "no group follows it"
            return at_hand.replaced(planned_anew(plan, replace(plan, asked=asked), me, reason))
    return _take_what_is_there(at_hand, records)


def why_anew(at_hand: BatchAtHand) -> str | None:
    order, on, run_orders = at_hand.order, at_hand.on, at_hand.order.request.run_orders
    if run_orders.re_plan:
        return "re_plan"
    held = held_in_words(at_hand)
    if held is not None:
        return held
    if at_hand.plan.withdrawn:
        return "it was withdrawn"
    if on is not None and on.restart is not None:
        return f"restart {on.restart}"
    if on is not None and adopted(order, on):
        return "the group is adopted"
    return None


def held_in_words(at_hand: BatchAtHand) -> str | None:
    """Which partitions the plan reads that a person holds."""
    by_order = held_by_order(at_hand.order.request, topics_now(at_hand.order, at_hand.s))
    held = by_order & {p.topic_partition for p in at_hand.plan.to_read()}
    return f"{', '.join(map(str, sorted(held)))} is held by order" if held else None


def plan_anew(at_hand: BatchAtHand, reason: str) -> Replace:
    """By a new look-up. What is written may be all that is left of the records.

    :raises DataLoss: a window's records are gone, and no policy gives them up; or the new plan would write over a split
        that is verified, and its records are gone.
    """
    order, plan, re_plan = at_hand.order, at_hand.plan, at_hand.order.request.run_orders.re_plan
    if at_hand.on is None:
        gone = at_hand.s.need(RecordsOf(plan)).missing(plan)
        if gone and order.request.policies.answers["data_loss"] == "fail":
            keep = "Leave out re_plan to keep the rows that are written. " if re_plan else ""
            raise DataLoss(gone, messages.advance_or_stop(f"The records went after {at_hand.what} was planned.", keep))
        reason = "; ".join([reason, *messages.gone(gone)])
        taken = {p.topic_partition.topic for p in plan.to_read()} - topics_now(order, at_hand.s).topics.keys()
        refuse_window_of_another_task(order.request, order.me, plan, taken, "take away the rows of")
    elif lines := _rows_without_records(at_hand):
        raise DataLoss(lines, _would_replace(at_hand))
    return at_hand.replaced(planned_anew(plan, at_hand.fresh(), order.me, reason))


def _would_replace(at_hand: BatchAtHand) -> str:
    """Which word of a person would replace verified rows, and what to do instead."""
    on, run_orders = at_hand.on, at_hand.order.request.run_orders
    words = {
        "re_plan": run_orders.re_plan,
        "restart": on is not None and on.restart is not None,
        "adopt-group": on is not None and bool(adopted(at_hand.order, on)),
    }
    word = next((word for word, is_said in words.items() if is_said), "hold")
    instead = f"Leave out {word}: the run"
    if word == "adopt-group":
        instead = 'A run with policies={"group_moved": "keep-checkpoint"}'
    return (
        f"{at_hand.what} has verified rows of these records, and {word} would replace them. {instead} keeps these "
        "rows, and does what is left of the batch. (To give the rows up, skip the batch.)"
    )


def _rows_without_records(at_hand: BatchAtHand) -> list[str]:
    """A line for each range of verified splits of which Kafka has deleted records, or whose topic is another one."""
    plan, records = at_hand.plan, at_hand.records()
    planned, here = hulls(plan.splits), topics_now(at_hand.order, at_hand.s).cluster_id
    if plan.found.cluster_id != here or records.replaced(planned) or not records.gone(planned):
        return []  # what is written of a log that was cut, or of another cluster, is planned anew in any case
    looked = attempts_that_looked(plan, at_hand.s.need(Reports(at_hand.batch)), records.made_anew)
    return records.gone(hulls(plan.splits[number] for number in verified_splits(plan, looked)))


def _moved_output(at_hand: BatchAtHand) -> Replace | None:
    """The batch planned anew into the output that the DAG names now; ``None`` where it stays."""
    order, plan = at_hand.order, at_hand.plan
    task = (order.me.run.dag_id, order.me.run.task_id) if order.me.run else None
    asks = replace(plan.asked, output=order.request.output, task=task)
    output, left = at_hand.output(asks)
    if output == plan.asked.output:
        return None
    moved = replace(plan.with_warnings([left] if left else []), asked=replace(asks, output=output))
    return at_hand.replaced(planned_anew(plan, moved, order.me, f"its output is {output}"))


def _take_what_is_there(at_hand: BatchAtHand, records: RecordsNow) -> Decision:
    """As it is where all records are there. Where some are gone, only splits that are not verified need theirs.

    :raises DataLoss: they need what is gone, and no policy gives it up.
    """
    order, s, batch, plan = at_hand.order, at_hand.s, at_hand.batch, at_hand.plan
    gone = records.missing(plan)
    splits = tuple(sorted(plan.splits_with_rows()))
    if gone:
        attempts = attempts_that_looked(plan, s.need(Reports(batch)), records.made_anew)
        verified = verified_splits(plan, attempts)
        needed = hulls(split for number, split in enumerate(plan.splits) if number not in verified)
        deleted, replaced = records.deleted(needed), records.replaced(hulls(plan.splits))
        lost = [*records.another_log, *deleted, *replaced]
        if not replaced and not unverified(plan, attempts):
            splits = ()
        elif (
            lost and order.request.policies.answers["data_loss"] == "fail" and not (records.another_log and at_hand.on)
        ):
            first = f"The records went after {at_hand.what} was planned, and before it was read."
            raise DataLoss(lost, messages.advance_or_stop(first))
        elif held := records.unled(needed):
            return plan_anew(at_hand, "; ".join(held))
        elif records.another_log or replaced:
            fresh, reason = at_hand.fresh(), messages.gone(lost)[0]  # it refuses what no policy allows
            if not at_hand.on or not _rows_without_records(at_hand):
                return at_hand.replaced(planned_anew(plan, fresh, order.me, reason))
            # Rows that nobody could write again stay. The next batch begins the new topic.
            left = shortened(plan, order.me, verified, records.begins(plan), reason)
            if left.plan_id != plan.plan_id:
                return at_hand.replaced(left)
            splits = tuple(number for number in splits if number not in verified)
        elif lost:
            reason = messages.gone(lost)[0]
            return at_hand.replaced(shortened(plan, order.me, verified, records.log_starts, reason))
        else:
            splits = tuple(number for number in splits if number not in verified)
    unread, warnings = _unread(at_hand)
    warnings += tuple(near_retention(order.request, s, plan.partitions, sorted(plan.topics), {}) if splits else ())
    holder = batch.log.holder
    failed = s.airflow(NoAirflow.failed_tasks, holder.run) if _may_tell(at_hand) and holder.run else []
    sentence = (
        messages.does(at_hand.what, batch.log, order.me, failed)
        if splits or not gone
        else f"finishes {at_hand.what}: all of it is written, and verified"
    )
    taken = at_hand.taken(unread=unread) if holder != order.me else None
    return Do(batch, splits, taken, sentence, records.waiting(plan) if at_hand.on else 0, warnings)


def _may_tell(at_hand: BatchAtHand) -> bool:
    """Whether Airflow may know how another run's tasks ended: it is one of this Airflow, and not this very run."""
    me, holder = at_hand.order.me, at_hand.batch.log.holder
    if holder == me or holder.run is None or holder.instance != me.instance:
        return False
    return me.run is None or not holder.run.is_same_dag_run(me.run)


def _unread(at_hand: BatchAtHand) -> tuple[int, tuple[str, ...]]:
    """How many offsets the same look-up would find now and a window's plan lacks, and a warning if there are some.

    :raises InvalidRequest: they are another DAG's, which would read them in no window.
    """
    if at_hand.on is not None:
        return 0, ()
    try:
        now = window_draft(at_hand.order, at_hand.s)
    except RefusedError:  # a replay is not refused for what it does not read
        return 0, ()
    order, plan, missed = at_hand.order, at_hand.plan, offsets_beside(at_hand.plan, now)
    left = {tp.topic for tp in missed} - plan.topics
    refuse_window_of_another_task(order.request, order.me, plan, left, "leave out the records of")
    unread = sum(missed.values())
    return unread, (missed_by_window(missed),) if unread else ()


def do_again(at_hand: BatchAtHand) -> Decision:
    """Once more; where its records are gone, what is written stays."""
    order, s, batch, on = at_hand.order, at_hand.s, at_hand.batch, at_hand.on
    plan, what = batch.log.plan, at_hand.what
    if on is not None and adopted(order, on):
        raise group_moved(order.request.scope.group_id, on.foreign, on.position)
    records = s.need(RecordsOf(plan))
    gone = records.missing(plan)
    unread, warnings = _unread(at_hand)
    if gone:
        if order.request.run_orders.redo:
            raise DataLoss(
                gone, f"{plan.batch if on else what} is committed, and its output stays as it is. Leave out redo."
            )
        return leave(at_hand, messages.leaves_for_good(what), (*warnings, messages.went(what, gone)))
    refuse_to_do_elsewhere(order.request, plan)
    splits = tuple(sorted(plan.splits_with_rows()))  # also what the plan keeps: corrected code writes all of it
    taken = at_hand.taken(s.need(HighestAttempts(batch, splits)), unread)
    because = "redo asks for it" if on else "each run of a window writes it anew"
    sentence = messages.does_once_more(what, batch.log, order.me, because)
    return Do(batch, splits, taken, sentence, records.waiting(plan) if on else 0, warnings)


def leave(at_hand: BatchAtHand, sentence: str, warnings: tuple[str, ...] = ()) -> Leave:
    """``taken`` is appended if the log says that somebody has it, or does it again."""
    order, batch = at_hand.order, at_hand.batch
    again = batch.log.redone
    mine_again = again is not None and again.by.run == order.me.run
    says_otherwise = mine_again or batch.log.last_instance != order.me.instance
    return Leave(batch, at_hand.taken() if says_otherwise else None, sentence, warnings)


def window_draft(order: RunsBatch, s: Situation, *, first: bool = False) -> Draft:
    """The window as it would be planned now, without what the one after it reads, and with what came too late for the
    one before.

    :param first: whether nothing is planned of it: then what is gone was never read.
    :raises DataLoss: records are gone that neither window has read, and no policy gives them up.
    :raises RefusedError: the window before is of another cluster or topic, and no policy says what then.
    """
    fresh = draft(order.request, order.me, s, Start())
    claim = claim_of(fresh)
    if not isinstance(claim, TimeClaim):
        return fresh
    found, after, _ = (None, None, None) if claim.by_topic else s.need(WindowsBeside(claim))
    before = found.log.plan if found else None
    fresh = fresh if before is None else _after(order, s, before, fresh)
    fresh = joined(fresh, before, after.log.plan if after else None, first=first)
    lines = [
        f"{p.topic_partition}: the window before this one ended at {p.start_offset - p.lost}, and the log begins at "
        f"{p.start_offset} now ({p.lost} offsets are gone)"
        for p in fresh.partitions
        if p.lost
    ]
    if lines and order.request.policies.answers["data_loss"] == "fail":
        raise DataLoss(lines, messages.advance_or_stop(f"The records went before the {claim} was planned."))
    return with_what_may_be_lost(order, s, fresh, before) if first else fresh


def _after(order: RunsBatch, s: Situation, before: Plan, fresh: Draft) -> Draft:
    """``fresh``, once it is known to be of the logs of the one before: what was not read of other ones is in no window.

    :raises ClusterChanged: they are another cluster's, and no policy says what then.
    :raises TopicRecreated: a topic was made anew, and no policy says what then.
    :raises TopicVanished: the pattern finds a topic no more, and no policy drops it.
    """
    request, now = order.request, topics_now(order, s)
    if before.found.cluster_id == now.cluster_id:
        refuse_topics_made_anew(request, before.found, now.topic_ids)
    elif request.policies.answers["cluster_changed"] == "fail":
        raise ClusterChanged(request.scope.pipeline_id or "", before.found.cluster_id, now.cluster_id)
    gone = vanished_topics(request, now.topics, before.topics)
    if gone:
        words = f"Topics {', '.join(gone)} are not matched any more: this window has no record of them."
        fresh = replace(fresh, found=replace(fresh.found, vanished=gone)).with_warnings([words])
    return fresh


def with_what_may_be_lost(order: RunsBatch, s: Situation, fresh: Draft, before: Plan | None = None) -> Draft:
    """``fresh``, which starts by time, with a warning where retention may have passed that time.

    :param before: the window before, which may know it.
    """
    since, now_ms = order.request.startup, order.request.run_context.now_ms
    if not isinstance(since, AtTimestamp):
        return fresh
    settings = s.need(SettingsOf(tuple(topics_now(order, s).topics)))
    perhaps = may_be_lost(before, fresh, since, settings, now_ms)
    return fresh.with_warnings([may_lack(perhaps)] if perhaps else [])
