# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What the engine asks a cluster: a few questions for many partitions at once, and one commit.

Each question takes a collection, so that a call per partition cannot be written. A partition without an answer is
absent from the result. A partition whose answer is an error is an error of the whole call, which names all such
partitions. The real cluster and the one in memory of the tests pass one contract suite.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, Self

from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    EndOffset,
    GroupDescription,
    IsolationLevel,
    OffsetRange,
    Subscription,
    TopicPartition,
)

SEEKS = 10_000
"""Ranges that ``record_counts`` reads one by one. Of more, it reads partitions from their first range to their last."""


class Cluster(Protocol):
    """A cluster that can be asked and committed to. A question never creates a topic, nor joins a group.

    Every method raises ``ClusterUnavailable`` at its deadline, and ``NotAuthorized`` where a right is missing.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def describe(self, subscription: Subscription) -> ClusterDescription:
        """Return the cluster's id and the topics that match, with ids, partitions and leaders.

        :raises NothingToDiscover: a listed topic or partition does not exist, or a pattern matches nothing.
        """

    def log_start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of every partition that the broker serves."""

    def end_offsets(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, EndOffset]:
        """Return the high watermark of every partition; under ``read_committed``, the last stable offset."""

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset after the last record that was written under this leader epoch or an earlier one.

        Absent: the broker keeps no epochs for the partition.
        """

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """Return the first offset whose record has the time or a later one. Absent: there is no such record."""

    def first_times(
        self, starts: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """Return the time (ms) of the first record at or after an offset. Absent: there is none, or it has no time.

        The record is read, which needs the right Read on its topic.
        """

    def record_counts(
        self, ranges: Collection[tuple[TopicPartition, OffsetRange]]
    ) -> dict[tuple[TopicPartition, OffsetRange], int]:
        """Return how many records a ``read_committed`` reader is given in each range; ranges do not overlap.

        The records are read, which needs the right Read on their topics.
        """

    def newest_timestamps(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """Return the newest timestamp (ms) of each partition, also of a transaction marker or a deleted record.

        Absent: the log is empty, or, under ``read_committed``, the record lies at or past the last stable offset.
        """

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return the group's committed offsets. Absent: the group has none. Pending transactional ones are awaited."""

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return the group's state and members. A group that does not exist is ``Dead`` without members."""

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Write these offsets, with metadata and epochs, over whatever the group has; not atomically.

        :raises GroupActive: the broker refused because the group has live members.
        :raises ClusterUnavailable: names every partition that was not written, or may not have been.
        """
