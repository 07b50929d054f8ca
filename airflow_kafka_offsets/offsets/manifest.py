"""OffsetPlan ↔ versioned JSON, and the option strings of Spark's Kafka source.

Within a version fields may be added; none is removed or changes its meaning. A version that this code does not know is
refused, never guessed. A topic's partitions are columns parallel to ``partition``, which is sorted; absent is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_kafka_offsets.offsets.model import OffsetRange, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.spec import RunKey

VERSION = 1
_COLUMNS = (
    "partition",
    "start_offset",
    "end_offset",
    "base_offset",
    "log_start_offset",
    "leader_epoch",
    "start_reason",
    "end_reason",
    "lost",
    "skipped",
    "moved_back_by",
    "continuity",
    "newest_timestamp",
    "late",
)


def plan_to_dict(plan: OffsetPlan) -> dict[str, Any]:
    """The plan as DESIGN.md gives it ("The plan"): plain JSON values."""
    topics: dict[str, dict[str, Any]] = {}
    for p in plan.partitions:
        topic = p.topic_partition.topic
        columns = topics.setdefault(
            topic, {"topic_id": plan.topic_ids.get(topic), "timestamp_type": plan.timestamp_types.get(topic)}
        )
        for name, value in {
            "partition": p.topic_partition.partition,
            "start_offset": p.start_offset,
            "end_offset": p.end_offset,
            "base_offset": p.base_offset,
            "log_start_offset": p.log_start_offset,
            "leader_epoch": p.leader_epoch,
            "start_reason": p.start_reason,
            "end_reason": p.end_reason,
            "lost": p.lost,
            "skipped": p.skipped,
            "moved_back_by": p.moved_back_by,
            "continuity": p.continuity,
            "newest_timestamp": p.newest_timestamp,
            "late": p.late,
        }.items():
            columns.setdefault(name, []).append(value)
    run = plan.run
    return {
        "version": VERSION,
        "plan_id": plan.plan_id,
        "parent": plan.parent,
        "cluster_id": plan.cluster_id,
        "group_id": plan.group_id,
        "checkpoint_id": plan.checkpoint_id,
        "isolation_level": plan.isolation_level,
        "startup_mode": plan.startup_mode,
        "bounded_mode": plan.bounded_mode,
        "window": plan.window,
        "window_complete": plan.window_complete,
        "low_watermark_ms": plan.low_watermark_ms,
        "window_bounds": list(plan.window_bounds) if plan.window_bounds else None,
        "window_bounds_by_topic": {topic: list(bounds) for topic, bounds in plan.window_bounds_by_topic.items()}
        if plan.window_bounds_by_topic
        else None,
        "resolved_at_ms": plan.resolved_at_ms,
        "interval": list(plan.interval) if plan.interval else None,
        "run": {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": run.task_id, "map_index": run.map_index}
        if run
        else None,
        "replaces": plan.replaces,
        "starts_all_splits": plan.starts_all_splits,
        "record_count_upper_bound": plan.record_count_upper_bound,
        "subscription": plan.subscription,
        "splits": plan.splits,
        "split_by": plan.split_by,
        "warnings": list(plan.warnings),
        "ignored": [str(tp) for tp in plan.ignored],
        "vanished": list(plan.vanished),
        "topics": topics,
    }


def plan_from_dict(data: Mapping[str, Any]) -> OffsetPlan:
    """The plan that ``data`` describes.

    :raises ValueError: an unknown version, a missing field, or a ``plan_id`` that is not the digest of the contents.
    """
    if data.get("version") != VERSION:
        raise ValueError(f"plan version {data.get('version')!r} is not known to this version of airflow-kafka-offsets")
    try:
        plan = _plan_from_fields(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a plan: {error!r}") from error
    if plan.plan_id != data.get("plan_id"):
        raise ValueError(f"plan_id is {data.get('plan_id')}, but the contents digest to {plan.plan_id}: it was altered")
    return plan


def _plan_from_fields(data: Mapping[str, Any]) -> OffsetPlan:
    partitions, topic_ids, timestamp_types = [], {}, {}
    for topic, columns in data["topics"].items():
        topic_ids[topic] = columns["topic_id"]
        if columns.get("timestamp_type") is not None:
            timestamp_types[topic] = columns["timestamp_type"]
        names = [name for name in _COLUMNS if name in columns]  # fields that a later version adds are passed over
        for values in zip(*(columns[name] for name in names), strict=True):
            row = dict(zip(names, values, strict=True))
            partitions.append(
                PlannedPartition(
                    topic_partition=TopicPartition(topic, row["partition"]),
                    range=OffsetRange(row["start_offset"], row["end_offset"]),
                    start_reason=row["start_reason"],
                    end_reason=row["end_reason"],
                    log_start_offset=row["log_start_offset"],
                    base_offset=row["base_offset"],
                    leader_epoch=row["leader_epoch"],
                    lost=row["lost"],
                    skipped=row["skipped"],
                    moved_back_by=row.get("moved_back_by"),
                    continuity=row.get("continuity"),
                    newest_timestamp=row.get("newest_timestamp"),
                    late=row.get("late", 0),
                )
            )
    return OffsetPlan(
        cluster_id=data["cluster_id"],
        group_id=data["group_id"],
        checkpoint_id=data["checkpoint_id"],
        isolation_level=data["isolation_level"],
        startup_mode=data["startup_mode"],
        bounded_mode=data["bounded_mode"],
        window=data["window"],
        resolved_at_ms=data["resolved_at_ms"],
        topic_ids=topic_ids,
        partitions=tuple(sorted(partitions, key=lambda p: p.topic_partition)),
        subscription=data.get("subscription", ""),
        splits=data.get("splits", 1),
        split_by=data.get("split_by", "size"),
        interval=tuple(data["interval"]) if data["interval"] else None,
        run=_run(data["run"]),
        parent=data["parent"],
        replaces=data["replaces"],
        starts_all_splits=data.get("starts_all_splits", False),
        window_complete=data.get("window_complete"),
        low_watermark_ms=data.get("low_watermark_ms"),
        window_bounds=tuple(data["window_bounds"]) if data.get("window_bounds") else None,
        window_bounds_by_topic={topic: tuple(bounds) for topic, bounds in data["window_bounds_by_topic"].items()}
        if data.get("window_bounds_by_topic")
        else None,
        timestamp_types=timestamp_types,
        warnings=tuple(data.get("warnings", ())),
        vanished=tuple(data.get("vanished", ())),
        ignored=tuple(_parse_partition(text) for text in data.get("ignored", ())),
    )


def _run(run: Mapping[str, Any] | None) -> RunKey | None:
    return RunKey(run["dag_id"], run["run_id"], run["task_id"], run["map_index"]) if run else None


def _parse_partition(text: str) -> TopicPartition:
    topic, _, number = text.removesuffix("]").rpartition("[")
    return TopicPartition(topic, int(number))


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
