"""The state of partitions, how far one pipeline is behind, and what a commit has left.

The pipeline's position is asked for first, in its log or in the group, then the log starts and the ends, so that a
commit in between cannot lie beyond an end. Last comes where the allowed age lies, and where retention will be. That is
at most seven batch questions, however many partitions there are, and no record is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, assert_never

from airflow_kafka_offsets.batch.follow_group import partitions_now
from airflow_kafka_offsets.batch.look_ups import take_snapshots, topics_that_exist
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import (
    CONNECTION,
    ClusterChanged,
    ClusterUnavailable,
    InvalidRequest,
    NotAuthorized,
    named,
)
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    OffsetRange,
    PartitionSnapshot,
    TopicPartition,
    topics_made_anew,
)
from airflow_kafka_offsets.log.entries import BatchLog
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata, position_of_group
from airflow_kafka_offsets.plan.completeness import Arrived
from airflow_kafka_offsets.plan.consumer_lag import Lag, LagLimits, partition_lag, position_mark
from airflow_kafka_offsets.plan.lag_and_margin import (
    LagAndMargin,
    LogStart,
    lag_and_margin,
    log_starts_in,
    log_starts_of,
    taken_within,
    together,
)
from airflow_kafka_offsets.plan.missing_topics import missing_for
from airflow_kafka_offsets.plan.plan import Draft, number_named, number_of
from airflow_kafka_offsets.plan.position import Position, move
from airflow_kafka_offsets.request.commit_target import CommitTarget
from airflow_kafka_offsets.request.modes import AtTimestamp, SpecificOffsets
from airflow_kafka_offsets.request.subscription import Scope
from airflow_kafka_offsets.request.times import iso

# ── what a person sees: each partition, with ages and margins ─────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Measured:
    """The lag and the margin of each partition.

    :ivar not_known: why some of it is not known: a phrase each.
    :ivar keeps_all: whether retention deletes none of the topics that have unread records.
    """

    partitions: Mapping[TopicPartition, LagAndMargin]
    not_known: tuple[str, ...] = ()
    keeps_all: bool = False

    @property
    def together(self) -> LagAndMargin:
        return together(self.partitions.values())


def next_offsets(
    position: Position | None, found: ClusterDescription, pipeline: str, states: Sequence[PartitionState]
) -> tuple[dict[TopicPartition, int], list[str]]:
    """What a pipeline reads next of each partition, and the topics that are another log by now.

    A partition that the position lacks counts from its log start: nobody has read it. What a topic that was created
    again has, counts for nothing before somebody has decided.

    :raises ClusterChanged: the position is another cluster's.
    """
    if position is None:
        return {}, []
    if position.cluster_id != found.cluster_id:
        raise ClusterChanged(pipeline, position.cluster_id, found.cluster_id)
    anew = topics_made_anew(position.topic_ids, found.topic_ids)
    offsets = {state.topic_partition: state.log.log_start_offset for state in states if state.log is not None}
    offsets |= {tp: saved.offset for tp, saved in position.offsets.items()}
    return {tp: offset for tp, offset in offsets.items() if tp.topic not in anew}, sorted(anew)


def measure(
    states: Sequence[PartitionState],
    offsets: Mapping[TopicPartition, int],
    before: Mapping[TopicPartition, LogStart],
    cluster: OffsetReader,
    isolation_level: IsolationLevel,
    now_ms: int,
) -> Measured:
    """How far each of these offsets is from both ends. How old a record is, it says itself: the first one is read."""
    logs = {s.topic_partition: s.log for s in states if s.log is not None}
    unread = {
        tp: max(offsets[tp], log.log_start_offset)
        for tp, log in logs.items()
        if tp in offsets and offsets[tp] < log.end_offset
    }
    topics = sorted({tp.topic for tp in unread})
    times, why = cluster.first_times(unread, isolation_level) if unread else ({}, None)
    settings = cluster.topic_settings(topics)
    hidden = [topic for topic in topics if topic not in settings]
    not_known = [f"how old some records are is not known: {why}"] * (why is not None)
    if hidden:
        not_known.append(
            f"how long the records of {', '.join(hidden)} stay is not known: this client may not see how the topic is "
            "configured (the right DescribeConfigs)"
        )
    found = {
        s.topic_partition: lag_and_margin(
            offsets.get(s.topic_partition),
            s.log,
            now_ms,
            record_ms=times.get(s.topic_partition),
            settings=settings.get(s.topic_partition.topic),
            before=before.get(s.topic_partition),
        )
        for s in states
    }
    keeps_all = bool(topics) and not hidden and all(settings[topic].keeps_all for topic in topics)
    return Measured(found, tuple(not_known), keeps_all)


# ── what a sensor waits for ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LagQuestion:
    """What has to be asked of the cluster, with what the pipeline's log answers already.

    :ivar pipeline_id: whose position it is measured from; ``None``: from what the group holds.
    :ivar log: of its newest batch; ``None``: there is none, or the log is lost: its offsets in the group count.
    """

    scope: Scope
    limits: LagLimits
    pipeline_id: str | None = None
    log: BatchLog | None = None


def lag_question(scope: Scope, limits: LagLimits, pipeline: PipelineLog | None) -> LagQuestion:
    """What has to be asked of the cluster, after a look at the log.

    :raises InvalidRequest: there is no group.
    """
    if scope.group_id is None:
        raise InvalidRequest((f"Whose lag? Give {named('group_id')}, or set group.id in {named(CONNECTION)}.",))
    if pipeline is None:
        return LagQuestion(scope, limits)
    newest = pipeline.newest()
    return LagQuestion(scope, limits, pipeline.pipeline_id, newest.log if newest else None)


def look_at_lag(question: LagQuestion, cluster: OffsetReader, description: ClusterDescription, now_ms: int) -> Lag:
    """How far the pipeline is behind; the group has no new member by it.

    :param description: what there is of the subscription.
    :raises ClusterUnavailable: the cluster could not be asked.
    :raises NotAuthorized: the limit is a margin, and this client may not know how long records stay.
    """
    scope, limits, log = question.scope, question.limits, question.log
    partitions = sorted(description.partitions())
    held = {} if log else cluster.committed(str(scope.group_id), partitions, stable=False)
    states = partition_states(cluster, description, partitions, scope.isolation_level)
    logs = {state.topic_partition: state.log for state in states if state.log is not None}
    young: Mapping[TopicPartition, int] = {}
    if limits.max_age_ms is not None:  # an unread record from before is too old
        times = dict.fromkeys(logs, max(0, now_ms - limits.max_age_ms))
        young = cluster.offsets_for_times(times, scope.isolation_level)
    taken: Mapping[TopicPartition, int] = {}
    if limits.min_margin_ms is not None:
        taken = _taken_within(
            limits.min_margin_ms, logs, cluster, now_ms, log_starts_of(log.plan if log else None, description)
        )
    offsets = _position(question, description.cluster_id, held)
    lags = [
        partition_lag(
            state.topic_partition,
            state.log,
            offsets.get(state.topic_partition),
            young.get(state.topic_partition),
            ages=limits.max_age_ms is not None,
            taken=taken.get(state.topic_partition),
        )
        for state in states
    ]
    missing = tuple(missing_for(scope.subscription, description.topics, 1))
    return Lag(
        scope.group_id or "", description.cluster_id, limits, now_ms, tuple(lags), position_mark(offsets), missing
    )


def _taken_within(
    margin_ms: int,
    logs: Mapping[TopicPartition, PartitionSnapshot],
    cluster: OffsetReader,
    now_ms: int,
    before: Mapping[TopicPartition, LogStart],
) -> dict[TopicPartition, int]:
    """The offset up to which retention may have deleted all of each log when so much time has passed.

    A sensor waits for it, so what it may not know is an error: it would wait for ever.
    """
    topics = sorted({tp.topic for tp in logs})
    settings = cluster.topic_settings(topics)
    hidden = [topic for topic in topics if topic not in settings]
    if hidden:
        raise NotAuthorized(
            "Not allowed to know how long records stay",
            f"the configuration of topic {', '.join(hidden)} is hidden from this client",
            f"Give it the right DescribeConfigs on the topic, or leave out {named('min_retention_margin')}.",
        )
    ranges = {tp: OffsetRange(log.log_start_offset, log.high_watermark) for tp, log in logs.items()}
    return taken_within(
        margin_ms, ranges, now_ms, lambda times: cluster.offsets_for_times(times, "read_uncommitted"), settings, before
    )


def left_by(plan: Draft, cluster: OffsetReader, now_ms: int) -> dict[TopicPartition, LagAndMargin] | None:
    """What a commit of this plan leaves in each of its partitions; ``None`` where nobody can tell now.

    The batch is committed when this is asked: whatever goes wrong here is no reason to fail. Of a partition that is
    held nobody can tell: it may have no leader.
    """
    if any(p.held for p in plan.partitions):
        return None
    ends, began = {p.topic_partition: p.end_offset for p in plan.partitions}, log_starts_in(plan)
    try:
        logs = take_snapshots(cluster, partitions_now(cluster, plan), plan.asked.isolation_level)
    except ClusterUnavailable:
        return None
    return {
        tp: lag_and_margin(min(ends[tp], log.end_offset), log, now_ms, before=began.get(tp)) for tp, log in logs.items()
    }


def _position(
    question: LagQuestion, cluster_id: str, held: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, int]:
    """The next offsets of the pipeline.

    A pipeline whose first batch is not committed has no position yet: its first run has read nothing.

    :param held: what the group holds, where it is asked.
    """
    if question.pipeline_id is None:
        return {tp: commit.offset for tp, commit in held.items()}
    position = question.log.position if question.log else None
    if question.log is None:  # a lost work store: the group's offsets count
        own = CommitMetadata.by(question.pipeline_id, "").own(held)
        position = position_of_group(held, own, cluster_id, {})
    return {tp: offset.offset for tp, offset in position.offsets.items()} if position else {}


# ── the state of topics' partitions, and a pipeline's position ────────────────────────────────────────────────────────
# Unknown is ``None``, never 0: a partition without a leader has no ends that anybody could name.


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition now.

    :ivar topic_id: ``None`` where the topic does not exist, or the cluster gives topics no ids.
    :ivar leader: the broker that leads it; ``None`` where none does, or the partition does not exist.
    :ivar log: both ends of its log; ``None`` where there is no leader to ask.
    """

    topic_partition: TopicPartition
    topic_id: str | None
    leader: int | None
    log: PartitionSnapshot | None

    @property
    def record_count_upper_bound(self) -> int | None:
        return self.log.end_offset - self.log.log_start_offset if self.log else None


