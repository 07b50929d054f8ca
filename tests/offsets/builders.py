"""Small makers of the core's values, so that a test shows only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_kafka_offsets.offsets.model import CommittedOffset, OffsetRange, PartitionSnapshot, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.resolve import Facts, Position
from airflow_kafka_offsets.offsets.spec import GroupOffsets, PlanRequest, RunKey, TopicList, UntilLatest

RUN = RunKey("billing", "scheduled__2026-11-20T10:00:00+00:00", "resolve")


def tp(partition: int = 0, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


def snap(log_start: int, end: int, high_watermark: int | None = None, epoch: int | None = None) -> PartitionSnapshot:
    return PartitionSnapshot(log_start, end, end if high_watermark is None else high_watermark, epoch)


def request(startup: Any = None, bounded: Any = None, **fields: Any) -> PlanRequest:
    """A request of group ``g`` for topic ``orders``; the defaults are the operator's."""
    fields = {"subscription": TopicList(("orders",)), "group_id": "g", **fields}
    return PlanRequest(startup=startup or GroupOffsets(), bounded=bounded or UntilLatest(), **fields)


def facts(
    *logs: PartitionSnapshot,
    committed: Mapping[int, int | CommittedOffset] | None = None,
    positions: Mapping[int, int | Position] | None = None,
    start_times: Mapping[int, int] | None = None,
    end_times: Mapping[int, int] | None = None,
) -> Facts:
    """What the cluster says of ``orders``, whose partition ``n`` is the ``n``-th log; keys are partition numbers."""
    return Facts(
        snapshots={tp(number): log for number, log in enumerate(logs)},
        committed=None
        if committed is None
        else {tp(n): CommittedOffset(c) if isinstance(c, int) else c for n, c in committed.items()},
        positions=None
        if positions is None
        else {tp(n): Position(p, "kept") if isinstance(p, int) else p for n, p in positions.items()},
        start_times={tp(n): offset for n, offset in (start_times or {}).items()},
        end_times={tp(n): offset for n, offset in (end_times or {}).items()},
    )


def planned(partition: int | TopicPartition, start: int, end: int, **fields: Any) -> PlannedPartition:
    where = partition if isinstance(partition, TopicPartition) else tp(partition)
    fields = {"start_reason": "committed", "end_reason": "latest", "log_start_offset": 0, **fields}
    return PlannedPartition(where, OffsetRange(start, end), **fields)


def plan(partitions: Iterable[PlannedPartition] = (), **fields: Any) -> OffsetPlan:
    rows = tuple(partitions)
    defaults: dict[str, Any] = {
        "cluster_id": "cluster-1",
        "group_id": "g",
        "checkpoint_id": "g/billing/resolve",
        "isolation_level": "read_uncommitted",
        "startup_mode": "group-offsets",
        "bounded_mode": "latest-offset",
        "window": False,
        "resolved_at_ms": 1_795_168_800_000,
        "topic_ids": {row.topic_partition.topic: f"id-of-{row.topic_partition.topic}" for row in rows},
        "partitions": rows,
        "run": RUN,
    }
    return OffsetPlan(**{**defaults, **fields})
