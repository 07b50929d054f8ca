"""Run a DAG file's DAG in this process, in a real Airflow: scheduler logic, task runner, XCom, retries, database.

Airflow is imported when the first run starts, because its settings must be in the environment by then.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from testbed.leash import Leashed
from testbed.topics import wait_for

ROOT = Path(__file__).resolve().parents[1]


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
    """The DAG object of a file, for :func:`run_dag`. The file is told which DAG is asked for, as when a task runs."""
    from testbed.airflow_versions import DagBag

    with patch.dict(os.environ, {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": dag_id}):
        bag = DagBag(str(path))
    if bag.import_errors:
        raise RuntimeError(f"{path} cannot be imported: {bag.import_errors}")
    return bag.dags[dag_id]


def run_dag(dag: Any, *, conf: Mapping[str, Any] | None = None, logical_date: datetime | None = None) -> RunResult:
    """`dag.test()`: one run to its end, retries included. With a logical date, its timetable gives the interval."""
    dates = {} if logical_date is None else {"logical_date": logical_date, "run_after": logical_date}
    with _folder_written_once(dag.dag_id):
        return _result(dag.test(run_conf=dict(conf or {}), **dates))


def clear_tasks(
    dag: Any, run_id: str, *task_ids: str, conf: Mapping[str, Any] | None = None, downstream: bool = True
) -> None:
    """What an operator's clear does in Airflow: these tasks and all downstream of them, whatever their state.

    :param conf: put into the run's conf, beside what it holds.
    :param downstream: else these tasks alone.
    """
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState

    from testbed.airflow_versions import DagSerialization

    chosen = dag.partial_subset(task_ids, include_upstream=False, include_downstream=downstream)
    with create_session() as session:
        DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).clear(
            task_ids=list(chosen.task_dict), run_id=run_id, dag_run_state=DagRunState.QUEUED, session=session
        )
        run = _find_run(dag.dag_id, run_id, session)
        run.state = DagRunState.RUNNING  # as the scheduler does with what is queued
        run.conf = {**run.conf, **(conf or {})}


def retry_lost_tasks(dag: Any, run_id: str) -> list[str]:
    """What the scheduler does with tasks whose worker does not answer any more: they are to be retried. Their names."""
    from airflow.utils.session import create_session

    with create_session() as session:
        lost = [
            ti
            for ti in _find_run(dag.dag_id, run_id, session).get_task_instances(session=session)
            if ti.state == "running"
        ]
        for ti in lost:
            ti.state, ti.end_date = "up_for_retry", datetime.now(UTC)
        return [ti.task_id for ti in lost]


def newest_run(dag_id: str) -> str:
    """The id of the run that was made last."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        return max(DagRun.find(dag_id=dag_id, session=session), key=lambda run: run.id).run_id


def run_and_lose_the_worker(
    file: Path, dag: Any, met: Callable[[], bool], log: Path, conf: Mapping[str, Any] | None = None
) -> str:
    """A run in a process of its own, which is killed as soon as `met()` is true. Its id.

    :param log: what the process prints.
    """
    command = [sys.executable, "-m", "testbed.dag_runs", str(file), dag.dag_id, json.dumps(dict(conf or {}))]
    worker = Leashed.start(command, env=dict(os.environ), log=log, cwd=ROOT)
    try:
        wait_for("the moment at which the worker is killed", met, deadline_s=300)
    finally:
        worker.kill()
    return newest_run(dag.dag_id)


def continue_run(dag: Any, run_id: str) -> RunResult:
    """Run what is left of a run to its end: :func:`run_dag`, with a run that exists in the place of a new one."""
    from airflow.models import dagrun

    def existing(*, dag: Any, session: Any, **_: Any) -> Any:
        run = _find_run(dag.dag_id, run_id, session)
        run.dag = dag
        return run

    # dag.test() deletes the run of its logical date, if there is one, and makes it anew: it is given one without.
    with _folder_written_once(dag.dag_id), patch.object(dagrun, "get_or_create_dagrun", existing):
        return _result(dag.test(logical_date=datetime(1970, 1, 1, tzinfo=UTC)))


@contextmanager
def _folder_written_once(dag_id: str) -> Iterator[None]:
    """`dag.test()` writes all DAGs of the folder to the database before each run, which takes longer than most runs.

    Here it does so only where a file has changed since, or the run's DAG is not there yet.
    """
    from airflow.configuration import conf
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.dag_version import DagVersion

    folder = conf.get("core", "dags_folder")
    files = {os.path.join(place, name) for place, _, names in os.walk(folder, followlinks=True) for name in names}
    now = {file: os.stat(file).st_mtime_ns for file in files if file.endswith(".py")}
    if _written.get(folder) == now and DagVersion.get_version(dag_id) is not None:
        with patch.object(DagBundlesManager, "get_all_dag_bundles", lambda _: ()):
            yield
    else:
        yield
        _written[folder] = now


# By folder: when each file was changed last before the folder's DAGs were written to the database.
_written: dict[str, dict[str, int]] = {}


def _find_run(dag_id: str, run_id: str, session: Any) -> Any:
    from airflow.models.dagrun import DagRun

    (run,) = DagRun.find(dag_id=dag_id, run_id=run_id, session=session)
    return run


def _result(run: Any) -> RunResult:
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


if __name__ == "__main__":  # in a process of its own, for those who kill it: file, DAG, conf
    run_dag(load_dag(Path(sys.argv[1]), sys.argv[2]), conf=json.loads(sys.argv[3]))
