"""What the work store keeps of a run: its frozen plans, and the receipt of its commit.

::

    plans/<dag_id>/<run_id>/<task_id>/<map_index>/plan.<n>.json       the first valid one is the run's plan
    plans/<dag_id>/<run_id>/<task_id>/<map_index>/receipt.<n>.json    written after its commit; kept as long as the plan
    plans-of-no-run/<plan_id>/plan.1.json                             what `unblock` made
    reads/<plan_id>/plan.1.json                                       where the plan is kept
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.errors import PlanReplaced, StoreUnavailable
from airflow_kafka_offsets.offsets.manifest import plan_from_dict, plan_to_dict
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.stores.objects import WorkStore, of_known_version, safe_name


@dataclass(frozen=True)
class StoredPlan:
    """A plan and where it is kept. The reference is small and brace-safe, for arguments and XCom."""

    plan: OffsetPlan
    name: str


def _folder(run: RunKey) -> str:
    parts = (run.dag_id, run.run_id, run.task_id, str(run.map_index))
    return "/".join(["plans", *map(safe_name, parts)])


def _plan(store: WorkStore, name: str, value: dict[str, Any]) -> OffsetPlan:
    return of_known_version(store, name, plan_from_dict, value)


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
