"""The conf of an act as a refusal prints it, complete, and the command with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from shlex import quote
from typing import Any

from airflow_kafka_offsets.acts import conf_text
from airflow_kafka_offsets.engine.surroundings import Airflow
from airflow_kafka_offsets.kafka_values import RunKey

WayOn = Callable[..., str]
"""Of acts such as ``reset={…}``: words that follow "To …,"."""


def ways_on(pipeline: str, after: int, run: RunKey, airflow: Airflow) -> WayOn:
    """
    :param after: the number of the current identity.
    """
    return partial(_way_on, pipeline, after, run, airflow)


def _way_on(pipeline: str, after: int, run: RunKey, airflow: Airflow, **acts: Any) -> str:
    conf = conf_text(pipeline, after, **acts)
    held = airflow.ways_past()
    command = f"airflow dags trigger {quote(run.dag_id)} --conf {quote(conf)}"
    return f"trigger the DAG with this conf:\n{conf}\nor: {command}" + (f"\n{held}" if held else "")
