"""Whether a DAG's schedule gives its runs a data interval: a window without bounds of its own is that interval."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.hooks.airflow_versions import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)

_WITHOUT = (CronTriggerTimetable, DeltaTriggerTimetable, MultipleCronTriggerTimetable)


def has_empty_intervals(dag: Any) -> bool:
    """Whether each scheduled run's interval ends where it starts, as of ``@hourly`` and of other plain cron strings."""
    timetable: Any = getattr(dag, "timetable", None)
    return type(timetable) in _WITHOUT and not timetable.interval  # a partitioned one, a subclass, gives partitions
