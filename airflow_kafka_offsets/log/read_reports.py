"""A batch's reads in the work store: each split's attempts, and their reports.

``<split>-<n>-<random>.begun.json`` before a split is read, ``….report.json`` at the end, beside the entries of the
batch's log: so one listing shows the current plan and every attempt. An attempt takes the number above the highest that
it finds. That needs no exclusive creation, which Hadoop's file systems do not have everywhere: two that begin at once
have one number, each finds the other when it looks again, and neither goes on.

What one attempt does::

    is the plan the current one? ─► list the split ─► begun <highest + 1>-<random> ─► look ─► write ─► look ─► report

A driver cannot be stopped from outside: it may be given up for dead and wake up hours later. So it looks. Before it has
written, whoever has overtaken it makes it stop and report *nothing written*, which takes nothing from a finished split.
After it has written, or failed in its write, it puts a higher attempt on record that never reports: what both may have
written is then verified by nobody, until the split is written anew. One that failed, and whose output still has each
record once, reports *nothing written*: Kafka may not have these records any more, and the report before it is true.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_kafka_offsets.errors import LateAttempt, PlanReplaced, StoreUnavailable
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import StoredBatch, entries_since_clean, newer_plan
from airflow_kafka_offsets.log.verify_reads import Attempt, ReadReport
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.stores.objects import create_object, read_object
from airflow_kafka_offsets.stores.store import Store, together

_NAME = re.compile(r"(0|[1-9][0-9]{0,4})-([0-9]{6,17})-([a-z0-9]+)\.(begun|report)\.json")


def attempt_numbers(names: Iterable[str], split: int) -> list[tuple[int, str]]:
    """Number and random part of every attempt at a split that has begun, ascending.

    :param names: what the batch's folder holds.
    """
    found = (match for name in names if (match := _NAME.fullmatch(name)))
    return sorted({(int(match[2]), match[3]) for match in found if int(match[1]) == split})


def last_attempts(names: Iterable[str]) -> dict[int, tuple[int, int]]:
    """Of each split the number of the last attempt that began, and of the last that has reported; 0: none.

    :param names: what the batch's folder holds.
    """
    found: dict[int, tuple[int, int]] = {}
    for match in filter(None, map(_NAME.fullmatch, names)):
        split, number = int(match[1]), int(match[2])
        begun, reported = found.get(split, (0, 0))
        found[split] = max(begun, number), max(reported, number * (match[4] == "report"))
    return found


def has_begun(store: Store, plan_object: str) -> bool:
    """Whether a Spark job has begun to read any split of any plan of the batch that has the plan ``plan_object``.

    A window that was cleaned away and planned again is another batch: a late job of the one before does not count.
    """
    folder, _, own = plan_object.rpartition("/")
    names = store.list(folder)
    begun = [name for name in names if _NAME.fullmatch(name)]  # a clean may have taken the one and left the other
    if not begun or own == "1.json":
        return bool(begun)
    entries = entries_since_clean(store, folder, names)
    plans = {entry.plan.plan_id for _, entry in entries if isinstance(entry, Planned)}
    return any(read_object(store, f"{folder}/{name}", lambda begun: begun.get("plan_id")) in plans for name in begun)


def begun_output(store: Store, folder: str) -> str | None:
    """The output that a Spark job has begun the batch in; ``None``: none has, or it did not name one."""
    begun = [match[0] for match in map(_NAME.fullmatch, store.list(folder)) if match and match[4] == "begun"]
    return read_object(store, f"{folder}/{min(begun)}", lambda value: value.get("output")) if begun else None


def begin_attempt(store: Store, folder: str, split: int, number: int, random: str, value: Mapping[str, Any]) -> None:
    create_object(store, f"{folder}/{_attempt(split, number, random)}.begun.json", {"version": 1, **value})


def set_aside_before(store: Store, folder: str, split: int, number: int) -> list[Mapping[str, Any]]:
    """Where the attempts at a split before this one may have set bad records aside: the words of each sink, once."""
    earlier = [found for found in attempt_numbers(store.list(folder), split) if found[0] < number]
    names = (f"{folder}/{_attempt(split, *found)}.begun.json" for found in earlier)
    words = [read_object(store, name, lambda begun: begun.get("set_aside")) for name in names]
    return [one for index, one in enumerate(words) if one is not None and one not in words[:index]]


def store_report(store: Store, folder: str, random: str, report: ReadReport) -> None:
    create_object(store, f"{folder}/{_attempt(report.split, report.attempt, random)}.report.json", report.to_dict())


def has_reported(names: Iterable[str], split: int, number: int, random: str) -> bool:
    """Whether one attempt has made its report.

    :param names: what the batch's folder holds.
    """
    return f"{_attempt(split, number, random)}.report.json" in names


def report_of(store: Store, folder: str, split: int, number: int, random: str) -> ReadReport | None:
    """The report of one attempt; ``None`` where it has made none."""
    return read_object(store, f"{folder}/{_attempt(split, number, random)}.report.json", ReadReport.from_dict)


def sole_attempts(names: Iterable[str]) -> dict[int, int] | None:
    """Of each split its attempt, where one attempt at each has begun and reported, and the log is two entries.

    ``None``: the folder holds anything else.
    """
    found = {int(match[1]): match for match in map(_NAME.fullmatch, names) if match}
    reads = {f"{match[0].partition('.')[0]}.{kind}.json" for match in found.values() for kind in ("begun", "report")}
    if {*names} != {"1.json", "2.json", *reads}:
        return None
    return {split: int(match[2]) for split, match in found.items()}


def highest_attempts(batch: StoredBatch, splits: Collection[int]) -> dict[int, int]:
    """Of each split the number of its highest attempt so far; 0: none, as of a job that makes no report."""
    found = last_attempts(batch.store.list(batch.folder))
    return {split: found.get(split, (0, 0))[0] for split in splits}


def definitions_written(batch: StoredBatch) -> list[str]:
    """The row definitions that the batch's rows were written with: of each split by the newest report of a write."""
    found = filter(None, map(_NAME.fullmatch, batch.store.list(batch.folder)))
    names = sorted((int(name[1]), int(name[2]), name[0]) for name in found if name[4] == "report")
    reports = (partial(read_object, batch.store, f"{batch.folder}/{name[2]}", ReadReport.from_dict) for name in names)
    read = zip(names, together(batch.store, *reports), strict=True)
    newest = {name[0]: report.rows for name, report in read if report is not None and report.wrote}
    return sorted(set(filter(None, newest.values())))


