"""Imports whose place depends on Airflow's version. No other file of this package asks for the version.

Airflow 3.1 moved connections and trigger rules into its Task SDK, and 3.2 exceptions, settings and timetables. Before,
they are where Airflow 2 had them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from threading import RLock
from typing import Any

import airflow.sdk
from packaging.version import Version

try:
    from airflow.sdk import BaseHook, TriggerRule
    from airflow.sdk.io import has_fs
except ImportError:  # Airflow 3.0
    from airflow.hooks.base import BaseHook
    from airflow.io import has_fs
    from airflow.utils.trigger_rule import TriggerRule

ASSET_EVENTS_HAVE_KEYS = "PartitionedAtRuntime" in airflow.sdk.__all__
"""Whether a task can give an asset's event a partition key: from Airflow 3.3 on."""

try:
    from airflow.sdk.observability.stats import Stats
except ImportError:  # Airflow 3.0 and 3.1
    from airflow.stats import Stats

try:
    from airflow.sdk import CronTriggerTimetable, DeltaTriggerTimetable, MultipleCronTriggerTimetable
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralTimeout,
        XComNotFound,
    )
except ImportError:  # Airflow 3.0 and 3.1
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralTimeout,
        XComNotFound,
    )
    from airflow.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable, MultipleCronTriggerTimetable

__all__ = [
    "ASSET_EVENTS_HAVE_KEYS",
    "PAGE_FROM",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "BaseHook",
    "CronTriggerTimetable",
    "DeltaTriggerTimetable",
    "MultipleCronTriggerTimetable",
    "Stats",
    "TaskDeferralTimeout",
    "TriggerRule",
    "XComNotFound",
    "conf",
    "connections_in_the_database",
    "has_fs",
    "has_page",
    "runs_that_succeeded_last",
]

_PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
_ONE_AT_A_TIME = RLock()  # Airflow's pages look in several threads, and the variable is the process's
_FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)


@contextmanager
def connections_in_the_database() -> Iterator[None]:
    """Outside of a task, find the connections that the metadata database holds too.

    From Airflow 3.2 on, the Task SDK looks there only in a process that says it is one of the server's: it says so in
    this variable, as ``airflow connections get`` does. Without it there are those of the environment and of a secrets
    backend only. What Airflow itself has said about this process stays as it is.
    """
    with _ONE_AT_A_TIME:
        former = os.environ.get(_PROCESS_CONTEXT)
        os.environ.setdefault(_PROCESS_CONTEXT, "server")
        try:
            yield
        finally:
            if former is None:
                del os.environ[_PROCESS_CONTEXT]


def runs_that_succeeded_last(ti: Any) -> set[str]:
    """The newest run, of whatever date, in which the task of ``ti`` has succeeded; empty where there is none.

    Before Airflow 3.2 a task cannot ask for it. It then is one run of each kind, the last by its id, which is a kind
    and a time (``scheduled__2026-…``); an id that somebody has chosen is a kind of its own.
    """
    if hasattr(ti, "get_previous_ti"):
        index = -1 if ti.map_index is None else ti.map_index
        newest = ti.get_previous_ti(state="success", logical_date=_FOR_EVER, map_index=index)
        return {newest.run_id} if newest else set()
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[ti.task_id])
    last: dict[str, str] = {}
    for run_id in sorted(run_id for run_id, found in states.items() if "success" in found.values()):
        last[run_id.partition("__")[0]] = run_id
    return set(last.values())


# From which Airflow on the page of a pipeline is offered. In 3.1.0 Airflow's own check reads the Authorization header
# alone; what is in a frame of its UI sends the login's cookie.
PAGE_FROM = "3.1.1"


def has_page() -> bool:
    """Whether this Airflow can protect the page."""
    return Version(version("apache-airflow-core")) >= Version(PAGE_FROM)