def partition_states(
    cluster: OffsetReader,
    description: ClusterDescription,
    partitions: Iterable[TopicPartition],
    isolation_level: IsolationLevel,
) -> list[PartitionState]:
    """The state of each of ``partitions``, sorted; one that ``description`` lacks does not exist."""
    leaders: Mapping[TopicPartition, int | None] = {
        TopicPartition(name, number): leader
        for name, topic in description.topics.items()
        for number, leader in topic.leaders.items()
    }
    wanted = sorted(set(partitions))
    logs = take_snapshots(cluster, [tp for tp in wanted if leaders.get(tp) is not None], isolation_level)
    ids = description.topic_ids
    return [PartitionState(tp, ids.get(tp.topic), leaders.get(tp), logs.get(tp)) for tp in wanted]


def position_of(pipeline: PipelineLog) -> Position | None:
    """Where the pipeline goes on, by its log; ``None`` where it has no batch yet."""
    newest = pipeline.newest()
    return newest.log.position if newest else None


# ── what has arrived before and after a window's end ──────────────────────────────────────────────────────────────────
# One batch question for the newest timestamps answers nearly every look. Only for a ``read_committed`` reader, and
# only for partitions that it leaves open, is it asked whether a transaction is open there: the committed end first,
# so that what is written in between makes a partition look undecided, and never the other way round.


