"""Another run of a DAG, asked for by one of its tasks.

As Airflow's own ``TriggerDagRunOperator`` has it done (``task_runner._handle_trigger_dag_run``; alike from 3.0.6 on):
the task's supervisor asks the API server. The operator itself does it by an exception that ends the task, which then
fails, or is skipped, where the run exists already; a commit that is retried has to succeed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import ErrorType

CATCH_UP = "kafka_offsets_catch_up"
"""The key of a run's conf: ``{pipeline: how many offsets}`` that it and those that follow it are to read."""


def trigger_run(dag_id: str, run_id: str, conf: Mapping[str, Any]) -> bool:
    """Without a logical date, hence without a data interval, now. ``False``: there is a run of that id already.

    :raises AirflowRuntimeError: Airflow refuses it.
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

    asked = TriggerDagRun(dag_id=dag_id, run_id=run_id, logical_date=None, conf=dict(conf))
    answer = task_runner.SUPERVISOR_COMMS.send(asked)
    return not (isinstance(answer, ErrorResponse) and answer.error == ErrorType.DAGRUN_ALREADY_EXISTS)


def target_of(conf: Mapping[str, Any] | None, pipeline: str) -> int | None:
    """How many offsets this catch-up run was asked to read; ``None`` if it is not a catch-up run."""
    told = (conf or {}).get(CATCH_UP)
    target = told.get(pipeline) if isinstance(told, Mapping) else None
    return target if isinstance(target, int) and not isinstance(target, bool) else None


def conf_of_next(conf: Mapping[str, Any] | None, pipeline: str, target: int) -> dict[str, Any]:
    """The conf for the next run: all that templates of the DAG may use, without what holds for one run alone."""
    return {**{k: v for k, v in (conf or {}).items() if k != "kafka_offsets"}, CATCH_UP: {pipeline: target}}
