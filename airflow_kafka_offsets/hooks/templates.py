"""What is known of a DAG when it is parsed, and what only once a run renders its templates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any

from airflow_kafka_offsets.hooks.airflow_versions import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from airflow_kafka_offsets.request.times import parse_zone, short_time

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
    told = _interval_and_zone(dag)
    return told is not None and not told[0]


def uneven_intervals(dag: Any) -> str:
    """Why the intervals of scheduled runs do not join where clocks are changed; empty where they do.

    A run is due by the calendar of a time zone, and its interval is as long as ever: 24 hours, on a day of 23 or 25.
    """
    interval, zone = _interval_and_zone(dag) or (None, None)
    if not interval or zone is None:
        return ""
    zone = parse_zone(zone) if isinstance(zone, str) else zone
    months = [datetime(datetime.now(UTC).year, month, 1) for month in range(1, 13)]
    shift = max(map(zone.utcoffset, months)) - min(map(zone.utcoffset, months))
    length = months[0] + interval - months[0]  # of a relativedelta too
    if not shift % length:
        return ""
    return (
        f"the schedule's runs are due by the clock of {zone}, and each has an interval of "
        f"{short_time(length // timedelta(milliseconds=1))}: where clocks are changed, one stretch of time is in no "
        "interval, and another in two. Schedule the DAG with CronDataIntervalTimetable, whose intervals join, or in "
        "UTC; or give the times"
    )


def _interval_and_zone(dag: Any) -> tuple[Any, Any] | None:
    """Of a schedule of single moments: how long its runs' intervals are, and in which time zone they are due."""
    timetable: Any = getattr(dag, "timetable", None)
    if type(timetable) not in _NO_INTERVAL:  # a partitioned one, a subclass, gives partitions
        return None
    first = getattr(timetable, "timetables", [timetable])[0]
    if hasattr(first, "interval"):
        return first.interval, getattr(first, "timezone", None)
    told = timetable.serialize()  # before Airflow 3.2 it stands in what the database gets, and nowhere else
    seconds = told["interval"]  # of a relativedelta a mapping: a day stands for it
    return timedelta(seconds=seconds if isinstance(seconds, float) else 86_400), told.get("timezone")
