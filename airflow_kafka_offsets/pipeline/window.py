"""Plans a window. A window by time, or by explicit offsets, is a batch that is named after its bounds.

Its plan belongs to the window and not to the run, so whoever plans it again replays it into the same output. Windows do
not stand on each other and touch neither position nor group; that is why one may be planned anew after its commit.

The order is the rule: plan, then claim the name in each month that the window lies in, then look who else is there. Of
two windows that overlap at least one finds the other; two that plan in the same moment may both be refused.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_kafka_offsets.errors import (
    BatchClosed,
    BatchGone,
    DataLoss,
    RefusedError,
    WindowOverlaps,
)
from airflow_kafka_offsets.offsets.batch.anew import emptied, planned_anew, skipped
from airflow_kafka_offsets.offsets.batch.log import Committed, Do, DoAgain, Planned, PlanNext, Taken, Wait, next_step
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.plan.splits import splits_to_start
from airflow_kafka_offsets.offsets.window.claims import (
    Claim,
    TimeClaim,
    batch_name_of,
    claim_of,
    claim_of_request,
    time_claim_of_name,
)
from airflow_kafka_offsets.offsets.window.late import count_late, missed_by_window, offsets_beside
from airflow_kafka_offsets.pipeline.draft import Start, draft
from airflow_kafka_offsets.pipeline.group import look_at_group, refuse_another_airflow
from airflow_kafka_offsets.pipeline.plan import (
    Asker,
    Assignment,
    goes_elsewhere,
    into_its_output,
    leave,
    overlapping,
    put_on_record,
)
from airflow_kafka_offsets.pipeline.records import Records, look_for_records
from airflow_kafka_offsets.pipeline.said import does, does_once_more, leaves_for_good
from airflow_kafka_offsets.stores.outputs import Kind
from airflow_kafka_offsets.stores.pipeline_log import StoredBatch
from airflow_kafka_offsets.stores.reads import has_begun, highest_attempts, is_read

log = logging.getLogger(__name__)


def plan_window(asker: Asker) -> Assignment:
    """Decide what the run does, and put it on record before anything is read.

    :raises OverlappingRun: another run that is running has the window; waiting helps.
    :raises WindowOverlaps: another window of the pipeline has records of this one.
    :raises RefusedError: to go on would lose records or write them twice; nothing was written.
    """
    while True:
        assignment = _try(asker)
        if assignment is not None:
            return assignment
        log.info("Somebody was faster at this window: looking again")


def _try(asker: Asker) -> Assignment | None:
    pipeline = asker.pipeline
    description = asker.cluster.describe(asker.request.scope.subscription)
    claim = claim_of_request(asker.request, description) or claim_of(_draft(asker))
    batch, number = pipeline.look_at_window(claim.name)
    _refuse_gone(asker, claim, batch)
    refuse_another_airflow(asker.request, asker.signature, batch, {})
    step = next_step(asker.me, batch.log if batch else None, own=True, again=True, is_running=asker.around.is_running)
    match step, batch:
        case PlanNext(), None:
            plan = replace(_draft(asker), batch=batch_name_of(claim, pipeline.pipeline_id))
            begun = pipeline.begin_window(claim.name, number, Planned(plan))
            return (
                None if begun is None else _settle(asker, begun, claim, f"plans the {claim}: no run has planned it yet")
            )
        case Wait(holder), StoredBatch():
            raise overlapping(holder, batch)
        case Do(take), StoredBatch():
            return _do(asker, batch, claim, take)
        case DoAgain(), StoredBatch():
            return _do_again(asker, batch, claim)
    raise AssertionError(f"{step} at {claim}")


def _draft(asker: Asker) -> OffsetPlan:
    description = asker.cluster.describe(asker.request.scope.subscription)
    held, warnings = look_at_group(asker.request, asker.cluster, description.partitions())
    plan = draft(asker.request, asker.cluster, description, held, Start())
    return _with_late(asker, asker.signed(plan.with_warnings(warnings)))


def _refuse_gone(asker: Asker, claim: Claim, batch: StoredBatch | None) -> None:
    """:raises BatchGone: this run did the window, and its log was cleaned away: the records may be gone by now."""
    own = asker.pipeline.batch_of_run(asker.run) if batch is None and asker.run else None
    if own is not None and own.folder == f"windows/{claim.name}":
        raise BatchGone(str(asker.run), str(claim), "was cleaned away", own.output)


def _do(asker: Asker, batch: StoredBatch, claim: Claim, take: bool) -> Assignment | None:
    request, plan = asker.request, batch.log.plan
    skip = request.words.skip
    if skip is not None:
        if skip.batch not in (claim.name, plan.batch.key if plan.batch else None):
            raise BatchClosed("skip", skip.batch, f"this run's window is {claim.name}")
        if plan.reason != skip.words:
            return _replan(asker, batch, claim, skipped(plan, asker.signed(plan), skip))
    records = look_for_records(plan, asker.cluster)
    if request.words.re_plan or plan.withdrawn:
        return _plan_anew(asker, batch, claim, records)
    if goes_elsewhere(asker, batch):
        return _replan(asker, batch, claim, into_its_output(asker, batch))
    if not records.there and not is_read(batch):
        return _plan_anew(asker, batch, claim, records)
    splits = tuple(splits_to_start(plan)) if records.there else ()
    unread, warnings = _unread(asker, plan)
    taken = batch.append(Taken(asker.me, request.occasion.now_ms, unread=unread)) if take else batch
    if taken is None:
        return None
    settled = _settle(asker, taken, claim, does(f"the {claim}", batch.log, asker.me, asker.around), splits)
    return replace(settled, warnings=warnings)


def _plan_anew(asker: Asker, batch: StoredBatch, claim: Claim, records: Records) -> Assignment | None:
    """By a new look-up. What is written may be all that is left of the records, and the rows would become fewer.

    :raises DataLoss: records are gone, and no policy gives them up.
    """
    words, plan = asker.request.words, batch.log.plan
    reason = "re_plan" if words.re_plan else "it was withdrawn" if plan.withdrawn else ""
    if not records.there:
        if asker.request.policies.on_data_loss == "fail":
            keep = "Leave out re_plan to keep the rows that are written. " if words.re_plan else ""
            raise DataLoss(
                records.lines,
                f'The records went after the {claim} was planned. {keep}Set on_data_loss="advance" to read '
                'what is left, in the DAG or for one run in its conf: {"kafka_offsets": {"on_data_loss": "advance"}}.',
            )
        reason = f"{reason}{'; ' * bool(reason)}records are gone: {'; '.join(records.lines[:3])}"
    return _replan(asker, batch, claim, planned_anew(plan, _draft(asker), reason))


def _do_again(asker: Asker, batch: StoredBatch, claim: Claim) -> Assignment | None:
    request, plan = asker.request, batch.log.plan
    if request.words.skip is not None:
        raise BatchClosed("skip", request.words.skip.batch, "it is committed; use re_plan")
    records = look_for_records(plan, asker.cluster)
    if request.words.re_plan or plan.withdrawn:
        return _plan_anew(asker, batch, claim, records)
    unread, warnings = _unread(asker, plan)
    if not records.there:
        if request.words.redo:
            raise DataLoss(records.lines, f"The {claim} is committed, and its output stays as it is. Leave out redo.")
        log.warning("The records of the %s are gone: %s", claim, "; ".join(records.lines))
        left = leave(asker, batch, leaves_for_good(f"the {claim}"))
        return left and replace(left, warnings=warnings)
    splits = splits_to_start(plan)
    taken = batch.append(Taken(asker.me, request.occasion.now_ms, highest_attempts(batch, splits), unread))
    if taken is None:
        return None
    put_on_record(asker, taken, _kind(claim))
    assert batch.log.committed is not None  # or it would not be done again
    said = does_once_more(f"the {claim}", batch.log.committed, asker.me, "each run of a window writes it anew")
    return Assignment(taken, tuple(splits), said, warnings=warnings)


def _unread(asker: Asker, plan: OffsetPlan) -> tuple[int, tuple[str, ...]]:
    """How many offsets the same look-up would find now and ``plan`` lacks, and a warning if there are some."""
    try:
        now = _draft(asker)
    except RefusedError as error:  # a replay is not refused for what it does not read
        log.info("What the same look-up would find now is not known: %s", error.message)
        return 0, ()
    missed = offsets_beside(plan, now)
    unread = sum(missed.values())
    return unread, (missed_by_window(missed),) if unread else ()


def _replan(asker: Asker, batch: StoredBatch, claim: Claim, plan: OffsetPlan) -> Assignment | None:
    again = batch.append(Planned(plan))
    return None if again is None else _settle(asker, again, claim, f"plans the {claim} anew: {plan.reason}")


def _settle(
    asker: Asker, batch: StoredBatch, claim: Claim, said: str, splits: tuple[int, ...] | None = None
) -> Assignment:
    """After the plan is on record: claim the window, give way to one that was there first, record the run's batch.

    :raises WindowOverlaps: another window is in the way.
    """
    asker.pipeline.claim(claim, batch.log.plan_number)
    given_up = batch.log.plan.empty and batch.log.plan.reason is not None  # else two that have begun block each other
    others = [] if given_up else _in_the_way(asker, claim)
    if others:
        raise WindowOverlaps(str(claim), asker.pipeline.pipeline_id, others, _withdraw(asker, batch))
    put_on_record(asker, batch, _kind(claim))
    return Assignment(batch, tuple(splits_to_start(batch.log.plan)) if splits is None else splits, said)


def _kind(claim: Claim) -> Kind:
    """Windows by time and by offsets do not see whether they overlap each other: each kind has outputs of its own."""
    return "windows" if isinstance(claim, TimeClaim) else "windows by offsets"


def _in_the_way(asker: Asker, claim: Claim) -> list[str]:
    """A line for each other window that has, or may have, records of this one."""
    names = {name for place in claim.places for name in asker.pipeline.windows_in(place)} - {claim.name}
    found = []
    for name in sorted(names):
        by_time = time_claim_of_name(name)
        if by_time is not None and isinstance(claim, TimeClaim) and not claim.overlaps(by_time):
            continue  # its name says enough: no need to read it
        other = asker.pipeline.window(name)
        if other is None or (other.log.plan.empty and other.log.committed):
            continue
        if claim.overlaps(claim_of(other.log.plan)):
            by = other.log.committed.by if other.log.committed else other.log.holder
            found.append(f"{claim_of(other.log.plan)}, by {by}")
    return found


def _withdraw(asker: Asker, batch: StoredBatch) -> bool:
    """Plan the window anew as empty, and commit that at once, if no driver has begun it: so it blocks nobody."""
    if batch.log.committed or has_begun(batch):
        return False
    plan = emptied(batch.log.plan, asker.signed(batch.log.plan), "withdrawn: it overlaps another window")
    plan = replace(plan, withdrawn=True)  # it says which splits to overwrite, for a driver that begins at this moment
    withdrawn = batch.append(Planned(plan))
    if withdrawn is None or has_begun(batch):
        return False
    return withdrawn.append(Committed(asker.me, asker.request.occasion.now_ms, plan.plan_id)) is not None


def _with_late(asker: Asker, plan: OffsetPlan) -> OffsetPlan:
    """With what came too late for the window before, which is listed in the month where that one ended."""
    claim = claim_of(plan)
    if not isinstance(claim, TimeClaim) or claim.by_topic or claim.start_ms < 1:
        return plan
    place = TimeClaim(claim.start_ms - 1, claim.start_ms).places[0]
    for name in asker.pipeline.windows_in(place):
        before = time_claim_of_name(name)
        if before is not None and before.end_ms == claim.start_ms:
            found = asker.pipeline.window(before.name)
            if found is not None and not found.log.plan.withdrawn:
                return count_late(found.log.plan, plan)
    return plan
