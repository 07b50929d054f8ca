"""Small makers of the core's values, so that a test shows only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.kafka_values import (
    Actor,
    CommittedOffset,
    OffsetRange,
    PartitionSnapshot,
    RunKey,
    TopicPartition,
)
from airflow_kafka_offsets.plan.job_arguments import JobArguments
from airflow_kafka_offsets.plan.plan import Asked, BatchName, Draft, Found, Plan, PlannedPartition, placed
from airflow_kafka_offsets.plan.position import Position, SavedOffset
from airflow_kafka_offsets.plan.ranges import Facts, Known
from airflow_kafka_offsets.plan.splits import split_ranges
from airflow_kafka_offsets.request.parse_request import Limits, PlanRequest, RunContext
from airflow_kafka_offsets.request.policies import DEFAULTS, Policies, RunOrders
from airflow_kafka_offsets.request.subscription import Scope, TopicList

NOW = 1_795_168_800_000  # 2026-11-20T10:00Z
PIPELINE = "g/billing/resolve"
RUN = RunKey("billing", "scheduled__2026-11-20T10:00:00+00:00", "resolve")
KEY = "0000000007-20261120T100000-k3f9"


def tp(partition: int = 0, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


def snap(log_start: int, end: int, high_watermark: int | None = None, epoch: int | None = None) -> PartitionSnapshot:
    return PartitionSnapshot(log_start, end, end if high_watermark is None else high_watermark, epoch)


def request(startup: Any = None, bounded: Any = None, **given: Any) -> PlanRequest:
    """A request of group ``g`` for topic ``orders``, by hand; ``given`` are fields of it or of any of its parts."""
    scope = {"subscription": TopicList(("orders",)), "group_id": "g", **_of(Scope, given)}
    run_context = {"now_ms": NOW, **_of(RunContext, given)}
    answers: Any = {name: given.pop(name, default) for name, default in DEFAULTS.items()}
    parts: dict[str, Any] = {
        "scope": Scope(**scope),
        "policies": Policies(answers=answers, **_of(Policies, given)),
        "run_orders": RunOrders(**_of(RunOrders, given)),
        "limits": Limits(**_of(Limits, given)),
        "run_context": RunContext(**run_context),
        "output": given.pop("output", None),
    }
    assert not given, f"nothing of a request is called {', '.join(given)}"
    return PlanRequest(startup=startup or "group-offsets", bounded=bounded or "latest-offset", **parts)


def _of(kind: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Take what is a field of ``kind`` out of ``given``."""
    return {field.name: given.pop(field.name) for field in fields_of(kind) if field.name in given}


def facts(
    *logs: PartitionSnapshot,
    committed: Mapping[int, int | CommittedOffset] | None = None,
    positions: Mapping[int, int | Known] | None = None,
    saved: Mapping[int, int] | None = None,
    recreated: Iterable[str] = (),
    start_times: Mapping[int, int] | None = None,
    end_times: Mapping[int, int] | None = None,
) -> Facts:
    """What the cluster says of ``orders``, whose partition ``n`` is the ``n``-th log; keys are partition numbers.

    ``saved``, the position's own offsets, are those of ``positions`` where nothing else is said.
    """
    known = {tp(n): Known(p, "position") if isinstance(p, int) else p for n, p in (positions or {}).items()}
    return Facts(
        snapshots={tp(number): log for number, log in enumerate(logs)},
        committed=None
        if committed is None
        else {tp(n): CommittedOffset(c) if isinstance(c, int) else c for n, c in committed.items()},
        positions=None if positions is None else known,
        saved={where: found.offset for where, found in known.items()}
        if saved is None
        else {tp(n): offset for n, offset in saved.items()},
        recreated=frozenset(recreated),
        starts={tp(n): offset for n, offset in (start_times or {}).items()},
        ends={tp(n): offset for n, offset in (end_times or {}).items()},
    )


