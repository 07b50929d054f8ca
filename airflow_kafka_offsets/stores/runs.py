"""What the work store keeps of a run: its frozen plan, the receipt of its commit, and its splits' attempts and reports.

::

    plans/<dag_id>/<run_id>/<task_id>/<map_index>/plan.<n>.json       the first valid one is the run's plan
    plans/<dag_id>/<run_id>/<task_id>/<map_index>/receipt.<n>.json    written after its commit; kept as long as the plan
    plans-of-no-run/<plan_id>/plan.1.json                             what `unblock` made
    reads/<plan_id>/plan.1.json                                       where the plan is kept
    reads/<plan_id>/<split>/begun.<attempt>.json                      before a split is read
    reads/<plan_id>/<split>/refused.<attempt>.json                    it came too late, and has read nothing
    reads/<plan_id>/<split>/report.<attempt>.json                     after its sink has succeeded
    outputs/<output>/owner.1.json                                     the task instance that writes there, and no other
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_kafka_offsets.errors import InvalidRequest, PlanReplaced, StoreUnavailable
from airflow_kafka_offsets.offsets.assign import started_splits
from airflow_kafka_offsets.offsets.manifest import plan_from_dict, plan_to_dict
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.verify import ReadReport, SplitAttempt
from airflow_kafka_offsets.stores.objects import WorkStore, safe_name

T = TypeVar("T")


@dataclass(frozen=True)
class StoredPlan:
    """A plan and where it is kept. The reference is small and brace-safe, for arguments and XCom."""

    plan: OffsetPlan
    name: str


def _folder(run: RunKey) -> str:
    parts = (run.dag_id, run.run_id, run.task_id, str(run.map_index))
    return "/".join(["plans", *map(safe_name, parts)])


def _plan(store: WorkStore, name: str, value: dict[str, Any]) -> OffsetPlan:
    return _of_known_version(store, name, plan_from_dict, value)


def _of_known_version(store: WorkStore, name: str, read: Callable[[dict[str, Any]], T], value: dict[str, Any]) -> T:
    try:
        return read(value)
    except ValueError as error:
        raise StoreUnavailable(
            f"Cannot use {name} in the work store {store.uri}",
            str(error),
            "Use the version of airflow-kafka-offsets that wrote it, here and where the Spark driver runs.",
        ) from error


def store_plan(store: WorkStore, run: RunKey, plan: OffsetPlan) -> StoredPlan:
    """Freeze ``plan`` for ``run``; if the run has a valid plan already, that one is returned and ``plan`` forgotten."""
    kept = store.first(_folder(run), "plan", plan_to_dict(plan))
    stored = StoredPlan(_plan(store, kept.name, kept.value), kept.name)
    remember_plan(store, stored.plan.plan_id, stored.name)
    return stored


def store_plan_of_no_run(store: WorkStore, plan: OffsetPlan) -> None:
    """Keep a plan that somebody makes outside of any run, so that its commit can be completed from it."""
    kept = store.first(f"plans-of-no-run/{safe_name(plan.plan_id)}", "plan", plan_to_dict(plan))
    remember_plan(store, plan.plan_id, kept.name)


def find_plan(store: WorkStore, run: RunKey) -> StoredPlan | None:
    """The run's frozen plan: the first valid one, or what has taken its place since."""
    valid = plans_of_run(store, run)
    if not valid:
        return None
    current = valid[0]
    for candidate in valid[1:]:
        if candidate.plan.replaces == current.plan.plan_id:  # the first that names it; a late rival names the same
            current = candidate
    return current


def plans_of_run(store: WorkStore, run: RunKey) -> list[StoredPlan]:
    """Every plan that was ever stored for the run, the oldest first; which of them counts: :func:`find_plan`."""
    kept = store.series(_folder(run), "plan")
    return [StoredPlan(_plan(store, found.name, found.value), found.name) for found in kept]


def refuse_replaced(store: WorkStore, plan: OffsetPlan) -> None:
    """:raises PlanReplaced: the run has another plan by now."""
    current = find_plan(store, plan.run) if plan.run else None
    if current is not None and current.plan.plan_id != plan.plan_id:
        raise PlanReplaced(str(plan.run), plan.plan_id, current.plan.plan_id)


