"""Plan ↔ versioned JSON, and the option strings of Spark's Kafka source.

Within a version fields may be added; none is removed or changes its meaning. A version that this code does not know is
refused, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from operator import attrgetter
from typing import Any

from airflow_kafka_offsets.json_columns import (
    flag,
    from_columns,
    read_as,
    require_version,
    text,
    text_or_none,
    to_columns,
    whole,
    whole_or_none,
)
from airflow_kafka_offsets.kafka_values import (
    Actor,
    OffsetRange,
    TopicPartition,
    by_topic,
    grouped,
    values_by_topic,
)
from airflow_kafka_offsets.plan.plan import (
    Asked,
    BatchName,
    Continuity,
    Draft,
    Found,
    Plan,
    PlannedPartition,
    SkippedRange,
    VerifiedSplit,
)
from airflow_kafka_offsets.request.parse_request import MOST_SPLITS

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
    "gap",
)
_LATER_COLUMNS = ("past_end", "held_back", "margin_ms")  # null where an earlier version has written the plan
_SKIPS = "skips"  # only where a person has left something out by name
_ASKED = tuple(one.name for one in fields(Asked))


def plan_to_dict(plan: Draft) -> dict[str, Any]:
    """The plan as docs/formats.md gives it: plain JSON values. A draft has no batch, nobody who made it, and no splits.

    ``split``: the number of the split that reads the partition, or of each piece ``[split, start_offset, end_offset]``.
    """
    names: tuple[str, ...] = (*_COLUMNS, *_LATER_COLUMNS)
    row_of = attrgetter(*names)
    rows = {p.topic_partition: row_of(p) for p in plan.partitions}
    if any(p.skips for p in plan.partitions):
        names = (*names, _SKIPS)
        rows = {p.topic_partition: (*rows[p.topic_partition], _skips_to_list(p.skips)) for p in plan.partitions}
    in_log: dict[str, Any] = {}
    if isinstance(plan, Plan):
        names = (*names, "split")
        pieces = _pieces(plan)
        rows = {tp: (*row, pieces.get(tp)) for tp, row in rows.items()}
        batch = plan.batch
        in_log = {
            "plan_id": plan.plan_id,
            "batch": {"key": batch.key, "number": batch.number, "after": batch.after},
            **actor_to_dict(plan.by),
            "overwrites": list(plan.overwrites),
            "verified": {str(number): asdict(plan.verified[number]) for number in sorted(plan.verified)},
            "reason": plan.reason,
            "withdrawn": plan.withdrawn,
        }
    columns = to_columns(names, rows)
    found = plan.found
    return {
        "version": VERSION,
        **in_log,
        "pipeline": plan.pipeline,
        **{name: getattr(plan.asked, name) for name in _ASKED},
        "cluster_id": found.cluster_id,
        "resolved_at_ms": plan.resolved_at_ms,
        "splits": plan.split_count,
        "restarts": list(plan.restarts),
        "restarted": plan.restarted,
        "record_count_upper_bound": plan.record_count_upper_bound,
        "window_complete": found.window_complete,
        "low_watermark_ms": found.low_watermark_ms,
        "warnings": list(plan.warnings),
        "ignored": [str(tp) for tp in found.ignored],
        "vanished": list(found.vanished),
        "backlog": asdict(found.backlog) if found.backlog else None,
        "topics": {
            topic: {
                "topic_id": topic_id,
                "timestamp_type": found.timestamp_types.get(topic),
                **columns.get(topic, {"partition": [], **{name: [] for name in names}}),
            }
            for topic, topic_id in sorted(found.topic_ids.items())
        },
    }


def _pieces(plan: Plan) -> dict[TopicPartition, Any]:
    pieces = grouped(
        (piece.topic_partition, (number, piece)) for number, split in enumerate(plan.splits) for piece in split
    )
    whole = {p.topic_partition: p.range for p in plan.partitions}
    return {
        tp: of_one[0][0]
        if len(of_one) == 1 and of_one[0][1].range == whole[tp]
        else [[number, piece.start_offset, piece.end_offset] for number, piece in of_one]
        for tp, of_one in pieces.items()
    }


def plan_from_dict(data: Mapping[str, Any]) -> Plan:
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


def _plan_from_fields(data: Mapping[str, Any]) -> Plan:
    topics, count = data["topics"], whole(data["splits"])
    if not 0 < count <= MOST_SPLITS:
        raise ValueError(f"it has {count} splits, and there are 1 to {MOST_SPLITS}")
    splits: list[list[PlannedPartition]] = [[] for _ in range(count)]
    partitions = []
    for tp, row in from_columns(topics, (*_COLUMNS, "split"), dict.fromkeys((*_LATER_COLUMNS, _SKIPS))):
        partition = _partition(tp, row)
        partitions.append(partition)
        for number, piece in _pieces_of(partition, row["split"]):
            if not 0 <= number < count:
                raise ValueError(f"{tp} is in split {number}, and there are {count}")
            splits[number].append(piece)
    of_topics = {
        "topic_ids": {topic: columns["topic_id"] for topic, columns in topics.items()},
        "timestamp_types": {
            topic: kind for topic, columns in topics.items() if (kind := columns.get("timestamp_type")) is not None
        },
    }
    found = read_as(Found, {**data, **of_topics, "ignored": ()})
    return Plan(
        pipeline=text_or_none(data["pipeline"]),
        asked=read_as(Asked, data),
        found=replace(found, ignored=tuple(_parse_partition(text(item)) for item in data["ignored"])),
        partitions=tuple(sorted(partitions, key=attrgetter("topic_partition"))),
        resolved_at_ms=whole(data["resolved_at_ms"]),
        split_count=count,
        restarts=read_as(tuple[str, ...], data["restarts"]),
        restarted=flag(data["restarted"]),
        warnings=read_as(tuple[str, ...], data["warnings"]),
        batch=read_as(BatchName, data["batch"]),
        by=read_as(Actor, data),
        splits=tuple(tuple(sorted(split, key=attrgetter("topic_partition"))) for split in splits),
        overwrites=read_as(tuple[int, ...], data["overwrites"]),
        verified=read_as(Mapping[int, VerifiedSplit], data["verified"]),
        reason=text_or_none(data["reason"]),
        withdrawn=flag(data["withdrawn"]),
    )


def _partition(tp: TopicPartition, row: Mapping[str, Any]) -> PlannedPartition:
    return PlannedPartition(
        topic_partition=tp,
        range=OffsetRange(whole(row["start_offset"]), whole(row["end_offset"])),
        start_reason=text(row["start_reason"]),
        end_reason=text(row["end_reason"]),
        log_start_offset=whole_or_none(row["log_start_offset"]),
        position=whole(row["position"]),
        position_epoch=whole_or_none(row["position_epoch"]),
        committed_offset=whole_or_none(row["committed_offset"]),
        leader_epoch=whole_or_none(row["leader_epoch"]),
        lost=whole(row["lost"]),
        skipped=whole(row["skipped"]),
        continuity=read_as(Continuity | None, row["continuity"]),
        newest_timestamp=whole_or_none(row["newest_timestamp"]),
        late=whole(row["late"]),
        gap=whole(row["gap"]),
        **{name: whole_or_none(row[name]) for name in _LATER_COLUMNS},
        skips=tuple(
            SkippedRange(OffsetRange(whole(start), whole(end)), text(reason))
            for start, end, reason in row[_SKIPS] or ()
        ),
    )


def _skips_to_list(skips: Sequence[SkippedRange]) -> list[Any] | None:
    return [[one.range.start_offset, one.range.end_offset, one.reason] for one in skips] or None


def _pieces_of(partition: PlannedPartition, split: Any) -> list[tuple[int, PlannedPartition]]:
    if split is None:
        return []
    if not isinstance(split, list):
        return [(whole(split), partition)]
    return [(whole(n), partition.within(whole(start), whole(end))) for n, start, end in split]


def actor_to_dict(by: Actor) -> dict[str, Any]:
    return {
        "run": asdict(by.run) if by.run else None,
        "instance": by.instance,
        **({"person": by.person} if by.person is not None else {}),
    }


def _parse_partition(item: str) -> TopicPartition:
    topic, _, number = item.removesuffix("]").rpartition("[")
    return TopicPartition(topic, whole(int(number)))


def spark_options(partitions: Iterable[PlannedPartition]) -> dict[str, str]:
    """``assign``, ``startingOffsets`` and ``endingOffsets`` over exactly these partitions.

    The three have the same keys, as Spark demands, and hold no -1 or -2, which Spark would bind late, in each task.
    ``assign`` rather than ``subscribe``: a partition added meanwhile fails a subscription and leaves this one alone.
    No two closing braces touch: YARN's cluster mode deletes ``}}`` from arguments.
    """
    ranges = {p.topic_partition: p.range for p in partitions}
    return {
        "assign": _brace_safe(by_topic(ranges)),
        "startingOffsets": _brace_safe(values_by_topic({tp: found.start_offset for tp, found in ranges.items()})),
        "endingOffsets": _brace_safe(values_by_topic({tp: found.end_offset for tp, found in ranges.items()})),
    }


def _brace_safe(value: object) -> str:
    return json.dumps(value, separators=(",", ":")).replace("}}", "} }")
