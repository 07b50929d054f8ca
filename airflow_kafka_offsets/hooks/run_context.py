"""What a task takes from the run that it belongs to: its name, its interval, its conf, and whether other runs live."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.bounds import Partition
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.times import parse_timestamp_ms
from airflow_kafka_offsets.offsets.widths import parse_zone
from airflow_kafka_offsets.stores.turns import IsAlive


def run_key(context: Any) -> RunKey:
    """The task instance of ``context``; the same for every retry and after every clear."""
    ti = context["ti"]
    return RunKey(ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index)


def restart_word(context: Any) -> str | None:
    """The word of ``{"kafka_offsets": {"restart": …}}`` in the run's conf; ``true`` stands for the run itself."""
    asked = run_conf(context).get("restart")
    return f"run {context['ti'].run_id}" if asked is True else asked


def run_conf(context: Any) -> Mapping[str, Any]:
    """``kafka_offsets`` of the run's conf: what applies to this run alone.

    :raises InvalidRequest: it is not an object.
    """
    found = (context["dag_run"].conf or {}).get("kafka_offsets") or {}
    if not isinstance(found, Mapping):
        raise InvalidRequest(
            (f'The run\'s conf has "kafka_offsets": {found!r}; expected an object, {{"restart": true}}.',)
        )
    return found


def data_interval_ms(context: Any) -> tuple[int, int] | None:
    """The run's data interval; ``None`` where the context has none (asset-triggered, or triggered without a date)."""
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    return None if start is None or end is None else (parse_timestamp_ms(start), parse_timestamp_ms(end))


def partition_of(context: Any) -> Partition | None:
    """The partition that the run is for; ``None`` where it is for none."""
    key, date = context.get("partition_key"), context.get("partition_date")
    if key is None and date is None:
        return None
    date_ms = None if date is None else parse_timestamp_ms(date)
    return Partition(str(key), date_ms, _zone_of_timetable(context))


def _zone_of_timetable(context: Any) -> tzinfo:
    zone = getattr(getattr(context.get("dag"), "timetable", None), "timezone", None)
    if isinstance(zone, str):
        return parse_zone(zone)
    return zone if isinstance(zone, tzinfo) else UTC


def times_of_run(context: Any) -> dict[str, Any]:
    """What a run says about time, as :func:`~airflow_kafka_offsets.offsets.parse.parse_request` takes it."""
    return {"interval": data_interval_ms(context), "partition": partition_of(context)}


def lives_in_airflow(context: Any) -> IsAlive:
    """Whether a DAG run is queued or running, as this Airflow knows it; one that it does not know is over."""

    def is_alive(run: RunKey) -> bool:
        ti = context["ti"]
        return bool(ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=["queued", "running"]))

    return is_alive
