"""Which rows of a table are a split's own, and with which options a write of them may be repeated.

Where the output is a folder, a repeat overwrites it. In a table it has to replace the rows of this run and split, in
one commit of the table. What must stay true: however often a split is written, by whichever plan of the run, the table
ends with the rows of the attempt that reports last, each once; and a driver that was given up and wakes up late does
not put its rows in their place.

Delta knows transactions of an application: a write with a version that is not above the recorded one is skipped, and
nobody is told. So a version must never be the same for two writes that both have to land:

- ``overwrite``: ``replaceWhere``, and a version that grows with every attempt and every plan of the run. That of a late
  driver is lower, and is skipped.
- ``append``: the version is the plan's, so that a second write of the plan is skipped. It can take nothing back. A plan
  that replaces one whose splits have begun would leave the former's rows beside its own: refused.

Iceberg has no such versions, so an append cannot be repeated there; its snapshots are only labelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.plan import OffsetPlan

TableFormat = Literal["delta", "iceberg"]
WriteMode = Literal["overwrite", "append"]

_ATTEMPTS = 1_000_000  # that a plan may have before its versions reach those of the next plan


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at one split.

    :ivar generation: the number of the plan among those that the run has had, from 1.
    :ivar number: of the attempt at this split of this plan, from 1.
    """

    plan: OffsetPlan
    split: int
    generation: int
    number: int

    @property
    def run_id(self) -> str:
        return self.plan.run.run_id if self.plan.run else self.plan.plan_id


def row_filter(run_id: str, split: int) -> str:
    """The split's rows, in SQL: ``run = '…' AND split = k``."""
    quoted = run_id.replace("\\", "\\\\").replace("'", "\\'")
    return f"run = '{quoted}' AND split = {split}"


def table_options(attempt: Attempt, table_format: TableFormat, mode: WriteMode) -> dict[str, str]:
    """Options of the write.

    :raises InvalidRequest: this write cannot be repeated, or would leave rows of the run's former plan; or a word is
        unknown. The message names the way that can.
    """
    problems = _problems(attempt.plan, table_format, mode)
    if problems:
        raise InvalidRequest(problems)
    if table_format == "iceberg":
        facts = {"plan-id": attempt.plan.plan_id, "run-id": attempt.run_id, "split": attempt.split}
        return {
            f"snapshot-property.kafka-offsets.{name}": str(value)
            for name, value in {**facts, "attempt": attempt.number}.items()
        }
    run = attempt.plan.run
    owner = [run.dag_id, run.run_id, run.task_id, str(run.map_index)] if run else [attempt.plan.plan_id]
    application = {"txnAppId": "/".join(["kafka-offsets", *owner, str(attempt.split)])}
    if mode == "append":
        return {**application, "txnVersion": str(attempt.generation)}
    return {
        **application,
        "txnVersion": str(attempt.generation * _ATTEMPTS + attempt.number),
        "replaceWhere": row_filter(attempt.run_id, attempt.split),
    }


def _problems(plan: OffsetPlan, table_format: str, mode: str) -> list[str]:
    problems = []
    if table_format not in ("delta", "iceberg"):
        problems.append(f"format is {table_format!r}; write_options knows 'delta' and 'iceberg'.")
    if mode not in ("overwrite", "append"):
        problems.append(f"mode is {mode!r}; it is 'overwrite' (this split's rows only) or 'append'.")
    if problems or mode == "overwrite":
        return problems
    if table_format == "iceberg":
        return ["An append to Iceberg that is repeated leaves its rows twice. Overwrite this split's rows instead."]
    if plan.starts_all_splits:
        return [
            f"Plan {plan.plan_id} takes the place of plan {plan.replaces}, which has begun to write: an append would "
            "leave those rows beside its own. Write with mode='overwrite', whose replaceWhere replaces the rows of "
            "this run and split."
        ]
    return []