def look_for_arrivals(
    cluster: OffsetReader, ends_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> dict[TopicPartition, Arrived]:
    """What a look at the cluster says of each partition, for a window that ends there at that time.

    :raises ClusterUnavailable: a partition has no answer.
    """
    newest = cluster.newest_timestamps(ends_ms, isolation_level)
    open_ended = [tp for tp, end_ms in ends_ms.items() if newest.get(tp, -1) < end_ms]
    undecided: set[TopicPartition] = set()
    past_end: Mapping[TopicPartition, int] = {}
    if open_ended and isolation_level == "read_committed":
        committed = cluster.end_offsets(open_ended, "read_committed")
        high_watermarks = cluster.end_offsets(open_ended, "read_uncommitted")
        undecided = {tp for tp in open_ended if committed[tp].offset < high_watermarks[tp].offset}
        past_end = (
            cluster.offsets_for_times({tp: ends_ms[tp] for tp in undecided}, isolation_level) if undecided else {}
        )
    return {
        tp: Arrived(newest.get(tp), newest.get(tp, -1) >= end_ms or tp in past_end, tp in undecided)
        for tp, end_ms in ends_ms.items()
    }


# ── whether a pipeline has committed up to a batch, to offsets or to a time; and if not, what is missing ──────────────
# The log alone answers the first two. A time is asked of Kafka: up to it is committed what a reset to that time would
# not jump over. What a batch has lost or a person has skipped is behind the position, too.


OpenCluster = Callable[[], AbstractContextManager[OffsetReader]]


def look_at_commits(
    target: CommitTarget, pipeline: PipelineLog, open_cluster: OpenCluster, topics: Sequence[str], now_ms: int
) -> tuple[str | None, list[str]]:
    """The key of the newest batch that is committed, or of the window; and a line for everything that is missing.

    :param open_cluster: the pipeline's cluster; it is opened for a time alone.
    :param topics: which topics a time is about; none: all that the position has.
    :raises InvalidRequest: the pipeline has windows only, which have no position.
    :raises ClusterChanged: the cluster is another one than the pipeline's.
    """
    if isinstance(target, str) and not number_named(target):
        return _look_at_window(target, pipeline)
    newest = pipeline.newest()
    if newest is None:
        if pipeline.windows():
            raise InvalidRequest(
                (
                    f"Pipeline {pipeline.pipeline_id!r} has windows and no position: name one of them with batch "
                    "(kafka-offsets show --windows lists them).",
                )
            )
        return None, [f"pipeline {pipeline.pipeline_id} has no batch"]
    batch, position = newest.log.plan.batch, newest.log.position
    key = newest.log.position_after
    if key is None or position is None:
        return None, [f"{batch} of pipeline {pipeline.pipeline_id}, its first, is not committed"]
    match target:
        case str():
            missing = number_of(key) < number_named(target)
            return key, [f"batch {number_named(target)} is not committed; the newest that is, is {key}"] * missing
        case SpecificOffsets() as until:
            offsets = until.numbers or {}
            return key, [
                f"{tp} is committed up to {saved.offset if saved else 'nothing'}, not {offsets[tp]}"
                for tp in sorted(offsets)
                if (saved := position.offsets.get(tp)) is None or saved.offset < offsets[tp]
            ]
        case AtTimestamp():
            if now_ms < target.timestamp_ms:
                return key, [f"it is {iso(now_ms)}, before {iso(target.timestamp_ms)}"]
            with open_cluster() as cluster:
                return key, _behind(target, newest, position, cluster, topics)
        case _ as never:
            assert_never(never)


def _look_at_window(named: str, pipeline: PipelineLog) -> tuple[str | None, list[str]]:
    window = pipeline.find_window(named)
    if window is None:
        return None, [f"pipeline {pipeline.pipeline_id} has no window {named}"]
    key = window.log.plan.batch.key
    if window.log.plan.withdrawn:
        return key, [f"window {key} gave way to another one, and nothing of it is read"]
    return key, [] if window.log.committed else [f"window {key} is not committed"]


def _behind(
    target: AtTimestamp, newest: StoredBatch, position: Position, cluster: OffsetReader, topics: Sequence[str]
) -> list[str]:
    """A line for each partition with records of before the time at or past the position."""
    wanted = tuple(topics) or tuple(sorted({tp.topic for tp in position.offsets}))
    description, plan = topics_that_exist(cluster, wanted), newest.log.plan
    if description is None:
        return [f"topic {topic} does not exist" for topic in wanted]
    if description.cluster_id != position.cluster_id:
        raise ClusterChanged(plan.pipeline or "", position.cluster_id, description.cluster_id)
    anew = topics_made_anew(position.topic_ids, description.topic_ids)
    lines = [f"topic {topic} does not exist" for topic in wanted if topic not in description.topics]
    lines += [f"topic {topic} was created again since" for topic in wanted if topic in anew]
    partitions = [tp for tp in description.partitions() if tp.topic in wanted and tp.topic not in anew]
    states = partition_states(cluster, description, partitions, plan.asked.isolation_level)
    times = {s.topic_partition: target.of(s.topic_partition) for s in states if s.log is not None}
    found = cluster.offsets_for_times(times, plan.asked.isolation_level) if times else {}
    for state in states:
        tp: TopicPartition = state.topic_partition
        if state.log is None:
            lines.append(f"{tp} has no leader")
            continue
        to_time: Any = move(AtTimestamp(times[tp]), tp, position.offsets.get(tp), state.log, found.get(tp))
        if to_time.skipped or to_time.lost:
            lines.append(f"{tp} is committed up to {to_time.goes_on_at}, not {to_time.after.offset}")
    return lines
