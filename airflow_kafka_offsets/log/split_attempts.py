"""One attempt at a split, as the Spark driver sees it: begin, look, report.

::

    is the plan the current one? ─► list the split ─► begun <highest + 1>-<random> ─► look ─► write ─► look ─► report

A driver cannot be stopped from outside: it may be given up for dead and wake up hours later. So it looks. Before it has
written, whoever has overtaken it makes it stop and report *nothing written*, which takes nothing from a finished split.
After it has written, or failed in its write, it puts a higher attempt on record that never reports: what both may have
written is then verified by nobody, until the split is written anew. One that failed, and whose output still has each
record once, reports *nothing written*: Kafka may not have these records any more, and the report before it is true.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.errors import LateAttempt, PlanReplaced, StoreUnavailable
from airflow_kafka_offsets.log.pipeline_log import newer_plan
from airflow_kafka_offsets.log.read_reports import attempt_numbers, begin_attempt, has_reported, report_of, store_report
from airflow_kafka_offsets.log.verify_reads import ReadReport
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.stores.store import Store


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
