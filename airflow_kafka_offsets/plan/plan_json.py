"""Plan ↔ versioned JSON, and the option strings of Spark's Kafka source.

Within a version fields may be added; none is removed or changes its meaning. A version that this code does not know is
refused, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from airflow_kafka_offsets.json_columns import (
    as_json,
    from_columns,
    members,
    read_as,
    read_members,
    reading,
    require_version,
    to_columns,
    whole,
)
from airflow_kafka_offsets.kafka_values import (
    Actor,
    OffsetRange,
    TopicPartition,
    by_topic,
    grouped,
    values_by_topic,
)
from airflow_kafka_offsets.plan.plan import Asked, Draft, Found, Plan, PlannedPartition
from airflow_kafka_offsets.request.parse_request import MOST_SPLITS

VERSION = 1
_COLUMNS = {
    **members(OffsetRange),
    **{name: of for name, of in members(PlannedPartition).items() if name not in ("topic_partition", "range", "skips")},
}
_READ = {**_COLUMNS, "skips": members(PlannedPartition)["skips"], "split": (Any, False)}
_AS_THEY_ARE = {
    name: of
    for name, of in members(Plan).items()
    if name not in ("asked", "found", "by", "partitions", "split_count", "splits")
}


def plan_to_dict(plan: Draft) -> dict[str, Any]:
    """The plan as docs/formats.md gives it: plain JSON values. A draft has no batch, nobody who made it, and no splits.

    ``split``: the number of the split that reads the partition, or of each piece ``[split, start_offset, end_offset]``;
    of a draft null.
    """
    row_of, pieces = attrgetter(*_COLUMNS), _pieces(plan) if isinstance(plan, Plan) else {}
    rows = {p.topic_partition: (*row_of(p), as_json(p.skips), pieces.get(p.topic_partition)) for p in plan.partitions}
    columns, found = to_columns(tuple(_READ), rows), as_json(plan.found)
    ids, stamped_by = found.pop("topic_ids"), found.pop("timestamp_types")
    return {
        "version": VERSION,
        **({"plan_id": plan.plan_id, **as_json(plan.by)} if isinstance(plan, Plan) else {}),
        **{name: as_json(getattr(plan, name)) for name in _AS_THEY_ARE if hasattr(plan, name)},
        **as_json(plan.asked),
        **found,
        "splits": plan.split_count,
        "record_count_upper_bound": plan.record_count_upper_bound,
        "topics": {
            topic: {
                "topic_id": topic_id,
                "timestamp_type": stamped_by.get(topic),
                **columns.get(topic, {name: [] for name in ("partition", *_READ)}),
            }
            for topic, topic_id in ids.items()
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
    with reading("a plan"):
        require_version(data, VERSION, "plan")
        plan = _plan_from_fields(data)
    if plan.plan_id != data.get("plan_id"):
        raise ValueError(f"plan_id is {data.get('plan_id')}, but the contents digest to {plan.plan_id}: it was altered")
    return plan


def _plan_from_fields(data: Mapping[str, Any]) -> Plan:
    topics, count = data["topics"], whole(data["splits"])
    if not 0 < count <= MOST_SPLITS:
        raise ValueError(f"it has {count} splits, and there are 1 to {MOST_SPLITS}")
    splits: list[list[PlannedPartition]] = [[] for _ in range(count)]
    partitions = []
    for tp, row in from_columns(topics, _READ):
        split, range_ = row.pop("split"), OffsetRange(row.pop("start_offset"), row.pop("end_offset"))
        partition = PlannedPartition(tp, range_, **row)
        partitions.append(partition)
        for number, piece in _pieces_of(partition, split):
            if not 0 <= number < count:
                raise ValueError(f"{tp} is in split {number}, and there are {count}")
            splits[number].append(piece)
    ids, stamped_by = (
        {topic: of[name] for topic, of in topics.items() if name == "topic_id" or of[name] is not None}
        for name in ("topic_id", "timestamp_type")
    )
    return Plan(
        **read_members(_AS_THEY_ARE, data),
        asked=read_as(Asked, data),
        found=read_as(Found, {**data, "topic_ids": ids, "timestamp_types": stamped_by}),
        by=read_as(Actor, data),
        partitions=tuple(sorted(partitions, key=attrgetter("topic_partition"))),
        split_count=count,
        splits=tuple(tuple(sorted(split, key=attrgetter("topic_partition"))) for split in splits),
    )


def _pieces_of(partition: PlannedPartition, split: Any) -> list[tuple[int, PlannedPartition]]:
    if split is None:
        return []
    if not isinstance(split, list):
        return [(whole(split), partition)]
    return [(whole(n), partition.within(whole(start), whole(end))) for n, start, end in split]


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
