"""Makes the consumer group equal to the position (STATE.md, rule 6).

The group only follows the log: it is never ahead of it, and what somebody else wrote there is never overwritten
unasked. The order is the correctness: look at the group, look at the log, write, look at the log again. Kafka has no
compare-and-set: a reset by a person between the look and the write is overwritten.
"""

from __future__ import annotations

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.group import Mark, foreign, held_by, later_marks, refuse_moved, refuse_older_log
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.window import is_other_topic


def mirror(log: PipelineLog, kafka: Cluster, committed: Batch) -> int:
    """Write the position to the group. Returns how many partitions were written; 0 without a group.

    :param committed: a committed batch; later ones are looked for.
    :raises GroupMoved: the group holds what this pipeline did not leave there; nothing is overwritten.
    :raises CheckpointBehindGroup: the group knows a later batch than the log.
    :raises GroupActive: the group has live members. The commit stands.
    """
    while True:
        group_id, position = committed.plan.group_id, log.position_after(committed)
        if group_id is None:
            return 0
        now, held = held_by(kafka, group_id, position)
        if now.cluster_id != committed.plan.cluster_id:
            return 0
        committed, newest = _newest(log, committed)  # after the look at the group
        position = log.position_after(committed)
        if later_marks(held, log.pipeline_id, committed):
            refuse_older_log(log.pipeline_id, group_id, held, committed, log.seen(newest))
        if foreign(held, log.pipeline_id):
            refuse_moved(log.pipeline_id, group_id, held, position, log.seen(newest))
        mark = Mark(log.pipeline_id, committed.plan.key).encode()
        offsets = {
            tp: CommittedOffset(position[tp].offset, position[tp].leader_epoch, mark)
            for tp in now.partitions
            if tp in position and not is_other_topic(position[tp], tp, now.topic_ids)
        }
        kafka.commit_offsets(group_id, offsets)
        written, committed = committed, _newest(log, committed)[0]
        if committed.number == written.number:
            return len(offsets)


def _newest(log: PipelineLog, committed: Batch) -> tuple[Batch, Batch]:
    """The newest committed batch, and the newest one, which is that or the unfinished one behind it."""
    if log.batch(committed.number + 1) is None:
        return committed, committed
    newest = log.newest()
    assert newest is not None
    return newest if newest.is_committed else log.existing(newest.number - 1), newest
