"""What Airflow's own database says of a DAG: for ``airflow kafka-offsets runs`` and for the page. No task has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_kafka_offsets.batch.pipeline_status import NextRun
from airflow_kafka_offsets.hooks.run_context import PLAN_XCOM
from airflow_kafka_offsets.kafka_values import grouped
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
        tasks = grouped((run_id, task_id) for run_id, task_id in session.execute(failed))
    return [
        DagRunState(
            run.run_id,
            str(getattr(run.state, "value", run.state)),
            parse_timestamp_ms(run.run_after),
            tuple(sorted(set(tasks.get(run.run_id, ())))),
        )
        for run in runs
    ]


_MOST_PUSHED = 2_000  # a mapped task pushes one for each pipeline in each run


def plans_pushed(dag_id: str) -> list[tuple[str, Any]]:
    """What the DAG's resolve tasks have said of their plans, the newest first, with the task's id."""
    asked = select(XComModel.task_id, XComModel.value).where(XComModel.dag_id == dag_id, XComModel.key == PLAN_XCOM)
    with create_session() as session:
        rows = session.execute(asked.order_by(XComModel.dag_run_id.desc()).limit(_MOST_PUSHED)).all()
    return [(row.task_id, XComModel.deserialize_value(row)) for row in rows]


def next_run_of(dag_id: str) -> NextRun:
    """When the scheduler makes the DAG's next run."""
    with create_session() as session:
        dag = session.get(DagModel, dag_id)
        if dag is None:
            return NextRun(None, "Airflow does not know the DAG any more")
        words = dag.timetable_summary or "no schedule"
        if dag.is_paused:
            return NextRun(None, "the DAG is paused")
        at = dag.next_dagrun_create_after
        return NextRun(parse_timestamp_ms(at) if at else None, words)
