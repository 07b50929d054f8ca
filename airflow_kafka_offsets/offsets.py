# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Starts and ends as people write them, and the forms in which they have offsets.

One type serves ``start=`` and ``end=``: a word (``"earliest"``, ``"latest"``) or one of the three values here. Offsets
are accepted as

- a mapping or JSON, ``{"orders": {"0": 42}}``: as Spark and this package write them;
- Flink's SQL text, ``partition:0,offset:42;partition:1,offset:300`` for one topic (C13); for several topics each entry
  names its own, ``topic:orders,partition:0,offset:42``;
- the content of a Structured Streaming checkpoint's file, ``offsets/12`` or ``sources/0/0``.

As a start, an offset is the next record to read; as an end, the first record not to read. A negative offset is some
tool's sentinel and is refused by name (A9, C10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from airflow_kafka_offsets.errors import shown
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.names import partition, whole_number
from airflow_kafka_offsets.templated import Templated
from airflow_kafka_offsets.times import iso

Otherwise = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, repr=False)
class GroupOffsets(Templated):
    """The committed offsets of a consumer group.

    :ivar group_id: the group; ``None``: the pipeline's own ``group_id``.
    :ivar otherwise: where to start if the group has no offset for a partition. If unset, the connection's
        ``auto.offset.reset`` decides; without one, such a run fails.
    """

    group_id: str | None = None
    otherwise: Otherwise | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Timestamp(Templated):
    """In each partition the first record with this time or a later one; the end of the log if there is none.

    :ivar t: ISO 8601, epoch milliseconds or a datetime; ``None``: the bound of the run's data interval,
        or the date of a partitioned run.
    """

    t: str | int | datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class SpecificOffsets(Templated):
    """An offset per partition.

    :ivar offsets: ``{"orders": {"0": 42}}``, or its JSON, or Flink's ``partition:0,offset:42``. As a start, a partition
        that is not listed starts at the group's offset.
    :ivar otherwise: as in :class:`GroupOffsets`.
    """

    offsets: Mapping[str, Mapping[str, int]] | str
    otherwise: Otherwise | None = None


Bound = Literal["earliest", "latest"] | GroupOffsets | Timestamp | SpecificOffsets
"""What ``start=`` and ``end=`` take."""


def is_by_window(start: Any, end: Any) -> bool:
    return isinstance(start, Timestamp) and isinstance(end, Timestamp)


# ── resolved: with the group, the time and the offsets of one run ─────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class GroupStart:
    """The committed offsets of ``group_id``; ``otherwise`` where it has none (``None``: refused)."""

    group_id: str
    otherwise: Otherwise | None = None

    def __str__(self) -> str:
        return f"offsets of group {self.group_id}" + (f", otherwise {self.otherwise}" if self.otherwise else "")


@dataclass(frozen=True, slots=True)
class TimeStart:
    """The first record with this time or a later one."""

    ms: int

    def __str__(self) -> str:
        return iso(self.ms)


@dataclass(frozen=True, slots=True)
class OffsetsStart:
    """These offsets; as a start, partitions that are not listed start as with :class:`GroupStart` (C2)."""

    offsets: Mapping[TopicPartition, int]
    group_id: str | None = None
    otherwise: Otherwise | None = None

    def __str__(self) -> str:
        first = ", ".join(f"{tp}:{self.offsets[tp]}" for tp in sorted(self.offsets)[:5])
        more = f" and {len(self.offsets) - 5} more" if len(self.offsets) > 5 else ""
        return f"offsets {first}{more}" + (f", otherwise {self.otherwise}" if self.otherwise else "")


Start = Literal["earliest", "latest"] | GroupStart | TimeStart | OffsetsStart
End = Literal["latest"] | GroupStart | TimeStart | OffsetsStart


# ── forms of text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_bound(text: str, otherwise: Otherwise | None, read_file: Callable[[str], str]) -> str | Templated:
    """A bound as the command line takes it.

    :param text: ``earliest``, ``latest``, ``group-offsets``, ``timestamp:<ISO or ms>``, ``offsets:<JSON or Flink's
        text>``, ``@<file>``.
    :param read_file: the content of a file.
    :raises ValueError: a sentence that follows the option's name.
    """
    word, _, rest = text.partition(":")
    if text in ("earliest", "latest"):
        if otherwise is not None:
            raise ValueError(f"is {shown(text)}; otherwise goes with group-offsets and offsets only")
        return text
    if text == "group-offsets":
        return GroupOffsets(otherwise=otherwise)
    if word == "timestamp" and rest:
        return Timestamp(rest)
    if word == "offsets" and rest:
        return SpecificOffsets(rest, otherwise)
    if text.startswith("@"):
        return SpecificOffsets(read_file(text[1:]), otherwise)
    raise ValueError(
        f"is {shown(text)}; give earliest, latest, group-offsets, timestamp:2026-11-20T10:00:00Z, "
        'offsets:{"orders": {"0": 42}} or @file'
    )


