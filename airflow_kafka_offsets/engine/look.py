"""What one turn asks a cluster. Each answer is asked for at most once, in the order that correctness needs.

The group comes before the log, so that a mark in it is never newer than the log that it is compared with. Of the
partitions, log starts come first, then ends, then timestamps (B6, B12): a record that is produced in between lies at
or past the end, and belongs to the next batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from shlex import quote
from typing import Literal

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import ClusterChanged, ClusterUnavailable, NothingToDiscover
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    PartitionSet,
    PartitionSnapshot,
    TopicList,
    TopicPartition,
)
from airflow_kafka_offsets.log.entries import Plan, Topic
from airflow_kafka_offsets.plan.body import Offsets, PlanBody
from airflow_kafka_offsets.plan.cap import flink_owner
from airflow_kafka_offsets.plan.ranges import Committed, Facts
from airflow_kafka_offsets.request import GroupStart, OffsetsStart, Request, TimeStart

Gone = Literal["", "expired", "other log"]
"""Whether records of a plan are gone: by retention or with their topic, or because the log is another one (re-created,
or cut): then what a Spark job has read may be other records.
"""


class Look:
    """What a request finds on its cluster."""

    def __init__(self, want: Request, kafka: Cluster) -> None:
        self.want, self.kafka = want, kafka
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    @cached_property
    def description(self) -> ClusterDescription:
        return self.kafka.describe(self.want.subscription)

    @cached_property
    def asked(self) -> list[TopicPartition]:
        """The partitions that this run reads: subscribed, of its shard, and not excluded.

        :raises NothingToDiscover: a partition that is excluded does not exist.
        """
        unknown = self.want.exclude - set(self.description.partitions)
        if unknown:
            raise NothingToDiscover(
                [f"{tp} does not exist, or is not subscribed to" for tp in sorted(unknown)],
                "exclude= names it: correct the name, or leave it out.",
            )
        return [tp for tp in self.description.partitions if tp not in self.want.exclude and self._is_of_shard(tp)]

    def _is_of_shard(self, tp: TopicPartition) -> bool:
        return self.want.shard is None or flink_owner(tp, self.want.shard[1]) == self.want.shard[0]

    @cached_property
    def group(self) -> Committed:
        """What the group that follows holds for the subscribed partitions; empty without a group."""
        if self.want.group_id is None:
            return {}
        return self.committed(self.want.group_id, [tp for tp in self.description.partitions if self._is_of_shard(tp)])

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Committed:
        """A group's offsets, each partition asked once."""
        known = self._committed.setdefault(group_id, {})
        missing = [tp for tp in partitions if tp not in known]
        if missing:
            answers = self.kafka.committed(group_id, missing)
            known.update(answers)
        return {tp: known[tp] for tp in partitions if tp in known}

    def restored(self, position: Offsets) -> list[TopicPartition]:
        """The partitions of a position that are not subscribed to, and exist; from here on the description has them."""
        missing = {tp for tp in position if not self.want.subscription.has(tp)}
        if not missing:
            return []
        more = self.kafka.describe(TopicList(tuple(sorted({tp.topic for tp in missing})), all_exist=False))
        topics = {**more.topics, **self.description.topics}
        self.__dict__["description"] = ClusterDescription(self.description.cluster_id, topics)
        return [tp for tp in more.partitions if tp in missing]

    def topics(self, partitions: Iterable[TopicPartition]) -> dict[str, Topic]:
        """Ids and sizes for the plan; the size of a topic is not known where single partitions are subscribed to."""
        is_whole = not isinstance(self.want.subscription, PartitionSet)
        described = self.description.topics
        return {
            name: Topic(described[name].topic_id, len(described[name].leaders) if is_whole else None)
            for name in sorted({tp.topic for tp in partitions})
            if name in described
        }

    def facts(self, partitions: Collection[TopicPartition], known: Offsets, *, is_startup: bool) -> Facts:
        """What the cluster says of these partitions.

        :param known: the offsets that some of them resume from.
        :param is_startup: whether the others start by the startup mode; else they start at their log start.
        """
        want, starting = self.want, [tp for tp in partitions if is_startup and tp not in known]
        committed = end_committed = None
        if starting and isinstance(want.start, GroupStart | OffsetsStart) and want.start.group_id is not None:
            committed = self.committed(want.start.group_id, starting)
        if isinstance(want.end, GroupStart):
            end_committed = self.committed(want.end.group_id, partitions)
        snapshots = take_snapshots(self.kafka, partitions, want.isolation_level)
        at_end = at_start = {}
        if isinstance(want.end, TimeStart):
            at_end = self.kafka.offsets_for_times(dict.fromkeys(partitions, want.end.ms), want.isolation_level)
        if starting and isinstance(want.start, TimeStart):
            at_start = self.kafka.offsets_for_times(dict.fromkeys(starting, want.start.ms), want.isolation_level)
        facts = Facts(snapshots, self.description.topic_ids, committed, end_committed, at_start, at_end)
        offsets = {
            tp: (known[tp].offset, known[tp].leader_epoch)
            for tp in partitions
            if tp in known and not facts.is_recreated(tp, known[tp])
        }
        offsets |= {tp: (c.offset, c.leader_epoch) for tp, c in (committed or {}).items() if tp not in offsets}
        cuts = cut_logs(self.kafka, offsets, snapshots)
        return Facts(snapshots, self.description.topic_ids, committed, end_committed, at_start, at_end, cuts)


