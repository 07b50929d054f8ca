"""What a task reads from its run: its name, its times, its conf, and what Airflow knows of other runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import RefusedError, RequestError
from airflow_kafka_offsets.hooks.versions import AirflowFailException, newest_success
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.request import RunContext

PLAN_XCOM = "plan"
SUMMARY_XCOM = "summary"


def run_key(context: Any) -> RunKey:
    """The task instance; the same for every retry and after every clear."""
    ti = context["ti"]
    return RunKey(ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index)


def run_context(context: Any) -> RunContext:
    """The run's times and conf. A run without a logical date has no data interval, and no such names in its context."""
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    interval = (
        None if start is None or end is None else (round(start.timestamp() * 1000), round(end.timestamp() * 1000))
    )
    conf = context["dag_run"].conf if "dag_run" in context else None
    return RunContext(now_ms(), interval, (conf or {}).get("kafka_offsets") or {})


@dataclass(frozen=True, slots=True)
class AirflowOf:
    """The Airflow around a task, as the engine asks it.

    :ivar pipeline_id: the pipeline that the task works on.
    """

    context: Any
    pipeline_id: str

    def is_running(self, run: RunKey) -> bool:
        """Whether the DAG run of that task instance is running."""
        ti = self.context["ti"]
        return bool(ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=["running"]))

    def has_succeeded(self) -> bool:
        """Whether this task has succeeded in another run for this pipeline.

        The plans that it pushed name the pipeline: the last one up to this run's date, and the newest of all. A DAG
        that is given another ``pipeline_id`` starts anew. Where the XComs were purged, any success counts.
        """
        ti = self.context["ti"]
        asked = {"dag_id": ti.dag_id, "task_ids": [ti.task_id], "states": ["success"]}
        if ti.get_ti_count(**asked) <= ti.get_ti_count(**asked, run_ids=[ti.run_id]):
            return False
        index = -1 if ti.map_index is None else ti.map_index
        pull = partial(ti.xcom_pull, task_ids=ti.task_id, key=PLAN_XCOM, map_indexes=index)
        plans = [pull(include_prior_dates=True), pull(run_id=newest_success(ti))]
        pipelines = {plan["pipeline"] for plan in plans if plan}
        return self.pipeline_id in pipelines or not pipelines


@contextmanager
def failing_at_once() -> Iterator[None]:
    """Turn an error that no retry can mend into one that Airflow does not retry."""
    try:
        yield
    except (RequestError, RefusedError) as error:
        if getattr(error, "retriable", False):
            raise
        raise AirflowFailException(str(error)) from None
