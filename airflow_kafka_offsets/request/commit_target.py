"""What a pipeline must have committed before somebody goes on: up to a batch, up to offsets, or up to a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import values_by_topic
from airflow_kafka_offsets.request.modes import AtTimestamp, SpecificOffsets
from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets
from airflow_kafka_offsets.request.parse_request import RunContext, bounds_reader
from airflow_kafka_offsets.request.problems import Problems, one_line

CommitTarget = str | SpecificOffsets | AtTimestamp
"""A text names a batch, by its number or key, and with it all before it; or one window, by its name or key."""


def parse_commit_target(
    batch: Any, offsets: Any, end: Any, run_context: RunContext, *, partition_width: Any = None
) -> CommitTarget:
    """The one that is given; where none is, the end of the run's window.

    :raises InvalidRequest: with every problem.
    """
    problems = Problems()
    given = [name for name, value in (("batch", batch), ("offsets", offsets), ("end", end)) if value is not None]
    if len(given) > 1:
        problems.add(f"Give one of batch, offsets and end, not {' and '.join(given)}.", "batch", "offsets", "end")
    target: CommitTarget | None
    if batch is not None:
        target = problems.take("batch", lambda: _batch(batch), "")
    elif offsets is not None:
        target = SpecificOffsets(problems.take("offsets", lambda: _offsets(offsets), {}))
    else:
        reader = bounds_reader(problems, [], None, run_context, partition_width)
        target = reader.time("end", end)
    if problems or target is None:
        raise InvalidRequest(tuple(problems))
    return target


def _batch(value: Any) -> str:
    text = str(value).strip()
    if isinstance(value, bool) or not isinstance(value, int | str) or not text:
        raise ValueError(f"is {value!r}; give a batch's number or key, or a window's name")
    return one_line(text)


def _offsets(value: Any) -> Any:
    found = parse_partition_offsets(value)
    if not found:
        raise ValueError("names no partition")
    return found


def target_to_dict(target: CommitTarget) -> dict[str, Any]:
    """As JSON: what a trigger is stored as."""
    match target:
        case str():
            return {"batch": target}
        case SpecificOffsets() as until:
            return {"offsets": values_by_topic(until.numbers or {})}
        case AtTimestamp(end_ms, by_topic=ends):
            return {"end_ms": end_ms, "by_topic": dict(ends)}
        case _ as never:
            assert_never(never)


def target_from_dict(data: Mapping[str, Any]) -> CommitTarget:
    if "batch" in data:
        return str(data["batch"])
    if "offsets" in data:
        return SpecificOffsets(parse_partition_offsets(data["offsets"]))
    return AtTimestamp(data["end_ms"], data["by_topic"])
