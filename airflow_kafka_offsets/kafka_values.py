"""The values that everything else is made of: a partition, an offset range, what a cluster said.

Absent is ``None`` everywhere. Broker sentinels (-1, -2, -1001) never get this far: ``broker/`` makes them ``None``
or an error, and a value that could hold one cannot be built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, Self, TypeVar

IsolationLevel = Literal["read_uncommitted", "read_committed"]
TimestampType = Literal["CreateTime", "LogAppendTime"]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The part of a topic's configuration that plans use.

    :ivar timestamp_type: who stamps the records: the producer, or the broker.
    :ivar retention_ms: how long a record stays at least; ``None`` where time deletes none.
    :ivar retention_bytes: how large a partition may grow before its oldest segments are deleted; ``None``: any size.
    """

    timestamp_type: TimestampType = "CreateTime"
    retention_ms: int | None = None
    retention_bytes: int | None = None

    @property
    def keeps_all(self) -> bool:
        """Whether retention deletes nothing: there is no limit, or the topic is only compacted."""
        return self.retention_ms is None and self.retention_bytes is None


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
        return f"{self.topic}[{self.partition}]"


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
    """What a consumer group holds for a partition: the next offset to read, and what its writer put beside it."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""

    def __post_init__(self) -> None:
        _check_offset("committed offset", self.offset)


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
        if self.end_offset < self.log_start_offset:
            raise ValueError(f"end offset {self.end_offset} is below log start offset {self.log_start_offset}")
        if not self.end_offset <= self.high_watermark:
            raise ValueError(f"end offset {self.end_offset} is above high watermark {self.high_watermark}")


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as the cluster describes it. ``leaders`` maps partition to broker id, ``None`` where none leads."""

    topic_id: str | None
    leaders: Mapping[int, int | None]

    @property
    def leaderless(self) -> list[int]:
        return sorted(p for p, leader in self.leaders.items() if leader is None)


@dataclass(frozen=True)
class ClusterDescription:
    """The cluster's id and the topics that a subscription matched."""

    cluster_id: str
    topics: Mapping[str, TopicDescription] = field(default_factory=dict)

    @property
    def topic_ids(self) -> dict[str, str | None]:
        return {name: topic.topic_id for name, topic in self.topics.items()}

    def partitions(self) -> list[TopicPartition]:
        return list(self._partitions)

    @cached_property
    def _partitions(self) -> tuple[TopicPartition, ...]:  # a plan asks a dozen times, and there may be 10,000
        return tuple(TopicPartition(name, p) for name in sorted(self.topics) for p in sorted(self.topics[name].leaders))

    def leaderless(self) -> list[TopicPartition]:
        return [TopicPartition(name, p) for name in sorted(self.topics) for p in self.topics[name].leaderless]


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """The task instance that a plan is made for; a retry or a clear is the same run."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.run_id}/{self.task_id}{mapped}"

    def is_same_dag_run(self, other: RunKey) -> bool:
        return (self.dag_id, self.run_id) == (other.dag_id, other.run_id)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who writes into a log: a task instance of an Airflow, or a person (then there is no run).

    :ivar instance: ``None`` for a person at a terminal without Airflow.
    :ivar person: the name of a person, where it is known: by which Airflow knows them.
    """

    run: RunKey | None
    instance: str | None = None
    person: str | None = None

    def __str__(self) -> str:
        return f"run {self.run}" if self.run else self.person or "a person at the command line"


def is_another_log(then: str | None, now: str | None) -> bool:
    """Whether a topic was deleted and created again, by its ids; no, where either is not known."""
    return then is not None and now is not None and then != now


def topics_made_anew(then: Mapping[str, str | None], now: Mapping[str, str | None]) -> frozenset[str]:
    """The topics of ``now`` that are another log than then: the same name, another id (E6)."""
    return frozenset(topic for topic, topic_id in now.items() if is_another_log(then.get(topic), topic_id))


class OfLogs(Protocol):
    """Whatever says of which logs its offsets are."""

    @property
    def cluster_id(self) -> str:
        """The cluster's."""

    @property
    def topic_ids(self) -> Mapping[str, str | None]:
        """``None`` where the cluster has none."""


def in_same_logs(values: Mapping[TopicPartition, V], then: OfLogs, now: OfLogs) -> dict[TopicPartition, V]:
    """The values of partitions whose log is the one of then: of the same cluster, and no topic that was made anew."""
    anew = topics_made_anew(then.topic_ids, now.topic_ids)
    is_here = then.cluster_id == now.cluster_id
    return {tp: value for tp, value in values.items() if is_here and tp.topic not in anew}


def is_older(leader_epoch: int | None, newest: int | None) -> bool:
    """Whether a partition has had another leader since; no, where either is not known."""
    return leader_epoch is not None and newest is not None and leader_epoch < newest


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key; keys and values in the order they come in."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """``{"orders": [0, 1]}``: the partitions of each topic, both sorted."""
    return grouped((tp.topic, tp.partition) for tp in sorted(partitions))


def values_by_topic(values: Mapping[TopicPartition, V]) -> dict[str, dict[str, V]]:
    """``{"orders": {"0": 42}}``: a value of each partition, as Spark and this package write it in JSON."""
    return {
        topic: {str(number): values[TopicPartition(topic, number)] for number in numbers}
        for topic, numbers in by_topic(values).items()
    }
