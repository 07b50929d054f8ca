"""OffsetPlan ↔ versioned JSON, and the option strings of Spark's Kafka source.

Within a version fields may be added; none is removed or changes its meaning. A version that this code does not know is
refused, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from operator import attrgetter
from typing import Any, get_args

from airflow_kafka_offsets.offsets.columns import (
    flag,
    flag_or_none,
    from_columns,
    require_version,
    text,
    text_or_none,
    to_columns,
    whole,
    whole_or_none,
)
from airflow_kafka_offsets.offsets.model import IsolationLevel, OffsetRange, RunKey, TimestampType, TopicPartition
from airflow_kafka_offsets.offsets.plan.backlog import Backlog
from airflow_kafka_offsets.offsets.plan.plan import BatchName, Continuity, OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.request.parse import MOST_SPLITS, SplitBy
from airflow_kafka_offsets.offsets.request.scope import one_of

VERSION = 1
_COLUMNS = (
    "start_offset",
    "end_offset",
    "position",
    "position_epoch",
    "committed_offset",
    "log_start_offset",
    "leader_epoch",
    "start_reason",
    "end_reason",
    "lost",
    "skipped",
    "continuity",
    "newest_timestamp",
    "late",
)


def plan_to_dict(plan: OffsetPlan) -> dict[str, Any]:
    """The plan as docs/formats.md gives it: plain JSON values."""
    row_of = attrgetter(*_COLUMNS)
    columns = to_columns(_COLUMNS, {p.topic_partition: row_of(p) for p in plan.partitions})
    batch = plan.batch
    return {
        "version": VERSION,
        "plan_id": plan.plan_id,
        "pipeline": plan.pipeline,
        "batch": {"key": batch.key, "number": batch.number, "after": batch.after, "window": plan.window_bounds}
        if batch
        else None,
        "cluster_id": plan.cluster_id,
        "group_id": plan.group_id,
        "isolation_level": plan.isolation_level,
        "startup_mode": plan.startup_mode,
        "bounded_mode": plan.bounded_mode,
        "resolved_at_ms": plan.resolved_at_ms,
        "interval": plan.interval,
        "instance": plan.instance,
        "run": run_to_dict(plan.run),
        "mirrors": plan.mirrors,
        "output": plan.output,
        "subscription": plan.subscription,
        "startup": plan.startup_words,
        "splits": plan.splits,
        "split_by": plan.split_by,
        "overwrites": list(plan.overwrites),
        "restarts": list(plan.restarts),
        "restarted": plan.restarted,
        "reason": plan.reason,
        "withdrawn": plan.withdrawn,
        "record_count_upper_bound": plan.record_count_upper_bound,
        "window": plan.window,
        "window_bounds": plan.window_bounds,
        "window_bounds_by_topic": plan.window_bounds_by_topic,
        "window_complete": plan.window_complete,
        "low_watermark_ms": plan.low_watermark_ms,
        "warnings": list(plan.warnings),
        "ignored": [str(tp) for tp in plan.ignored],
        "vanished": list(plan.vanished),
        "backlog": asdict(plan.backlog) if plan.backlog else None,
        "topics": {
            topic: {
                "topic_id": topic_id,
                "timestamp_type": plan.timestamp_types.get(topic),
                **columns.get(topic, {"partition": [], **{name: [] for name in _COLUMNS}}),
            }
            for topic, topic_id in sorted(plan.topic_ids.items())
        },
    }


def plan_from_dict(data: Mapping[str, Any]) -> OffsetPlan:
    """The plan that ``data`` describes.

    :raises ValueError: an unknown version, a field that is missing or of another type, or a ``plan_id`` that is not the
        digest of the contents.
    """
    require_version(data if isinstance(data, Mapping) else {}, VERSION, "plan")
    try:
        plan = _plan_from_fields(data)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a plan: {error!r}") from error
    if plan.plan_id != data.get("plan_id"):
        raise ValueError(f"plan_id is {data.get('plan_id')}, but the contents digest to {plan.plan_id}: it was altered")
    return plan


def _plan_from_fields(data: Mapping[str, Any]) -> OffsetPlan:
    topics = data["topics"]
    partitions = [
        PlannedPartition(
            topic_partition=tp,
            range=OffsetRange(whole(row["start_offset"]), whole(row["end_offset"])),
            start_reason=text(row["start_reason"]),
            end_reason=text(row["end_reason"]),
            log_start_offset=whole(row["log_start_offset"]),
            position=whole(row["position"]),
            position_epoch=whole_or_none(row["position_epoch"]),
            committed_offset=whole_or_none(row["committed_offset"]),
            leader_epoch=whole_or_none(row["leader_epoch"]),
            lost=whole(row["lost"]),
            skipped=whole(row["skipped"]),
            continuity=_one_of_or_none(row["continuity"], Continuity),
            newest_timestamp=whole_or_none(row["newest_timestamp"]),
            late=whole(row["late"]),
        )
        for tp, row in from_columns(topics, _COLUMNS)
    ]
    batch, splits = data["batch"], whole(data["splits"])
    if not 0 < splits <= MOST_SPLITS:
        raise ValueError(f"it has {splits} splits, and there are 1 to {MOST_SPLITS}")
    by_topic = data.get("window_bounds_by_topic")
    return OffsetPlan(
        cluster_id=text(data["cluster_id"]),
        group_id=text_or_none(data["group_id"]),
        pipeline=text_or_none(data["pipeline"]),
        isolation_level=one_of(data["isolation_level"], get_args(IsolationLevel)),
        startup_mode=text(data["startup_mode"]),
        bounded_mode=text(data["bounded_mode"]),
        window=flag(data["window"]),
        resolved_at_ms=whole(data["resolved_at_ms"]),
        topic_ids={topic: text_or_none(columns["topic_id"]) for topic, columns in topics.items()},
        partitions=tuple(sorted(partitions, key=lambda p: p.topic_partition)),
        batch=BatchName(text(batch["key"]), whole_or_none(batch["number"]), text_or_none(batch["after"]))
        if batch
        else None,
        instance=text_or_none(data.get("instance")),
        run=run_from_dict(data["run"]),
        mirrors=flag(data["mirrors"]),
        output=text_or_none(data.get("output")),
        subscription=text(data["subscription"]),
        startup_words=text(data["startup"]),
        splits=splits,
        split_by=one_of(data["split_by"], get_args(SplitBy)),
        overwrites=_some_of(data["overwrites"], splits),
        restarts=tuple(map(text, data["restarts"])),
        restarted=flag(data["restarted"]),
        reason=text_or_none(data["reason"]),
        withdrawn=flag(data["withdrawn"]),
        interval=_two(data["interval"]),
        window_complete=flag_or_none(data["window_complete"]),
        low_watermark_ms=whole_or_none(data["low_watermark_ms"]),
        window_bounds=_two(data["window_bounds"]),
        window_bounds_by_topic={topic: (whole(a), whole(b)) for topic, (a, b) in by_topic.items()}
        if by_topic is not None
        else None,
        timestamp_types={
            topic: one_of(columns["timestamp_type"], get_args(TimestampType))
            for topic, columns in topics.items()
            if columns.get("timestamp_type") is not None
        },
        warnings=tuple(map(text, data["warnings"])),
        vanished=tuple(map(text, data["vanished"])),
        ignored=tuple(_parse_partition(text(item)) for item in data["ignored"]),
        backlog=_backlog(data.get("backlog")),
    )


def _backlog(data: Any) -> Backlog | None:
    if data is None:
        return None
    numbers = whole(data["carried_over"]), whole(data["more_runs"]), whole_or_none(data["expiring"])
    return Backlog(*numbers, text(data["because"]))


def run_to_dict(run: RunKey | None) -> dict[str, Any] | None:
    return (
        {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": run.task_id, "map_index": run.map_index}
        if run
        else None
    )


def run_from_dict(run: Mapping[str, Any] | None) -> RunKey | None:
    return (
        RunKey(text(run["dag_id"]), text(run["run_id"]), text(run["task_id"]), whole(run["map_index"])) if run else None
    )


def _two(pair: Any) -> tuple[int, int] | None:
    return None if pair is None else (whole(pair[0]), whole(pair[1]))


def _some_of(numbers: Any, splits: int) -> tuple[int, ...]:
    found = tuple(map(whole, numbers))
    if any(not 0 <= number < splits for number in found):
        raise ValueError(f"{found} are not among its {splits} splits")
    return found


def _one_of_or_none(value: Any, kind: Any) -> Any:
    return None if value is None else one_of(value, get_args(kind))


def _parse_partition(item: str) -> TopicPartition:
    topic, _, number = item.removesuffix("]").rpartition("[")
    return TopicPartition(topic, whole(int(number)))


def spark_options(partitions: Iterable[PlannedPartition]) -> dict[str, str]:
    """``assign``, ``startingOffsets`` and ``endingOffsets`` over exactly these partitions.

    The three have the same keys, as Spark demands, and hold no -1 or -2, which Spark would bind late, in each task.
    ``assign`` rather than ``subscribe``: a partition added meanwhile fails a subscription and leaves this one alone.
    No two closing braces touch: YARN's cluster mode deletes ``}}`` from arguments.
    """
    assign: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for p in partitions:
        tp = p.topic_partition
        assign.setdefault(tp.topic, []).append(tp.partition)
        starts.setdefault(tp.topic, {})[str(tp.partition)] = p.start_offset
        ends.setdefault(tp.topic, {})[str(tp.partition)] = p.end_offset
    return {
        "assign": _brace_safe(assign),
        "startingOffsets": _brace_safe(starts),
        "endingOffsets": _brace_safe(ends),
    }


def _brace_safe(value: object) -> str:
    return json.dumps(value, separators=(",", ":")).replace("}}", "} }")
