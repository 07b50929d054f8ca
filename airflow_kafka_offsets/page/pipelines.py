# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The pipelines of a DAG: its resolve tasks' XComs ``plan`` say where they are, and their logs say whose they are.

An XCom is what some task has written. It is read as JSON and never deserialized, so it makes no object in the server,
and the location that it names is opened only if Airflow's configuration or the DAG names it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import and_, select

from airflow_kafka_offsets.engine.work import PlanReference
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.checkpoint import configured_store
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.run import PLAN_XCOM
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page.view import FailedRun
from airflow_kafka_offsets.store.protocol import together

_MOST = 500
_FAILED = ("failed", "up_for_retry")


def plans_of(dag_id: str, run_id: str = "") -> list[PlanReference]:
    """What the DAG's last runs have pushed, the newest first; or what one run has."""
    asked = select(XComModel.value).where(XComModel.dag_id == dag_id, XComModel.key == PLAN_XCOM)
    if run_id:
        asked = asked.where(XComModel.run_id == run_id)
    with create_session() as session:
        values = session.scalars(asked.order_by(XComModel.dag_run_id.desc()).limit(_MOST)).all()
    return [plan for value in values if (plan := _parse(value)) is not None]


def _parse(value: Any) -> PlanReference | None:
    """``None``: the XCom is none of a resolve task, or lies in an object store."""
    try:
        return PlanReference.from_dict(read_json(value) if isinstance(value, str) else value)
    except (InvalidRequest, ValueError):
        return None


def choose(plans: Sequence[PlanReference], pipeline: str = "", task_id: str = "") -> PlanReference | None:
    """The first plan of this pipeline; of a task that works on pipelines, the first one of its own."""
    plans = [plan for plan in plans if pipeline in ("", plan.pipeline)]
    return next((plan for plan in plans if is_of(plan, task_id)), next(iter(plans), None))


def is_of(plan: PlanReference, task_id: str) -> bool:
    """Whether the plan is that task's, or that of its group."""
    return f"{task_id}.".startswith(f"{plan.run.task_id}.")


def open_pipeline(dag_id: str, plan: PlanReference) -> tuple[PipelineLog, KafkaOffsetsHook]:
    """Its log and its Kafka connection. Neither is used yet.

    :raises InvalidRequest: neither Airflow's configuration nor the DAG names them, or they cannot be used.
    """
    named = names_of(dag_id)
    store = configured_store(plan.checkpoint_location if plan.checkpoint_location in named else None)
    if store.uri != plan.checkpoint_location or plan.kafka_config_id not in named:
        raise InvalidRequest(
            (f"A run of DAG {dag_id!r} has used checkpoint_location {plan.checkpoint_location} and connection "
             f"{plan.kafka_config_id!r}. The page opens only what is configured, or written out in the DAG.",)
        )  # fmt: skip
    hook = KafkaOffsetsHook(plan.kafka_config_id)
    _ = hook.client_config  # kept
    return PipelineLog(store, plan.pipeline), hook


def names_of(dag_id: str) -> list[Any]:
    """The checkpoint locations and Kafka connections that are written out in the DAG, for mapped tasks, too."""
    with create_session() as session:
        dag: Any = SerializedDagModel.get(dag_id, session=session)
        tasks = [task["__var"] for task in dag.data["dag"]["tasks"]] if dag else []
    given = [*tasks, *(task.get("partial_kwargs", {}) for task in tasks)]
    return [
        KafkaOffsetsHook.default_conn_name,
        *(one.get(name) for one in given for name in ("checkpoint_location", "kafka_config_id")),
    ]


def newest_batch(dag_id: str, plan: PlanReference, log: PipelineLog) -> Batch:
    """The newest batch of the pipeline; most often it is the plan's own, which is not read twice.

    :raises InvalidRequest: as :func:`require_dag`.
    """
    own, highest = together(log.store, partial(require_dag, dag_id, plan, log), lambda: next(log.folders(), 0))
    newest: Batch = own if highest == own.number else log.newest() or own
    return newest


def require_dag(dag_id: str, plan: PlanReference, log: PipelineLog) -> Batch:
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


def failed_run(dag_id: str, name: str) -> FailedRun | None:
    """The newest run of a task, or of a group's resolve task, if that has failed in it.

    :param name: of the task or the group, as plans have it.
    """
    columns = DagRun.run_id, DagRun.data_interval_start, DagRun.data_interval_end, TaskInstance.state
    is_of_run = and_(TaskInstance.dag_id == DagRun.dag_id, TaskInstance.run_id == DagRun.run_id)
    asked = select(*columns).join(TaskInstance, is_of_run)
    asked = asked.where(DagRun.dag_id == dag_id, TaskInstance.task_id.in_((name, f"{name}.resolve")))
    with create_session() as session:
        newest = session.execute(asked.order_by(DagRun.id.desc()).limit(1)).first()
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
