# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What one turn reads of a cluster: each thing at most once, in the order that correctness needs.

The group comes before the log, so that a mark in it is never newer than the log that it is compared with. Of the
partitions, log starts come first, then ends, then timestamps (B6, B12): a record that is produced in between lies at
or past the end, and belongs to the next batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Literal

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import ClusterUnavailable, NothingToDiscover
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    PartitionSet,
    PartitionSnapshot,
    TopicDescription,
    TopicList,
    TopicPartition,
)
from airflow_kafka_offsets.log.entries import Plan, Topic
from airflow_kafka_offsets.plan.body import Offset, Offsets, PlanBody
from airflow_kafka_offsets.plan.cap import flink_owner
from airflow_kafka_offsets.plan.ranges import Committed, Facts
from airflow_kafka_offsets.request import GroupStart, OffsetsStart, Request, TimeStart

Gone = Literal["", "expired", "other log", "other cluster"]
"""Whether records of a plan are gone: by retention or with their topic, or because the log is another one (re-created,
or truncated): then what a Spark job has read may be other records.
"""


class Answers:
    """A cluster's answers, each kept for one turn."""

    def __init__(self, kafka: Cluster, isolation_level: IsolationLevel) -> None:
        self.kafka, self.isolation_level = kafka, isolation_level
        self._topics: dict[str, TopicDescription | None] = {}
        self._cluster_id: str | None = None
        self._snapshots: dict[TopicPartition, PartitionSnapshot] = {}
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def know(self, description: ClusterDescription) -> ClusterDescription:
        self._topics |= description.topics
        self._cluster_id = description.cluster_id
        return description

    def describe(self, topics: Iterable[str]) -> ClusterDescription:
        """Those of the topics that exist."""
        names = sorted(set(topics))
        missing = [name for name in names if name not in self._topics]
        if missing or self._cluster_id is None:
            self.know(self.kafka.describe(TopicList(tuple(missing), all_exist=False)))
            self._topics = {**dict.fromkeys(missing), **self._topics}
        found = {name: topic for name in names if (topic := self._topics[name]) is not None}
        return ClusterDescription(str(self._cluster_id), found)

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Committed:
        """A group's offsets."""
        known = self._committed.setdefault(group_id, {})
        if missing := [tp for tp in partitions if tp not in known]:
            known.update(self.kafka.committed(group_id, missing))
        return {tp: known[tp] for tp in partitions if tp in known}

    def snapshots(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionSnapshot]:
        """Both ends of each log, under the isolation level."""
        if missing := [tp for tp in partitions if tp not in self._snapshots]:
            self._snapshots |= take_snapshots(self.kafka, missing, self.isolation_level)
        return {tp: self._snapshots[tp] for tp in partitions}

    def truncated(self, offsets: Mapping[TopicPartition, tuple[int, int | None]]) -> dict[TopicPartition, int]:
        """The first offset that differs, where a log was truncated below a known offset (KIP-320).

        Only where the partition has had another leader since. Not where the offset is gone by retention: there the
        epoch does not help (E7).

        :param offsets: each with the leader epoch that was known with it.
        """
        snapshots = self.snapshots(list(offsets))
        older = {
            tp: epoch
            for tp, (offset, epoch) in offsets.items()
            if epoch is not None
            and (newest := snapshots[tp].leader_epoch) is not None
            and epoch < newest
            and offset >= snapshots[tp].log_start_offset
        }
        ends = self.kafka.ends_of_epochs(older) if older else {}
        return {tp: end for tp, end in ends.items() if end < offsets[tp][0]}

    def gone(self, plan: Plan, body: PlanBody) -> Gone:
        """Whether Kafka still has all that a plan reads."""
        to_read = {tp: r for tp, r in body.ranges.items() if r.end > r.start}
        if not to_read:
            return ""
        now = self.describe(tp.topic for tp in to_read)
        if now.cluster_id != plan.cluster_id:
            return "other cluster"
        if any(None not in (plan.topic_ids.get(name), id) and plan.topic_ids[name] != id
               for name, id in now.topic_ids.items()):  # fmt: skip
            return "other log"
        left = {tp: to_read[tp] for tp in now.partitions if tp in to_read}
        snapshots = self.snapshots(list(left))
        if any(snapshots[tp].high_watermark < r.end for tp, r in left.items()):
            return "other log"
        if self.truncated({tp: (r.end, r.leader_epoch) for tp, r in left.items()}):
            return "other log"
        is_expired = len(left) < len(to_read) or any(snapshots[tp].log_start_offset > r.start for tp, r in left.items())
        return "expired" if is_expired else ""


class LookAgain(Exception):
    """The log, or the cluster itself, is newer than the answers of the cluster."""