_EXAMPLE = '{"orders": {"0": 42}}'
# Flink's KafkaSource and Kafka's tools, then FlinkKafkaConsumer (KafkaTopicPartitionStateSentinel).
_SENTINELS: Mapping[int, str] = {
    -1: "latest",
    -2: "earliest",
    -3: "committed",
    -915623761773: "committed",
    -915623761774: "latest",
    -915623761775: "earliest",
    -915623761776: "not set",
}
_FLINK_ENTRY = re.compile(r"(?:topic:([^,;]+),)?partition:([0-9]+),offset:(-?[0-9]+)")
_CHECKPOINT = re.compile(r"\0?v([0-9]+)\n")  # Spark begins sources/0/0 with NUL (SPARK-19517)
_SOURCE_ID = re.compile(r"^[^{\[\":]+:")  # before each source's offsets in version 2, of Spark 4.1


def parse_offsets(value: Any, topics: Sequence[str] = ()) -> dict[TopicPartition, int]:
    """Offsets in any of the forms.

    :param topics: the subscribed topics; if there is one, Flink's text may leave the topic out.
    :raises ValueError: a sentence that follows the parameter's name.
    """
    if isinstance(value, str) and value.lstrip().startswith(("partition:", "topic:")):
        return _each_once(_from_flink(value.strip(), topics))
    if isinstance(value, str) and (version := _CHECKPOINT.match(value)):
        return _from_checkpoint(version[1], value[version.end() :])
    return _each_once(_from_mapping(_json_object(value)))


def _each_once(offsets: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
    by_partition: dict[TopicPartition, int] = {}
    for tp, offset in offsets:
        if tp in by_partition:
            raise ValueError(f"names {tp} twice")
        by_partition[tp] = offset
    return by_partition


def _from_mapping(topics: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, int]]:
    for topic, partitions in topics.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f'has {shown(partitions)} for topic {shown(topic)}; expected {{"0": 42}}')
        for number, offset in partitions.items():
            tp = partition(topic, number)
            yield tp, _offset(offset, tp)


def _from_flink(text: str, topics: Sequence[str]) -> Iterator[tuple[TopicPartition, int]]:
    for entry in text.removesuffix(";").split(";"):
        match = _FLINK_ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"has {shown(entry)}; expected partition:0,offset:42;partition:1,offset:300")
        topic = match[1]
        if topic is None and len(topics) != 1:
            raise ValueError(f"has {shown(entry)}, which names no topic; write topic:orders,{entry}")
        tp = partition(topic or topics[0], match[2])
        yield tp, _offset(match[3], tp)


def _from_checkpoint(version: str, content: str) -> dict[TopicPartition, int]:
    """What Spark's ``OffsetSeqLog`` and ``KafkaSourceInitialOffsetWriter`` write: JSON for each source."""
    if version not in ("1", "2"):
        raise ValueError(f"is a file of a Structured Streaming checkpoint in version v{version}; v1 and v2 are known")
    offsets: dict[TopicPartition, int] = {}
    for line in content.splitlines():
        for tp, offset in _from_mapping(_of_kafka(line)):
            if offsets.setdefault(tp, offset) != offset:
                raise ValueError(
                    f"is a checkpoint in which two sources read {tp}, up to {offsets[tp]} and up to {offset}; give the "
                    "offsets of one of them"
                )
    if not offsets:
        raise ValueError("is a file of a Structured Streaming checkpoint without a source that reads Kafka")
    return offsets


def _of_kafka(line: str) -> dict[str, dict[str, Any]]:
    """The offsets of a line, recognised by their form (partition numbers by topic); nothing for other sources."""
    text = _SOURCE_ID.sub("", line)
    if text in ("", "-"):
        return {}
    try:
        value = read_json(text)
    except ValueError as error:
        raise ValueError(f"is a checkpoint's file with a line that is not JSON ({error})") from None
    of_kafka = isinstance(value, dict) and all(
        isinstance(v, dict) and all(map(str.isdecimal, v)) for v in value.values()
    )
    return value if of_kafka else {}


def _offset(value: Any, tp: TopicPartition) -> int:
    offset = whole_number(value, f"has offset {{}} for {tp}")
    if offset < 0:
        meaning = f" ('{_SENTINELS[offset]}' in Flink and Kafka's tools)" if offset in _SENTINELS else ""
        raise ValueError(f"has offset {offset} for {tp}; negative numbers are sentinels{meaning}, not offsets")
    return offset


def _json_object(value: Any) -> Mapping[str, Any]:
    """A mapping, or the object that a JSON text describes.

    :raises ValueError: a sentence that follows the parameter's name.
    """
    if isinstance(value, str):
        try:
            value = read_json(value)
        except ValueError as error:
            raise ValueError(f"is not JSON ({error}); expected {_EXAMPLE}") from None
    if not isinstance(value, Mapping):
        raise ValueError(f"is {shown(value)}; expected {_EXAMPLE}")
    return value
