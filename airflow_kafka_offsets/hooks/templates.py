"""What is known of a DAG when it is parsed, and what only once a run renders its templates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any

from airflow_kafka_offsets.hooks.airflow_versions import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)

_NO_INTERVAL = (CronTriggerTimetable, DeltaTriggerTimetable, MultipleCronTriggerTimetable)
_MARKS = ("{{", "{%", "{#")


def is_settled(value: Any) -> bool:
    """Whether the value is final: no template and no other task can change it.

    Text without Jinja's marks, numbers, times, and collections of these. Whatever else there is (an XComArg, a DAG's
    parameter) is resolved by Airflow when the task runs.
    """
    if isinstance(value, str):
        return not any(mark in value for mark in _MARKS)
    if isinstance(value, Mapping):
        return all(is_settled(key) and is_settled(item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(is_settled, value))
    return value is None or isinstance(value, bool | int | float | date | timedelta | Enum | PurePath)


def unsettled(values: Mapping[str, Any]) -> frozenset[str]:
    """The names of the values that are not final."""
    return frozenset(name for name, value in values.items() if not is_settled(value))


def has_empty_intervals(dag: Any) -> bool:
    """Whether each scheduled run's interval ends where it starts, as of ``@hourly`` and of other plain cron strings.

    A window without bounds of its own is that interval.
    """
    timetable: Any = getattr(dag, "timetable", None)
    if type(timetable) not in _NO_INTERVAL:  # a partitioned one, a subclass, gives partitions
        return False
    told = hasattr(timetable, "interval")  # before Airflow 3.2 it stands in what the database gets, and nowhere else
    return not (timetable.interval if told else timetable.serialize()["interval"])