def planned(partition: int | TopicPartition, start: int, end: int, **fields: Any) -> PlannedPartition:
    where = partition if isinstance(partition, TopicPartition) else tp(partition)
    fields = {
        "start_reason": "committed",
        "end_reason": "latest",
        "log_start_offset": 0,
        "position": start,
        **fields,
    }
    return PlannedPartition(where, OffsetRange(start, end), **fields)


_ASKED = {one.name for one in fields_of(Asked)}
_FOUND = {one.name for one in fields_of(Found)}


def draft(partitions: Iterable[PlannedPartition] = (), **given: Any) -> Draft:
    """A draft of a pipeline on topic ``orders``; ``given`` are fields of it or of any of its parts."""
    rows = tuple(partitions)
    asked = {
        "isolation_level": "read_uncommitted",
        "startup_mode": "group-offsets",
        "bounded_mode": "latest-offset",
        "group_id": "g",
        "group_follows": True,
        "startup": "group-offsets",
    }
    found: dict[str, Any] = {
        "cluster_id": "cluster-1",
        "topic_ids": {row.topic_partition.topic: f"id-of-{row.topic_partition.topic}" for row in rows},
    }
    rest = {name: value for name, value in given.items() if name not in _ASKED | _FOUND}
    return Draft(
        **{"pipeline": PIPELINE, "resolved_at_ms": NOW, **rest},
        asked=Asked(**asked | {name: given[name] for name in given.keys() & _ASKED}),
        found=Found(**found | {name: given[name] for name in given.keys() & _FOUND}),
        partitions=rows,
    )


def plan(partitions: Iterable[PlannedPartition] = (), **given: Any) -> Plan:
    """A plan of batch 7 of a pipeline on topic ``orders``."""
    batch = given.pop("batch", None) or BatchName(KEY, 7, "0000000006-20261120T090000-aaaa")
    by = given.pop("by", Actor(given.pop("run", RUN), given.pop("instance", "airflow.example.com")))
    count = given.pop("splits", 1)
    in_log = {name: given.pop(name) for name in ("overwrites", "verified", "reason", "withdrawn") if name in given}
    made = draft(partitions, **given)
    return placed(made, batch, by, split_ranges(made.partitions, count, made.asked.split_by), **in_log)


def altered(made: Plan, **given: Any) -> Plan:
    """``made`` with other fields, of it or of any of its parts; ranges, or a number of splits, are split anew."""
    asked = replace(made.asked, **{name: given.pop(name) for name in given.keys() & _ASKED})
    found = replace(made.found, **{name: given.pop(name) for name in given.keys() & _FOUND})
    by = replace(made.by, **{name: given.pop(name) for name in given.keys() & {"run", "instance", "person"}})
    partitions, count = given.pop("partitions", made.partitions), given.pop("splits", made.split_count)
    splits = made.splits
    if (partitions, count, asked.split_by) != (made.partitions, made.split_count, made.asked.split_by):
        splits = split_ranges(partitions, count, asked.split_by)
    return replace(
        made,
        **{"asked": asked, "found": found, "by": by, **given},
        partitions=partitions,
        split_count=count,
        splits=splits,
    )


def position(offsets: Mapping[int | TopicPartition, int | SavedOffset], **fields: Any) -> Position:
    """A position; keys are partitions of ``orders`` by number, or any partition."""
    rows = {
        where if isinstance(where, TopicPartition) else tp(where): kept
        if isinstance(kept, SavedOffset)
        else SavedOffset(kept)
        for where, kept in offsets.items()
    }
    defaults: dict[str, Any] = {
        "cluster_id": "cluster-1",
        "topic_ids": {where.topic: f"id-of-{where.topic}" for where in rows},
        "startup": "group-offsets",
    }
    return Position(offsets=rows, **{**defaults, **fields})


def job_arguments(*given: Any) -> list[str]:
    """The words of one Spark job."""
    return JobArguments(*given).words()
