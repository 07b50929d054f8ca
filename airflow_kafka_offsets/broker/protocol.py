"""What the planner needs from a cluster: a few batch questions and one commit.

Each takes a collection, so that a call per partition cannot be written. Partitions that have no answer are absent from
the result; a partition whose answer is an error is an error of the whole call, with all such partitions in it. The real
cluster and the in-memory one of the tests pass one contract suite.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    TopicPartition,
    TopicSettings,
)
from airflow_kafka_offsets.request.subscription import Subscription


class EndOffset(NamedTuple):
    """The end of a partition under one isolation level, and the leader epoch that the broker gave with it."""

    offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A consumer group's state (``Empty``, ``Dead``, ``Stable``, …) and its live members, one line each."""

    state: str
    members: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it has no live member. Some brokers (Azure Event Hubs) call a group without members ``Dead``."""
        return not self.members and self.state in ("Empty", "Dead")


class OffsetReader(Protocol):
    """Read-only questions. ``ClusterUnavailable`` within the deadline; they never create a topic nor join a group."""

    def describe(self, subscription: Subscription) -> ClusterDescription:
        """The cluster's id and the topics that match, with ids, partitions and leaders.

        :raises NothingToDiscover: a listed topic or partition does not exist, or a pattern matches nothing.
        """

    def ask_anew(self) -> None:
        """Ask the next look-up by new clients: one that has just changed leaders may know an old end."""

    def log_start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The earliest offset that the broker serves, of every partition."""

    def end_offsets(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, EndOffset]:
        """High watermark, or last stable offset under ``read_committed``, of every partition."""

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset after the last one that was written under this leader epoch, or under one before it, in the log as
        it is now; absent where the broker does not know.
        """

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """The first offset whose record's timestamp is at or after the time; absent where there is no such record."""

    def first_times(
        self, starts: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> tuple[dict[TopicPartition, int], str | None]:
        """Of each partition the time of the first record at or after an offset, which is read for it; absent where
        there is none, or where it is not known. The second value says why that is so.
        """

    def newest_timestamps(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """The newest timestamp in each partition, of whichever offset: also of the end of a transaction, which carries
        the broker's clock, and of a record that was deleted since. Absent where there is none, and under
        ``read_committed`` where it is in a transaction that is open, or behind one.
        """

    def topic_settings(self, topics: Collection[str]) -> dict[str, TopicSettings]:
        """Who stamps each topic's records, and how long they stay; absent where this client may not know (the right
        DescribeConfigs).
        """

    def committed(
        self, group_id: str, partitions: Collection[TopicPartition], *, stable: bool = True
    ) -> dict[TopicPartition, CommittedOffset]:
        """What the group holds; absent where nothing.

        :param stable: whether a pending transactional commit is waited for, or passed over.
        """


class OffsetCommitter(Protocol):
    """What the commit needs besides reading."""

    def describe_group(self, group_id: str) -> GroupDescription:
        """The group's state; a group that does not exist is ``Dead`` without members."""

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Write these offsets, with their metadata and epochs, over whatever the group holds; not atomically.

        :raises GroupActive: the broker refused because the group has live members.
        :raises ClusterUnavailable: every partition that was not written, or of which that is not known; some may have
            been.
        """


class Cluster(OffsetReader, OffsetCommitter, Protocol):
    """A cluster that can be asked and committed to."""
