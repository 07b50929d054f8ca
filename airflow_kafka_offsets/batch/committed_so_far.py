"""Whether a pipeline has committed up to a batch, up to offsets, or up to a time; and if not, what is missing.

The log alone answers the first two. A time is asked of Kafka: up to it is committed what a reset to that time would not
jump over. What a batch has lost or a person has skipped is behind the position, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, assert_never

from airflow_kafka_offsets.batch.look_ups import topics_that_exist
from airflow_kafka_offsets.batch.measured_lag import partition_states
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import ClusterChanged, InvalidRequest
from airflow_kafka_offsets.kafka_values import TopicPartition, topics_made_anew
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.plan import number_named, number_of
from airflow_kafka_offsets.plan.position import Position, ToTime, move
from airflow_kafka_offsets.request.commit_target import CommitTarget, UntilBatch
from airflow_kafka_offsets.request.modes import UntilSpecificOffsets, UntilTimestamp
from airflow_kafka_offsets.request.times import iso

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
    if isinstance(target, UntilBatch) and not number_named(target.named):
        return _look_at_window(target.named, pipeline)
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
    key = batch.key if newest.log.committed else batch.after
    if key is None or position is None:
        return None, [f"{batch} of pipeline {pipeline.pipeline_id}, its first, is not committed"]
    match target:
        case UntilBatch(named):
            missing = number_of(key) < number_named(named)
            return key, [f"batch {number_named(named)} is not committed; the newest that is, is {key}"] * missing
        case UntilSpecificOffsets() as until:
            offsets = until.numbers or {}
            return key, [
                f"{tp} is committed up to {saved.offset if saved else 'nothing'}, not {offsets[tp]}"
                for tp in sorted(offsets)
                if (saved := position.offsets.get(tp)) is None or saved.offset < offsets[tp]
            ]
        case UntilTimestamp():
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
    return key, [] if window.log.committed else [f"window {key} is not committed"]


def _behind(
    target: UntilTimestamp, newest: StoredBatch, position: Position, cluster: OffsetReader, topics: Sequence[str]
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
        to_time: Any = move(ToTime(times[tp]), tp, position.offsets.get(tp), state.log, found.get(tp))
        if to_time.skipped or to_time.lost:
            lines.append(f"{tp} is committed up to {to_time.goes_on_at}, not {to_time.after.offset}")
    return lines
