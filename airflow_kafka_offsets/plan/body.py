# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The per-partition half of a plan, and its JSON: ranges, the position it resumes from, skips, decisions, cuts.

Rows are written in columns, grouped by topic (and topic id), because a plan may have 10,000 partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from airflow_kafka_offsets.json_columns import from_columns, to_columns
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition, grouped


class Offset(NamedTuple):
    """The next offset to read of a partition, in which topic (by id), and the leader epoch known with it."""

    offset: int
    leader_epoch: int | None = None
    topic_id: str | None = None


Offsets = Mapping[TopicPartition, Offset]


def is_other_topic(offset: Offset, tp: TopicPartition, topic_ids: Mapping[str, str | None]) -> bool:
    """Whether the topic was re-created since the offset was committed; no, if either id is unknown."""
    now = topic_ids.get(tp.topic)
    return offset.topic_id is not None and now is not None and offset.topic_id != now


class PlannedRange(NamedTuple):
    """What a batch reads of one partition: ``[start, end)``.

    :ivar leader_epoch: under which the end was looked up.
    :ivar log_end: where the log ended then: what was left unread, should the topic end.
    """

    start: int
    end: int
    leader_epoch: int | None = None
    log_end: int | None = None


DecisionKind = Literal["lost", "skipped", "again", "hidden"]


class Decision(NamedTuple):
    """Offsets that a batch does not read although its position has them next, or that it reads again.

    ``hidden``, by window: records that are gone and may have been this window's. Later plans of the batch keep it,
    because they cannot find it again.

    :ivar end: ``None`` where it is not known: the topic ended.
    :ivar by: whose decision it is, in words.
    """

    partition: TopicPartition
    start: int
    end: int | None
    kind: DecisionKind
    by: str

    @property
    def effect(self) -> str:
        return "read again" if self.kind == "again" else self.kind


class Stretch(NamedTuple):
    """Adjacent windows that a pipeline has taken, ``[start_ms, end_ms)``, with the cut at both ends."""

    start_ms: int
    end_ms: int
    start_cut: Offsets
    end_cut: Offsets


Skips = Mapping[TopicPartition, tuple[OffsetRange, ...]]


@dataclass(frozen=True, slots=True)
class PlanBody:
    """One row per partition of a plan.

    :ivar ranges: what the job reads; also empty ranges of partitions that were asked for.
    :ivar resume_from: the position that the plan starts at, also of partitions that it does not read.
    :ivar skips: offsets inside the ranges that the job must not write, by a person's decision.
    :ivar covered: by window: what the pipeline has taken so far, this window included.
    """

    ranges: Mapping[TopicPartition, PlannedRange] = field(default_factory=dict)
    resume_from: Offsets = field(default_factory=dict)
    skips: Skips = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    covered: tuple[Stretch, ...] = ()

    def planned(self, tp: TopicPartition) -> int:
        """How many offsets the job has to account for in one partition."""
        return self.ranges[tp].end - self.ranges[tp].start - sum(s.size for s in self.skips.get(tp, ()))

    @property
    def offsets(self) -> int:
        """How many offsets the job has to account for: an upper bound of records."""
        return sum(r.end - r.start for r in self.ranges.values()) - sum(
            s.size for of in self.skips.values() for s in of
        )

    @property
    def given_up(self) -> dict[str, int]:
        """Offsets by kind of decision; a decision of unknown end counts as one."""
        counts = {"lost": 0, "skipped": 0, "again": 0, "hidden": 0}
        for one in self.decisions:
            counts[one.kind] += 1 if one.end is None else one.end - one.start
        return counts

    def position_after(self, topic_ids: Mapping[str, str | None]) -> dict[TopicPartition, Offset]:
        """The position once this plan is committed. A partition that it does not read keeps its offset (FLINK-6006)."""
        position = dict(self.resume_from)
        for tp, planned in self.ranges.items():
            topic_id = topic_ids.get(tp.topic) or (position[tp].topic_id if tp in position else None)
            position[tp] = Offset(planned.end, planned.leader_epoch, topic_id)
        return position


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def body_to_dict(body: PlanBody) -> dict[str, Any]:
    skips = [(tp, s.start_offset, s.end_offset) for tp in sorted(body.skips) for s in body.skips[tp]]
    return {
        "version": 1,
        "ranges": to_columns(PlannedRange._fields, body.ranges),
        "skips": _repeated(skips, ("start", "end")),
        "resume_from": offsets_to_list(body.resume_from),
        "decisions": _repeated(body.decisions, _DECISION),
        "covered": [
            {
                "start": s.start_ms,
                "end": s.end_ms,
                "from": offsets_to_list(s.start_cut),
                "to": offsets_to_list(s.end_cut),
            }
            for s in body.covered
        ],
    }  # fmt: skip


def body_from_dict(data: Mapping[str, Any]) -> PlanBody:
    """:raises ValueError, LookupError, TypeError: it is no body of a plan."""
    skips = grouped((tp, OffsetRange(start, end)) for tp, start, end in _rows(data["skips"], ("start", "end")))
    return PlanBody(
        ranges={tp: PlannedRange(**row) for tp, row in from_columns(data["ranges"], _RANGE)},
        resume_from=offsets_from_list(data["resume_from"]),
        skips={tp: tuple(ranges) for tp, ranges in skips.items()},
        decisions=tuple(Decision(*row) for row in _rows(data["decisions"], _DECISION)),
        covered=tuple(
            Stretch(s["start"], s["end"], offsets_from_list(s["from"]), offsets_from_list(s["to"]))
            for s in data["covered"]
        ),
    )


_RANGE = {
    "start": (int, False),
    "end": (int, False),
    "leader_epoch": (int | None, False),
    "log_end": (int | None, False),
}
_DECISION = Decision._fields[1:]


def offsets_to_list(offsets: Offsets) -> list[dict[str, Any]]:
    """``[{"topic": "orders", "id": "…", "partition": [0, 1], "offset": [5, 9], "leader_epoch": [3, 3]}]``."""
    by_log = grouped(((tp.topic, offsets[tp].topic_id), tp) for tp in sorted(offsets))
    return [
        {
            "topic": topic,
            "id": topic_id,
            "partition": [tp.partition for tp in of_log],
            "offset": [offsets[tp].offset for tp in of_log],
            "leader_epoch": [offsets[tp].leader_epoch for tp in of_log],
        }
        for (topic, topic_id), of_log in by_log.items()
    ]


def offsets_from_list(groups: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, Offset]:
    return {
        TopicPartition(group["topic"], partition): Offset(offset, epoch, group["id"])
        for group in groups
        for partition, offset, epoch in zip(group["partition"], group["offset"], group["leader_epoch"], strict=True)
    }


def _repeated(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> dict[str, dict[str, list[Any]]]:
    """Columns by topic of rows that begin with a partition; a partition may have several."""
    return {
        topic: {
            "partition": [tp.partition for tp, *_ in of_topic],
            **{name: [row[at] for row in of_topic] for at, name in enumerate(names, 1)},
        }
        for topic, of_topic in grouped((row[0].topic, row) for row in rows).items()
    }


def _rows(topics: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for topic, columns in topics.items():
        for number, *values in zip(columns["partition"], *(columns[name] for name in names), strict=True):
            yield TopicPartition(topic, number), *values
