# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The values that everything else is made of: a partition, a range of offsets, what a cluster said, who acts.

Absent is ``None`` everywhere. Broker sentinels (-1, -2, -1001) never get this far: ``broker/`` turns them into ``None``
or an error, and a value that could hold one cannot be built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, Self, TypeVar

import re2

IsolationLevel = Literal["read_uncommitted", "read_committed"]
K = TypeVar("K")
V = TypeVar("V")


class TopicPartition(NamedTuple("_TopicPartition", [("topic", str), ("partition", int)])):
    """One partition of one topic. Sorts by topic, then partition, which is the order of every output (Flink's H6).

    A tuple, because plans of 10,000 partitions hash and compare it hundreds of thousands of times.
    """

    __slots__ = ()

    def __new__(cls, topic: str, partition: int) -> Self:
        if not topic or partition < 0:
            raise ValueError(f"not a partition: {topic!r}[{partition}]")
        return tuple.__new__(cls, (topic, partition))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def _check_offset(name: str, offset: int) -> None:
    if offset < 0:
        raise ValueError(f"{name} {offset} is negative: a broker sentinel must not get past broker/")


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Half-open ``[start_offset, end_offset)``: the end is the first offset that is not read.

    ``size`` is an upper bound of the records in it: compaction and transaction markers leave gaps.
    """

    start_offset: int
    end_offset: int

    def __post_init__(self) -> None:
        _check_offset("start offset", self.start_offset)
        if self.end_offset < self.start_offset:
            raise ValueError(f"end offset {self.end_offset} is below start offset {self.start_offset}")

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset

    def without(self, others: Iterable[OffsetRange]) -> list[OffsetRange]:
        """What is left of it, ascending."""
        left, at = [], self.start_offset
        for start, end in (*sorted((o.start_offset, o.end_offset) for o in others), (self.end_offset, self.end_offset)):
            if at < min(start, self.end_offset):
                left.append(OffsetRange(at, min(start, self.end_offset)))
            at = max(at, end)
        return left


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a consumer group holds for a partition: the next offset to read, and the metadata that its writer gave."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""

    def __post_init__(self) -> None:
        _check_offset("committed offset", self.offset)


class EndOffset(NamedTuple):
    """The end of a partition under one isolation level, and the leader epoch that the broker gave with it."""

    offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """The two ends of a partition's log at one moment.

    :ivar end_offset: under the isolation level asked for: high watermark (``read_uncommitted``) or last stable offset.
    :ivar high_watermark: the end regardless of transactions; equal to ``end_offset`` under ``read_uncommitted``.
    :ivar leader_epoch: of the end; absent where the broker does not tell.
    """

    log_start_offset: int
    end_offset: int
    high_watermark: int
    leader_epoch: int | None = None

    def __post_init__(self) -> None:
        _check_offset("log start offset", self.log_start_offset)
        if not self.log_start_offset <= self.end_offset <= self.high_watermark:
            raise ValueError(
                f"log start {self.log_start_offset}, end {self.end_offset} and high watermark {self.high_watermark} "
                "are not in order"
            )


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A consumer group's state (``Empty``, ``Dead``, ``Stable``, …) and its live members, one line each."""

    state: str
    members: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it has no live member. Some brokers (Azure Event Hubs) call a group without members ``Dead``."""
        return not self.members and self.state in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as the cluster describes it. ``leaders`` maps partition to broker id, ``None`` where none leads."""

    topic_id: str | None
    leaders: Mapping[int, int | None]


@dataclass(frozen=True)
class ClusterDescription:
    """The cluster's id and the topics that a subscription matched."""

    cluster_id: str
    topics: Mapping[str, TopicDescription] = field(default_factory=dict)

    @property
    def topic_ids(self) -> dict[str, str | None]:
        return {name: topic.topic_id for name, topic in self.topics.items()}

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Sorted by topic, then partition."""
        return tuple(TopicPartition(name, p) for name in sorted(self.topics) for p in sorted(self.topics[name].leaders))


class Planned(NamedTuple):
    """What a task planned last: the key of its batch, and the plan's id."""

    key: str
    plan_id: str


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """The run of a batch; a retry or a clear is the same run.

    :ivar task_id: the task that runs the whole batch, or the group whose tasks do.
    :ivar clears: Airflow's counters of clears: each clear changes them, and a retry does not.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    clears: str = field(default="", compare=False)

    def retries(self, other: RunKey | None) -> bool:
        """Whether this is a retry in the same run, without a clear in between."""
        return other == self and other.clears == self.clears

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.run_id}/{self.task_id}{mapped}"


# ── what is subscribed to ─────────────────────────────────────────────────────────────────────────────────────────────

_INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state"}  # Kafka's Topic.INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class TopicList:
    """These topics, all of their partitions.

    :ivar all_exist: whether a topic that does not exist is an error; otherwise it is ignored.
    """

    topics: tuple[str, ...]
    all_exist: bool = True

    def __str__(self) -> str:
        return f"topics {', '.join(self.topics)}"

    def has(self, tp: TopicPartition) -> bool:
        return tp.topic in self.topics


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Every topic whose *whole* name matches (G2), and none of Kafka's internal ones (G4).

    The syntax is RE2's, which takes linear time for any topic name. So is that of Kafka's new consumer protocol
    (KIP-848).
    """

    pattern: str

    def __str__(self) -> str:
        return f"pattern {self.pattern}"

    def has(self, tp: TopicPartition) -> bool:
        return self.matches(tp.topic)

    def matches(self, topic: str) -> bool:
        return topic not in _INTERNAL_TOPICS and re2.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return f"partitions {', '.join(map(str, self.partitions))}"

    def has(self, tp: TopicPartition) -> bool:
        return tp in self.partitions


Subscription = TopicList | TopicPattern | PartitionSet


# ── grouping ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key; keys and values in the order they come in."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """``{"orders": [0, 1]}``: the partitions of each topic, both sorted."""
    return grouped((tp.topic, tp.partition) for tp in sorted(partitions))


def values_by_topic(values: Mapping[TopicPartition, V]) -> dict[str, dict[str, V]]:
    """``{"orders": {"0": 42}}``: a value of each partition, as Spark writes offsets in JSON."""
    topics = grouped((tp.topic, (str(tp.partition), values[tp])) for tp in sorted(values))
    return {topic: dict(of_topic) for topic, of_topic in topics.items()}
