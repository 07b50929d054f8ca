"""What the work store keeps of a plan's reads: each split's attempts, and their reports.

::

    reads/<plan_id>/<split>/begun.<attempt>.json                      before a split is read
    reads/<plan_id>/<split>/refused.<attempt>.json                    it came too late, and has read nothing
    reads/<plan_id>/<split>/report.<attempt>.json                     after its sink has succeeded
    outputs/<output>/owner.1.json                                     the task instance that writes there, and no other
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.errors import InvalidRequest, PlanReplaced, StoreUnavailable
from airflow_kafka_offsets.offsets.assign import started_splits
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.verify import ReadReport, SplitAttempt
from airflow_kafka_offsets.stores.objects import WorkStore, of_known_version, safe_name
from airflow_kafka_offsets.stores.runs import StoredPlan, find_plan, folder_of_reads, plans_of_run, refuse_replaced


def begin_read(store: WorkStore, plan: OffsetPlan, split: int, output: str | None) -> int:
    """Record that a split is about to be read; the number of this attempt, which its report must carry.

    :raises InvalidRequest: the output is another task's: two would overwrite each other, and both be verified.
    """
    value = {"version": 1, "plan_id": plan.plan_id, "split": split, "output": output}
    if output is not None:
        owner = str(plan.run) if plan.run else plan.plan_id
        first = store.first(f"outputs/{safe_name(output)}", "owner", {"version": 1, "owner": owner}).value["owner"]
        if first != owner:
            raise InvalidRequest(
                [f"{output} is the output of {first}, and {owner} would overwrite it: give each a base of its own."]
            )
    return store.append(_reads(plan.plan_id, split), "begun", value).number


def begin_read_unless_replaced(store: WorkStore, plan: OffsetPlan, split: int, output: str | None) -> int:
    """As :func:`begin_read`, for a job: nobody knows how long it has waited.

    It goes on record before it looks, so that who replaces the plan after that look finds it there. Where it has to
    give up, that goes on record too: it has written nothing.

    :raises PlanReplaced: the run has another plan by now.
    """
    attempt = begin_read(store, plan, split, output)
    try:
        refuse_replaced(store, plan)
    except PlanReplaced:
        store.create(f"{_reads(plan.plan_id, split)}/refused.{attempt}.json", {"version": 1})
        raise
    return attempt


def store_report(store: WorkStore, report: ReadReport) -> None:
    """Record what an attempt wrote. Once: a second report of one attempt would have to be another truth.

    :raises StoreUnavailable: it cannot be written, or that attempt has reported already.
    """
    name = f"{_reads(report.plan_id, report.split)}/report.{report.attempt}.json"
    if not store.create(name, report.to_dict()):
        raise StoreUnavailable(
            f"Cannot write {name} in the work store {store.uri}",
            "this attempt has reported already",
            "Report once per read, after the last write has succeeded.",
        )


def withdraw_late(store: WorkStore, plan: OffsetPlan, split: int, attempt: int) -> str | None:
    """What has taken the place of an attempt that has just written: a later attempt, or another plan of the run.

    Where something has, the output may hold what both wrote. Another attempt is put on record, which never reports:
    with it no report of this output counts, until the split is written anew.
    """
    current = (find_plan(store, plan.run) if plan.run else None) or StoredPlan(plan, "")
    numbers = _begun(store, plan, split)
    if current.plan.plan_id != plan.plan_id:
        by = f"plan {current.plan.plan_id}"
    elif numbers and numbers[-1] != attempt:
        by = f"attempt {numbers[-1]}"
    else:
        return None
    if split < current.plan.splits:
        begin_read(store, current.plan, split, None)
    return by


def latest_attempts(store: WorkStore, plan: OffsetPlan, splits: Iterable[int]) -> dict[int, SplitAttempt]:
    """The newest attempt at each split that has begun, with its report if it has one.

    A half-written ``begun`` still counts as an attempt: its output may be half overwritten.
    """
    attempts = {}
    for split in splits:
        numbers = _begun(store, plan, split)
        if numbers:
            name = f"{_reads(plan.plan_id, split)}/report.{numbers[-1]}.json"
            value = store.read(name)
            report = of_known_version(store, name, ReadReport.from_dict, value) if value else None
            attempts[split] = SplitAttempt(numbers[-1], report)
    return attempts


def begun_outputs(store: WorkStore, plan: OffsetPlan) -> list[str]:
    """What the splits of a plan have begun to write, one line each; empty where none has begun."""
    return [
        f"split {split}: {begun.value.get('output') or 'the job did not say where'}"
        for split in range(plan.splits)
        for begun in store.series(_reads(plan.plan_id, split), "begun", without=_refused(store, plan, split))[-1:]
    ]


def begun_outputs_of_run(store: WorkStore, plan: OffsetPlan) -> list[str]:
    """The same of every plan that the run has had: a plan that was replaced may have left an output."""
    plans = {found.plan_id: found for found in (plan, *_others(store, plan))}
    return sorted({line for found in plans.values() for line in begun_outputs(store, found)})


def begun_by_others(store: WorkStore, plan: OffsetPlan) -> bool:
    """Whether another plan of the run has begun to write, so that the output may not be this plan's any more."""
    return any(begun_outputs(store, other) for other in _others(store, plan))


def splits_left_over(store: WorkStore, plan: OffsetPlan) -> list[str]:
    """What other plans of the run have begun to write and ``plan`` does not overwrite, one line each.

    A job of a plan that was replaced before it began may come late (it waited in a queue), and finds that out only
    after it is on record.
    """
    started = set(started_splits(plan))
    return [
        f"split {split}: plan {other.plan_id}, which was replaced, has begun to write it, and plan {plan.plan_id} does "
        "not overwrite it"
        for other in _others(store, plan)
        for split in range(other.splits)
        if split not in started and set(_begun(store, other, split)) - _refused(store, other, split)
    ]


def _others(store: WorkStore, plan: OffsetPlan) -> list[OffsetPlan]:
    kept = plans_of_run(store, plan.run) if plan.run else []
    return [found.plan for found in kept if found.plan.plan_id != plan.plan_id]


def _begun(store: WorkStore, plan: OffsetPlan, split: int) -> list[int]:
    return store.numbers(_reads(plan.plan_id, split), "begun")


def _refused(store: WorkStore, plan: OffsetPlan, split: int) -> set[int]:
    return set(store.numbers(_reads(plan.plan_id, split), "refused"))


def _reads(plan_id: str, split: int) -> str:
    return f"{folder_of_reads(plan_id)}/{split}"