def replace_plan(store: WorkStore, run: RunKey, successor: OffsetPlan) -> StoredPlan:
    """Put ``successor`` in the place of the plan that it replaces; a faster rival for that place wins."""
    added = store.append(_folder(run), "plan", plan_to_dict(successor))
    remember_plan(store, successor.plan_id, added.name)
    current = find_plan(store, run)
    assert current is not None  # the one that was just added, at least
    return current


def folder_of_reads(plan_id: str) -> str:
    """Where everything lies that names a plan by its id alone."""
    return f"reads/{safe_name(plan_id)}"


def remember_plan(store: WorkStore, plan_id: str, name: str) -> None:
    """Record where a plan is kept, so that it can be found by its id alone."""
    store.create(f"{folder_of_reads(plan_id)}/plan.1.json", {"version": 1, "plan_id": plan_id, "stored_as": name})


def find_plan_by_id(store: WorkStore, plan_id: str) -> OffsetPlan | None:
    """The plan, if it is still in the store.

    :raises StoreUnavailable: it is there, and of a version that is not known here.
    """
    where = store.read(f"{folder_of_reads(plan_id)}/plan.1.json")
    value = store.read(str(where["stored_as"])) if where else None
    plan = _plan(store, str(where["stored_as"]), value) if where and value else None
    if plan is None or plan.plan_id != plan_id:
        return None
    # A run that was planned anew to the same records has the plan more than once, upon another parent each time.
    stored = plans_of_run(store, plan.run) if plan.run else []
    return next((found.plan for found in reversed(stored) if found.plan.plan_id == plan_id), plan)


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


def begun_by_others(store: WorkStore, plan: OffsetPlan) -> bool:
    """Whether another plan of the run has begun to write, so that the output may not be this plan's any more."""
    return any(begun_outputs(store, other) for other in _others(store, plan))


def _others(store: WorkStore, plan: OffsetPlan) -> list[OffsetPlan]:
    kept = plans_of_run(store, plan.run) if plan.run else []
    return [found.plan for found in kept if found.plan.plan_id != plan.plan_id]


def read_stored_plan(store: WorkStore, name: str, plan_id: str) -> OffsetPlan:
    """The plan at ``name``, which must be ``plan_id``.

    :raises StoreUnavailable: it is not there, or it is another plan.
    """
    value = store.read(name)
    found = _plan(store, name, value) if value is not None else None
    if found is None or found.plan_id != plan_id:
        raise StoreUnavailable(
            f"Cannot read plan {plan_id} in the work store {store.uri}",
            f"{name} " + (f"holds plan {found.plan_id}" if found else "is not there, or was never written completely"),
            "The Spark driver and the Airflow workers must see one and the same work store. A local folder, the "
            "default, works on one machine only: set [kafka_offsets] work_store.",
        )
    return found


def stored_plan_number(name: str) -> int:
    """Which of the run's plans, from 1, is kept under ``name``; a plan that replaces another has a higher number."""
    return int(name.rsplit("/", 1)[-1].split(".")[1])


def store_receipt(store: WorkStore, run: RunKey, plan: OffsetPlan) -> None:
    """Record that ``plan`` was committed."""
    if plan.plan_id not in receipts(store, run):
        store.append(_folder(run), "receipt", {"version": 1, "plan_id": plan.plan_id})


def receipts(store: WorkStore, run: RunKey) -> set[str]:
    """The ids of the run's committed plans."""
    return {str(receipt.value["plan_id"]) for receipt in store.series(_folder(run), "receipt")}


def _reads(plan_id: str, split: int) -> str:
    return f"{folder_of_reads(plan_id)}/{split}"


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


def _begun(store: WorkStore, plan: OffsetPlan, split: int) -> list[int]:
    return store.numbers(_reads(plan.plan_id, split), "begun")


def _refused(store: WorkStore, plan: OffsetPlan, split: int) -> set[int]:
    return set(store.numbers(_reads(plan.plan_id, split), "refused"))


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
            report = _of_known_version(store, name, ReadReport.from_dict, value) if value else None
            attempts[split] = SplitAttempt(numbers[-1], report)
    return attempts
