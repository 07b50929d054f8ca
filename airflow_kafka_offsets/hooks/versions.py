"""Imports whose place depends on Airflow's version (3.0.6 to 3.3). No other file of this package asks for the version.

Airflow 3.1 moved connections into its Task SDK, and 3.2 exceptions and settings. Before, they are where Airflow 2 had
them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

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

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "BaseHook",
    "conf",
    "newest_success",
]

_FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)


def newest_success(ti: Any) -> str | None:
    """The run with the latest logical date in which the task of ``ti`` has succeeded; no task can ask before 3.2."""
    if not hasattr(ti, "get_previous_ti"):
        return None
    index = -1 if ti.map_index is None else ti.map_index
    newest = ti.get_previous_ti(state="success", logical_date=_FOR_EVER, map_index=index)
    return newest.run_id if newest else None
