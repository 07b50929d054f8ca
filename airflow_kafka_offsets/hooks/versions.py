"""Imports whose place depends on Airflow's version (3.0.6 to 3.3). No other file of this package asks for the version.

Airflow 3.1 moved connections into its Task SDK, and 3.2 exceptions and settings. Before, they are where Airflow 2 had
them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from threading import RLock
from typing import Any

from packaging.version import Version

try:
    from airflow.sdk import BaseHook
except ImportError:  # Airflow 3.0
    from airflow.hooks.base import BaseHook

try:
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
    )
except ImportError:  # Airflow 3.0 and 3.1
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
    )

try:
    from airflow.sdk.observability.stats import Stats
except ImportError:  # Airflow 3.0 and 3.1
    from airflow.stats import Stats

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "BaseHook",
    "Stats",
    "conf",
    "connections_in_the_database",
    "has_page",
    "newest_success",
]

_PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
_ONE_AT_A_TIME = RLock()  # the page is made in several threads, and the variable is the process's
_FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)


def newest_success(ti: Any) -> str | None:
    """The run with the latest logical date in which the task of ``ti`` has succeeded; no task can ask before 3.2."""
    if not hasattr(ti, "get_previous_ti"):
        return None
    index = -1 if ti.map_index is None else ti.map_index
    newest = ti.get_previous_ti(state="success", logical_date=_FOR_EVER, map_index=index)
    return newest.run_id if newest else None


def has_page() -> bool:
    """Whether this Airflow can protect the page: 3.1.0 asks for a header, which a frame does not send."""
    return Version(version("apache-airflow-core")) >= Version("3.1.1")


@contextmanager
def connections_in_the_database() -> Iterator[None]:
    """Find the connections of the metadata database in the API server, too.

    From Airflow 3.2 on, the Task SDK looks there only in a process that this variable calls a server's.
    """
    with _ONE_AT_A_TIME:
        former = os.environ.get(_PROCESS_CONTEXT)
        os.environ.setdefault(_PROCESS_CONTEXT, "server")
        try:
            yield
        finally:
            if former is None:
                del os.environ[_PROCESS_CONTEXT]