class Look(Answers):
    """What a request finds on its cluster."""

    def __init__(self, request: Request, kafka: Cluster) -> None:
        super().__init__(kafka, request.isolation_level)
        self.request = request

    @cached_property
    def description(self) -> ClusterDescription:
        """The existing part of the subscription; :meth:`require_topics` names the missing one.

        :raises LookAgain: a topic of single partitions is re-created between the two looks at it.
        """
        subscription = self.request.subscription
        if isinstance(subscription, TopicList):
            subscription = replace(subscription, all_exist=False)
        found = self.kafka.describe(subscription)
        if not isinstance(subscription, PartitionSet):
            return self.know(found)
        if self.describe(found.topics).topic_ids != found.topic_ids:  # the topics as a whole
            raise LookAgain
        return found

    def confirm(self, topics: Iterable[str]) -> None:
        """Ask once more for topics whose ids the log does not have: it may know of newer ones.

        :raises LookAgain: it does.
        """
        now, then = self.kafka.describe(TopicList(tuple(sorted(topics)), all_exist=False)), self.description
        if any(now.topic_ids.get(name) != then.topic_ids.get(name) for name in topics):
            raise LookAgain

    def require_topics(self, ended: Collection[str] = ()) -> None:
        """:raises NothingToDiscover: a listed topic does not exist, and no identity says that it ended."""
        if isinstance(self.request.subscription, TopicList):
            missing = {*self.request.subscription.topics} - self.description.topics.keys() - {*ended}
            if missing:
                raise NothingToDiscover(
                    [f"topic {topic} does not exist" for topic in sorted(missing)],
                    "Create it, or correct topics=. A PartitionDiscoverySensor waits for topics that are to come.",
                )

    @cached_property
    def own(self) -> list[TopicPartition]:
        """The subscribed partitions of this shard."""
        return [tp for tp in self.description.partitions if is_of_shard(tp, self.request.shard)]

    @cached_property
    def asked(self) -> list[TopicPartition]:
        """The partitions that this run reads: subscribed, of its shard, and not excluded.

        :raises NothingToDiscover: a partition that is excluded does not exist.
        """
        unknown = self.request.exclude - set(self.description.partitions)
        if unknown:
            raise NothingToDiscover(
                [f"{tp} does not exist, or is not subscribed to" for tp in sorted(unknown)],
                "exclude= names it: correct the name, or leave it out.",
            )
        return [tp for tp in self.own if tp not in self.request.exclude]

    def to_read(self, position: Offsets) -> list[TopicPartition]:
        """The partitions to read. With ``filter_restored_partitions=False`` those of the position are read on,
        subscribed to or not (F5)."""
        if self.request.filter_restored_partitions:
            return self.asked
        missing = {tp for tp in position if not self.request.subscription.has(tp)}
        restored = self.describe(tp.topic for tp in missing).partitions if missing else ()
        return sorted({*self.asked, *(tp for tp in restored if tp in missing)})

    @cached_property
    def group(self) -> Committed:
        """What the group holds for the subscribed partitions, of all shards; empty without a group."""
        group_id = self.request.group_id
        return {} if group_id is None else self.committed(group_id, self.description.partitions)

    def topics(self, partitions: Iterable[TopicPartition]) -> dict[str, Topic]:
        """Ids and sizes for the plan; the size of a topic is not known where single partitions are subscribed to."""
        is_whole = not isinstance(self.request.subscription, PartitionSet)
        described = self.describe(tp.topic for tp in partitions).topics
        return {name: Topic(t.topic_id, len(t.leaders) if is_whole else None) for name, t in described.items()}

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str | None]:
        return self.describe(tp.topic for tp in partitions).topic_ids

    def startup_facts(self, partitions: Collection[TopicPartition]) -> Facts:
        """What the startup mode of the request needs to know."""
        request, committed, at_start = self.request, None, dict[TopicPartition, int]()
        if isinstance(request.start, GroupStart | OffsetsStart) and request.start.group_id is not None:
            committed = self.committed(request.start.group_id, partitions)
        snapshots = self.snapshots(partitions)
        if isinstance(request.start, TimeStart):
            at_start = self.at_time(partitions, request.start.ms)
        return Facts(snapshots, self.topic_ids(partitions), committed, at_start=at_start)

    def facts(self, partitions: Collection[TopicPartition], resume_from: Offsets) -> Facts:
        """What it takes to validate these starts, and to find the ends."""
        request, end_committed, at_end = self.request, None, dict[TopicPartition, int]()
        if isinstance(request.end, GroupStart):
            end_committed = self.committed(request.end.group_id, partitions)
        snapshots = self.snapshots(partitions)
        if isinstance(request.end, TimeStart):
            at_end = self.at_time(partitions, request.end.ms)
        known = {tp: (resume_from[tp].offset, resume_from[tp].leader_epoch) for tp in partitions if tp in resume_from}
        truncated = self.truncated(known)
        ids = self.topic_ids(partitions)
        return Facts(snapshots, ids, end_committed=end_committed, at_end=at_end, truncated=truncated)

    def at_time(self, partitions: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The first offset with this time or a later one; absent where there is none."""
        return (
            self.kafka.offsets_for_times(dict.fromkeys(partitions, time_ms), self.isolation_level) if partitions else {}
        )

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Where new partitions start, whatever the startup mode (F3, F4)."""
        logs, ids = self.snapshots(partitions), self.topic_ids(partitions)
        return {tp: Offset(log.log_start_offset, log.leader_epoch, ids.get(tp.topic)) for tp, log in logs.items()}


def is_of_shard(tp: TopicPartition, shard: tuple[int, int] | None) -> bool:
    return shard is None or flink_owner(tp, shard[1]) == shard[0]


def take_snapshots(
    kafka: Cluster, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
) -> dict[TopicPartition, PartitionSnapshot]:
    """Both ends of each log, the start first: a deletion in between does not make it look shorter.

    :raises ClusterUnavailable: a log was truncated in between.
    """
    log_starts = kafka.log_start_offsets(partitions)
    ends = kafka.end_offsets(partitions, isolation_level)
    marks = ends if isolation_level == "read_uncommitted" else kafka.end_offsets(partitions, "read_uncommitted")
    snapshots = {}
    for tp in partitions:
        end, epoch = ends[tp]
        if end < log_starts[tp]:
            raise ClusterUnavailable(
                "Cannot plan",
                f"{tp} ends at {end}, below the log start {log_starts[tp]} of a moment ago",
                "The log was truncated meanwhile; retry.",
                retriable=True,
            )
        snapshots[tp] = PartitionSnapshot(log_starts[tp], end, max(end, marks[tp].offset), epoch)
    return snapshots
