"""What of the work store is old enough to go, and in which order it goes.

Each rule of the package that reads an old object keeps it here:

- a run's plans, receipts and reads go together, and only when the youngest of them is old: a run with a receipt but no
  plan is ``PlanLost``, a plan without its reads could not be verified, nor its outputs be told;
- a plan that goes on from the newest checkpoint of its pipeline stays, however old: its commit may have landed without
  its checkpoint, which the next run then writes from this plan. So does the plan that the newest checkpoint names: the
  group's marks name it, and another pipeline of that group looks up whose it is;
- of each chain of checkpoints the newest two valid ones stay, and all that is newer than they are; also one that names
  a plan which stays: it is the record of that plan's commit;
- the owner of an output stays as long as its run's plan; a turn that is not over stays, and the last one, so that no
  number is given twice.

Age is told by facts in the objects where there are any: a plan's ``resolved_at_ms``. Receipts, reads, checkpoints,
turns and half-written objects hold no time, and a plan that replaced another may hold that one's: for these it is the
file's modification time. A store that tells none keeps them.

A crash in the middle must be harmless, so a run's plans are removed first, then its reads, its receipt last: what is
left of a committed run is a receipt without a plan, which refuses (``PlanLost``) rather than plan that run anew, and
the next ``clean`` takes the rest. Reads without a plan are nobody's. Of a chain the oldest go first; of a turn that is
over, the turn before the object that says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from airflow_kafka_offsets.offsets.manifest import plan_from_dict
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.stores.objects import StoredFile, WorkStore
from airflow_kafka_offsets.stores.runs import folder_of_reads

Kind = Literal["plans", "reads", "receipts", "outputs", "checkpoints"]
KINDS: tuple[Kind, ...] = ("plans", "reads", "receipts", "outputs", "checkpoints")
KEPT_CHECKPOINTS = 2  # the newest valid one, and the one before, which counts should the newest be damaged

_NUMBER = re.compile(r".*/(?:\.[0-9a-f]+|(\w+)\.(\d+))\.(?:json|draft)")


@dataclass(frozen=True, slots=True)
class Removal:
    """One object to remove."""

    kind: Kind
    name: str
    size: int


@dataclass(eq=False)
class _Run:
    """What the store keeps of one run (or of one plan that is no run's): its plans, receipts and reads."""

    plans: list[OffsetPlan] = field(default_factory=list)
    plan_ids: set[str] = field(default_factory=set)
    files: list[StoredFile] = field(default_factory=list)  # plans and receipts
    reads: list[StoredFile] = field(default_factory=list)
    newest_ms: int | None = 0  # None: not known

    def seen(self, moment_ms: int | None) -> None:
        self.newest_ms = None if moment_ms is None or self.newest_ms is None else max(self.newest_ms, moment_ms)


def find_old(store: WorkStore, before_ms: int) -> list[Removal]:
    """What may be removed, in the order in which it has to be; everything in it is older than ``before_ms``."""
    chains = _folders(store, "checkpoints", depth=2)
    heads = [found for folder in chains for found in islice(store.newest_first(folder, "checkpoint"), 1)]
    newest = {str(head.value.get("id")) for head in heads}
    last = {str(head.value.get("plan_id")) for head in heads}
    runs = [_look_at(store, folder) for folder in _folders(store, "plans", depth=4)]
    runs += [_look_at(store, folder) for folder in _folders(store, "plans-of-no-run", depth=1)]
    going = [run for run in runs if _is_old(run.newest_ms, before_ms) and not _is_asked_for(run, newest, last)]
    staying = [run for run in runs if run not in going]
    known_reads = {folder_of_reads(plan_id) for run in runs for plan_id in run.plan_ids}
    kept_plans = {plan_id for run in staying for plan_id in run.plan_ids}
    owners = kept_plans | {str(plan.run) for run in staying for plan in run.plans if plan.run}
    return [
        *_orphans(store, known_reads, before_ms),
        *(removal for run in going for removal in _of_run(run)),
        *_outputs(store, owners, before_ms),
        *(removal for folder in chains for removal in _of_chain(store, folder, kept_plans, before_ms)),
    ]


def remove(store: WorkStore, removals: Iterable[Removal]) -> None:
    """Remove them, in this order. What is gone already is passed over."""
    for removal in removals:
        store.remove(removal.name)


def _is_old(moment_ms: int | None, before_ms: int) -> bool:
    return moment_ms is not None and moment_ms < before_ms


def _folders(store: WorkStore, root: str, depth: int) -> list[str]:
    found = [root]
    for _ in range(depth):
        found = [below for folder in found for below in store.folders(folder)]
    return found


def _look_at(store: WorkStore, folder: str) -> _Run:
    run = _Run()
    for file in store.files(folder):
        run.files.append(file)
        value = store.read(file.name) if _stem(file) == "plan" else None
        if value is None:
            run.seen(file.modified_ms)
            continue
        run.plan_ids.add(str(value.get("plan_id")))
        try:
            plan = plan_from_dict(value)
        except ValueError:  # of a version that is not known here: nobody can say what still needs it
            run.seen(None)
            continue
        run.plans.append(plan)
        run.seen(file.modified_ms if plan.replaces else plan.resolved_at_ms)
    for plan_id in sorted(run.plan_ids):
        for reads in _everything(store, folder_of_reads(plan_id)):
            run.reads.append(reads)
            if _stem(reads) != "plan":  # where the plan is kept: written with it
                run.seen(reads.modified_ms)
    return run


def _everything(store: WorkStore, folder: str) -> Iterator[StoredFile]:
    for below in store.folders(folder):
        yield from _everything(store, below)
    yield from store.files(folder)


def _is_asked_for(run: _Run, newest: set[str], last: set[str]) -> bool:
    return any(plan.parent in newest or plan.plan_id in last for plan in run.plans)


def _of_run(run: _Run) -> Iterator[Removal]:
    receipts = [file for file in run.files if _stem(file) == "receipt"]
    yield from (Removal("plans", file.name, file.size) for file in run.files if file not in receipts)
    yield from (Removal("reads", file.name, file.size) for file in run.reads)
    yield from (Removal("receipts", file.name, file.size) for file in receipts)


def _orphans(store: WorkStore, known: set[str], before_ms: int) -> Iterator[Removal]:
    """Reads whose plan is gone: an earlier ``clean`` did not come to its end."""
    for folder in store.folders("reads"):
        files = list(_everything(store, folder)) if folder not in known else []
        if all(_is_old(file.modified_ms, before_ms) for file in files):
            yield from (Removal("reads", file.name, file.size) for file in files)


def _outputs(store: WorkStore, owners: set[str], before_ms: int) -> Iterator[Removal]:
    for folder in store.folders("outputs"):
        files = store.files(folder)
        owned = any(found.value.get("owner") in owners for found in store.series(folder, "owner"))
        if not owned and all(_is_old(file.modified_ms, before_ms) for file in files):
            yield from (Removal("outputs", file.name, file.size) for file in files)


def _of_chain(store: WorkStore, folder: str, kept_plans: set[str], before_ms: int) -> Iterator[Removal]:
    valid = list(store.newest_first(folder, "checkpoint"))
    lowest_kept = valid[KEPT_CHECKPOINTS - 1].number if len(valid) >= KEPT_CHECKPOINTS else 0
    named = {found.number for found in valid if found.value.get("plan_id") in kept_plans}
    turns = store.numbers(folder, "turn")
    over = set(store.numbers(folder, "over"))
    old = [file for file in store.files(folder) if _is_old(file.modified_ms, before_ms)]
    for file in sorted(old, key=lambda file: (_stem(file) == "over", _number(file))):
        number = _number(file)
        match _stem(file):
            case "checkpoint":
                removable = number < lowest_kept and number not in named
            case "turn":
                removable = number in over and number != turns[-1]
            case "over":
                removable = not turns or number < turns[-1]
            case "draft":
                removable = True
            case _:
                removable = False
        if removable:
            yield Removal("checkpoints", file.name, file.size)


def _stem(file: StoredFile) -> str:
    """``plan`` of ``plan.3.json``; ``draft`` of what a writer that died left; else the empty string."""
    match = _NUMBER.fullmatch(file.name)
    if match is None:
        return ""
    return match[1] or "draft"


def _number(file: StoredFile) -> int:
    match = _NUMBER.fullmatch(file.name)
    return int(match[2] or 0) if match else 0
