"""Makes the consumer group equal to the position (STATE.md, rule 6).

The group only follows the log: it is never ahead of it, and what somebody else wrote there is never overwritten
unasked. The order is the correctness: look at the group, look at the log, write, look at the log again. Kafka has no
compare-and-set: a reset by a person between the look and the write is overwritten.
"""

from __future__ import annotations

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.group import Mark, foreign, held_by, refuse_moved
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.window import is_other_topic

_TRIES = 5  # commits of this pipeline that are faster, one after the other


def mirror(log: PipelineLog, kafka: Cluster) -> int:
    """Write the position to the group. Returns how many partitions were written; 0 without a group.

    :raises GroupMoved: the group holds what this pipeline did not leave there; nothing is overwritten.
    :raises GroupActive: the group has live members. The commit stands.
    """
    written = 0
    for _ in range(_TRIES):
        newest = log.newest()
        committed = _committed(log, newest)
        if newest is None or committed is None or committed.plan.group_id is None or committed.plan.kind == "window":
            return 0
        group_id, position = committed.plan.group_id, log.position_after(committed)
        now, held = held_by(kafka, group_id, position)
        if now.cluster_id != committed.plan.cluster_id:
            return 0
        newest = log.newest()  # after the look at the group
        committed = _committed(log, newest)
        if newest is None or committed is None:
            return 0
        position = log.position_after(committed)
        if foreign(held, log.pipeline_id):
            refuse_moved(log.pipeline_id, group_id, held, position, log.seen(newest))
        mark = Mark(log.pipeline_id, committed.plan.key).encode()
        offsets = {
            tp: CommittedOffset(position[tp].offset, position[tp].leader_epoch, mark)
            for tp in now.partitions
            if tp in position and not is_other_topic(position[tp], tp, now.topic_ids)
        }
        kafka.commit_offsets(group_id, offsets)
        written = len(offsets)
        after = _committed(log, log.newest())
        if after is None or after.number == committed.number:
            return written
    return written


def _committed(log: PipelineLog, newest: Batch | None) -> Batch | None:
    if newest is None or newest.is_committed:
        return newest
    return log.batch(newest.number - 1) if newest.number > 1 else None
