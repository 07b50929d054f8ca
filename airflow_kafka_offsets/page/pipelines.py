"""The pipelines of a DAG: its resolve tasks' XComs ``plan`` say where they are, and their logs say whose they are.

An XCom is what some task has written. It is read as JSON and never deserialized, so it makes no object in the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import and_, select

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.checkpoint import configured_store
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.run import PLAN_XCOM
from airflow_kafka_offsets.hooks.versions import connections_in_the_database
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page.view import FailedRun
from airflow_kafka_offsets.store.protocol import together

_MOST = 500
_FAILED = ("failed", "up_for_retry")
_TEXTS = ("pipeline", "checkpoint_location", "key", "kafka_config_id")


class Pushed(NamedTuple):
    """The XCom ``plan`` of one run: which batch of which pipeline it did.

    :ivar batch: its number; ``key``: its key.
    """

    task_id: str
    run_id: str
    pipeline: str
    checkpoint_location: str
    key: str
    kafka_config_id: str
    batch: int


def plans_of(dag_id: str) -> list[Pushed]:
    """What the DAG's last runs have pushed, the newest first."""
    columns = XComModel.task_id, XComModel.run_id, XComModel.value
    asked = select(*columns).where(XComModel.dag_id == dag_id, XComModel.key == PLAN_XCOM)
    with create_session() as session:
        rows = session.execute(asked.order_by(XComModel.dag_run_id.desc()).limit(_MOST)).all()
    return [pushed for row in rows if (pushed := _parse(*row)) is not None]


def _parse(task_id: str, run_id: str, value: Any) -> Pushed | None:
    """``None``: the XCom is none of a resolve task, or lies in an object store."""
    try:
        plan = read_json(value) if isinstance(value, str) else value
        texts = {name: plan[name] for name in _TEXTS}
        if all(isinstance(text, str) for text in texts.values()) and isinstance(plan["batch"], int):
            return Pushed(task_id, run_id, **texts, batch=plan["batch"])
    except (ValueError, LookupError, TypeError):
        pass
    return None


def choose(plans: Sequence[Pushed], pipeline: str = "", run_id: str = "", task_id: str = "") -> Pushed | None:
    """The plan of this pipeline, or of this run and this task or its group, as far as they are given."""
    group = task_id.rpartition(".")[0]
    for plan in plans:
        is_of_run = not run_id or plan.run_id == run_id
        is_of_task = not task_id or plan.task_id == task_id or (group and plan.task_id.rpartition(".")[0] == group)
        if is_of_run and pipeline in ("", plan.pipeline) and is_of_task:
            return plan
    return None


def open_pipeline(plan: Pushed) -> tuple[PipelineLog, KafkaOffsetsHook]:
    """Its log and its Kafka connection. Neither is used yet.

    :raises InvalidRequest: the checkpoint location or the connection cannot be used as it is named.
    """
    with connections_in_the_database():
        hook = KafkaOffsetsHook(plan.kafka_config_id)
        _ = hook.client_config  # kept
        return PipelineLog(configured_store(plan.checkpoint_location), plan.pipeline), hook


def newest_batch(dag_id: str, plan: Pushed, log: PipelineLog) -> Batch:
    """The newest batch of the pipeline; most often it is the plan's own, which is not read twice.

    :raises InvalidRequest: as :func:`require_dag`.
    """
    own, highest = together(log.store, partial(require_dag, dag_id, plan, log), lambda: next(log.folders(), 0))
    newest: Batch = own if highest == own.number else log.newest() or own
    return newest


def require_dag(dag_id: str, plan: Pushed, log: PipelineLog) -> Batch:
    """An XCom may name whatever its task likes: the log has to say that a run of this DAG did that batch.

    :returns: the batch.
    :raises InvalidRequest: it does not.
    """
    batch = log.batch(plan.batch)
    dags = {entry.by.dag_id for entry in batch.entries} if batch else set()
    if batch is None or batch.plan.key != plan.key or dag_id not in dags:
        raise InvalidRequest(
            (f"DAG {dag_id!r} has no pipeline {plan.pipeline!r} in {plan.checkpoint_location}: its log was lost, "
             "replaced, or is another DAG's.",)
        )  # fmt: skip
    return batch


def failed_run(dag_id: str, task_id: str) -> FailedRun | None:
    """The newest run that has the task, if the task has failed in it."""
    columns = DagRun.run_id, DagRun.data_interval_start, DagRun.data_interval_end, TaskInstance.state
    is_of_run = and_(TaskInstance.dag_id == DagRun.dag_id, TaskInstance.run_id == DagRun.run_id)
    asked = select(*columns).join(TaskInstance, is_of_run)
    asked = asked.where(DagRun.dag_id == dag_id, TaskInstance.task_id == task_id).order_by(DagRun.id.desc()).limit(1)
    with create_session() as session:
        newest = session.execute(asked).first()
    if newest is None or newest.state not in _FAILED:
        return None
    start, end = (None if bound is None else round(bound.timestamp() * 1000) for bound in newest[1:3])
    return FailedRun(newest.run_id, None if start is None or end is None else (start, end))


def run_state(run: RunKey) -> str | None:
    """``running``, ``failed``, …; ``None``: Airflow does not know the run any more."""
    asked = select(DagRun.state).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id)
    with create_session() as session:
        state = session.scalar(asked)
    return None if state is None else str(getattr(state, "value", state))