def take_snapshots(
    kafka: Cluster, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
) -> dict[TopicPartition, PartitionSnapshot]:
    """Both ends of each log, the start first: what is deleted in between makes it no shorter than it is.

    :raises ClusterUnavailable: a log was cut between the two looks.
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
                "The log was cut while it was looked at; retry.",
                retriable=True,
            )
        snapshots[tp] = PartitionSnapshot(log_starts[tp], end, max(end, marks[tp].offset), epoch)
    return snapshots


def cut_logs(
    kafka: Cluster,
    offsets: Mapping[TopicPartition, tuple[int, int | None]],
    snapshots: Mapping[TopicPartition, PartitionSnapshot],
) -> dict[TopicPartition, int]:
    """The first offset that differs, where a log was cut below a known offset (KIP-320).

    Only where the partition has had another leader since. Not where the offset is gone by retention: there the epoch
    does not help (E7).

    :param offsets: each with the leader epoch that was known with it.
    """
    older = {
        tp: epoch
        for tp, (offset, epoch) in offsets.items()
        if epoch is not None
        and (newest := snapshots[tp].leader_epoch) is not None
        and epoch < newest
        and offset >= snapshots[tp].log_start_offset
    }
    ends = kafka.ends_of_epochs(older) if older else {}
    return {tp: end for tp, end in ends.items() if end < offsets[tp][0]}


def records_gone(kafka: Cluster, plan: Plan, body: PlanBody) -> Gone:
    """Whether Kafka still has all that a plan reads.

    :raises ClusterChanged: another cluster answers.
    """
    to_read = {tp: r for tp, r in body.ranges.items() if r.end > r.start}
    if not to_read:
        return ""
    now = kafka.describe(TopicList(tuple(sorted({tp.topic for tp in to_read})), all_exist=False))
    if now.cluster_id != plan.cluster_id:
        raise other_cluster(plan, now.cluster_id)
    if any(_is_other(plan.topic_ids.get(name), topic_id) for name, topic_id in now.topic_ids.items()):
        return "other log"
    left = {tp: to_read[tp] for tp in now.partitions if tp in to_read}
    snapshots = take_snapshots(kafka, list(left), "read_uncommitted")
    if any(snapshots[tp].high_watermark < r.end for tp, r in left.items()):
        return "other log"
    if cut_logs(kafka, {tp: (r.end, r.leader_epoch) for tp, r in left.items()}, snapshots):
        return "other log"
    is_expired = len(left) < len(to_read) or any(snapshots[tp].log_start_offset > r.start for tp, r in left.items())
    return "expired" if is_expired else ""


def other_cluster(plan: Plan, now: str) -> ClusterChanged:
    """The refusal of a connection that leads to another cluster than the plan's."""
    remedy = (
        "Use another pipeline_id and an output of its own."
        if plan.kind == "window"
        else "Correct the connection. If the cluster was replaced, say where to go on: kafka-offsets reset "
        f"{quote(plan.pipeline)} --start earliest --allow-duplicates"
    )
    return ClusterChanged(
        f"Pipeline {plan.pipeline!r} has read cluster {plan.cluster_id}, and the connection leads to cluster {now}.",
        "Offsets of one cluster mean nothing in another.",
        remedy,
    )


def _is_other(then: str | None, now: str | None) -> bool:
    return then is not None and now is not None and then != now