def deciding_attempts(batch: StoredBatch) -> dict[int, list[Attempt]]:
    """Of each split that was started the attempts with the highest number that may have written.

    They decide whether the split is verified.
    """
    names, splits = batch.store.list(batch.folder), sorted(batch.log.plan.splits_with_rows())
    progress = Progress("read the reports", len(splits), "splits")
    decided = {}
    found = together(batch.store, *(partial(attempts_of, batch.store, batch.folder, names, split) for split in splits))
    for split, attempts in zip(splits, found, strict=True):
        decided[split] = attempts
        progress.add()
    return decided


def attempts_of(store: Store, folder: str, names: Iterable[str], split: int) -> list[Attempt]:
    """The attempts at one split that decide whether it is verified; none where nobody began.

    :param names: what the batch's folder holds.
    """
    deciding: list[Attempt] = []
    for number, random in reversed(attempt_numbers(names, split)):
        if deciding and number < deciding[0].number:
            break
        attempt = Attempt(number, report_of(store, folder, split, number, random))
        if attempt.may_have_written:
            deciding.append(attempt)
    return deciding


def _attempt(split: int, number: int, random: str) -> str:
    return f"{split}-{number:06}-{random}"


# ── one attempt, as the Spark driver sees it ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SplitAttempt:
    """An attempt that is on record.

    :ivar plan_object: the name of the object that holds the plan.
    :ivar number: above that of every attempt before.
    :ivar random: tells it from another one that began at the same moment.
    """

    store: Store
    plan_object: str
    plan: Plan
    split: int
    output: str | None
    number: int
    random: str

    def look(self, *, wrote: bool = False) -> None:
        """Go on only while nobody has taken this attempt's place.

        :param wrote: whether it has changed an output already. If it has not, and stops here, it says so on record.
        :raises LateAttempt: another attempt at this split has begun since.
        :raises PlanReplaced: the batch was planned anew.
        """
        rival, replaced = self._overtaken(self.store.list(self._folder))
        if rival is None and replaced is None:
            return
        if not wrote:
            self.report_nothing_written()
        if replaced is not None:
            raise PlanReplaced(str(self.plan.batch), self.plan.plan_id, replaced)
        raise LateAttempt(str(self), f"attempt {rival}", self.output or "the output", wrote)

    def report(self, report: ReadReport) -> None:
        """Put on record what was written; once.

        :raises LateAttempt: another attempt has begun since, or the batch was planned anew; there is no report then.
        :raises StoreUnavailable: this attempt has reported something else already.
        """
        names = self.store.list(self._folder)
        rival, replaced = self._overtaken(names)
        if rival is not None or replaced is not None:
            begin(self.store, self.plan_object, self.plan, self.split, self.output)
            by = f"attempt {rival}" if rival is not None else f"plan {replaced}" if replaced else "a clean"
            raise LateAttempt(str(self), by, self.output or "the output", wrote=True)
        reported = has_reported(names, self.split, self.number, self.random)
        if reported and report_of(self.store, self._folder, self.split, self.number, self.random) != report:
            raise StoreUnavailable(
                f"Cannot report {self}",
                "it has reported already",
                "One attempt makes one report: call report_batch once.",
            )
        store_report(self.store, self._folder, self.random, report)

    def note_failure(self, error: Exception, still_whole: Callable[[], bool], *, wrote: bool = False) -> None:
        """The write failed and may have changed the output: if somebody has taken this one's place, it is written anew.

        :param error: what the write raised; a ``LateAttempt`` says whether anything was written.
        :param wrote: whether it has changed an output in any case.
        :param still_whole: whether the output has each record of the split once; asked where one before may have
            written them.
        """
        whole = self.number > 1 and not isinstance(error, LateAttempt) and still_whole()
        names = self.store.list(self._folder)
        if has_reported(names, self.split, self.number, self.random):  # that nothing was written
            return
        if isinstance(error, LateAttempt) and not (error.wrote or wrote):
            self.report_nothing_written()
        elif self._overtaken(names) != (None, None):
            begin(self.store, self.plan_object, self.plan, self.split, self.output)
        elif whole:
            self.report_nothing_written()

    def report_nothing_written(self) -> None:
        report = ReadReport(self.plan.plan_id, self.split, self.number, "rows", {}, self.output, wrote=False)
        store_report(self.store, self._folder, self.random, report)

    @property
    def _folder(self) -> str:
        return self.plan_object.rpartition("/")[0]

    def _overtaken(self, names: Sequence[str]) -> tuple[int | None, str | None]:
        """The number of an attempt and the id of a plan that took this one's place; ``None`` where there is none."""
        return self._rival(names), newer_plan(self.store, self.plan_object, names)

    def _rival(self, names: Sequence[str]) -> int | None:
        """The number of another attempt that is not older and may have written."""
        for number, random in attempt_numbers(names, self.split):
            if number < self.number or (number, random) == (self.number, self.random):
                continue
            report = report_of(self.store, self._folder, self.split, number, random)
            if report is None or report.wrote:
                return number
        return None

    def __str__(self) -> str:
        return f"attempt {self.number} at split {self.split} of {self.plan.batch}"


def begin(
    store: Store,
    plan_object: str,
    plan: Plan,
    split: int,
    output: str | None,
    names: Sequence[str] | None = None,
    set_aside: Mapping[str, Any] | None = None,
) -> SplitAttempt:
    """Put the next attempt on record; :meth:`SplitAttempt.look` comes next.

    :param set_aside: the words of the sink for bad records. The next attempt takes back what this one puts there.
    :param names: what the batch's folder held when this job looked; by default it looks now. Who looked too early takes
        a number that another one has, and stops.
    """
    folder = plan_object.rpartition("/")[0]
    number = max((n for n, _ in attempt_numbers(store.list(folder) if names is None else names, split)), default=0) + 1
    random = secrets.token_hex(4)
    begin_attempt(
        store, folder, split, number, random, {"plan_id": plan.plan_id, "output": output, "set_aside": set_aside}
    )
    return SplitAttempt(store, plan_object, plan, split, output, number, random)


def require_current(store: Store, plan_object: str, plan: Plan, names: Sequence[str]) -> None:
    """:raises PlanReplaced: the batch was planned anew since this plan was handed out."""
    replaced = newer_plan(store, plan_object, names)
    if replaced is not None:
        raise PlanReplaced(str(plan.batch), plan.plan_id, replaced)
