"""Run a DAG file's DAG in this process, in a real Airflow: scheduler logic, task runner, XCom, retries, database.

Airflow is imported when the first run starts, because its settings must be in the environment by then.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TaskResult:
    """How one task instance ended. `map_index` is -1 where the task is not mapped."""

    task_id: str
    map_index: int
    state: str
    tries: int


@dataclass(frozen=True)
class RunResult:
    run_id: str
    state: str
    tasks: tuple[TaskResult, ...]

    def states(self, task_id: str) -> list[str]:
        """The states of a task's instances, by map index."""
        return [task.state for task in self.tasks if task.task_id == task_id]


def load_dag(path: Path, dag_id: str) -> Any:
    """The DAG object of a file, for :func:`run_dag`."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(path))
    if bag.import_errors:
        raise RuntimeError(f"{path} cannot be imported: {bag.import_errors}")
    return bag.dags[dag_id]


def run_dag(dag: Any, *, conf: Mapping[str, Any] | None = None, logical_date: datetime | None = None) -> RunResult:
    """`dag.test()`: one run to its end, retries included. With a logical date, its timetable gives the interval."""
    dates = {} if logical_date is None else {"logical_date": logical_date, "run_after": logical_date}
    run = dag.test(run_conf=dict(conf or {}), **dates)
    tasks = [
        TaskResult(ti.task_id, -1 if ti.map_index is None else ti.map_index, str(ti.state), ti.try_number)
        for ti in run.get_task_instances()
    ]
    return RunResult(run.run_id, str(run.state), tuple(sorted(tasks, key=lambda t: (t.task_id, t.map_index))))


@contextmanager
def output_to(log: Path) -> Iterator[None]:
    """What this process and its children print goes to `log` meanwhile, also what does not go through `sys.stdout`."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])
