"""The last runs of a DAG by Airflow's own database: for ``airflow kafka-offsets runs``, which has it, and no task."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_kafka_offsets.request.times import parse_timestamp_ms


@dataclass(frozen=True, slots=True)
class DagRunState:
    """A run of a DAG, its state, and the tasks of it that have failed."""

    run_id: str
    state: str
    at_ms: int
    failed: tuple[str, ...] = ()


def last_dag_runs(dag_id: str, count: int) -> list[DagRunState]:
    """The last ``count`` runs, the newest first."""
    with create_session() as session:
        asked = select(DagRun.run_id, DagRun.state, DagRun.run_after).where(DagRun.dag_id == dag_id)
        runs = session.execute(asked.order_by(DagRun.run_after.desc()).limit(count)).all()
        of_runs = TaskInstance.run_id.in_([run.run_id for run in runs])
        failed = select(TaskInstance.run_id, TaskInstance.task_id).where(
            TaskInstance.dag_id == dag_id, of_runs, TaskInstance.state == "failed"
        )
        tasks: dict[str, list[str]] = {}
        for run_id, task_id in session.execute(failed):
            tasks.setdefault(run_id, []).append(task_id)
    return [
        DagRunState(
            run.run_id,
            str(getattr(run.state, "value", run.state)),
            parse_timestamp_ms(run.run_after),
            tuple(sorted(set(tasks.get(run.run_id, ())))),
        )
        for run in runs
    ]
