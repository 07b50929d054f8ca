# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Makes the consumer group equal to the position (STATE.md, rule 6).

The group is never ahead of the log, and offsets of another consumer are never overwritten unless a person accepts it.
The order is the correctness: read the group, read the log, write, read the log again. Kafka has no compare-and-set: a
reset between the read and the write is overwritten.
"""

from __future__ import annotations

from airflow_kafka_offsets.engine.identity import mirror_differences, refusal
from airflow_kafka_offsets.engine.look import Answers
from airflow_kafka_offsets.engine.marks import Mark
from airflow_kafka_offsets.engine.state import Decided, Shard
from airflow_kafka_offsets.engine.ways import ways_on
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import is_other_topic


def mirror(
    log: PipelineLog, look: Answers, committed: Batch, ways_past: str = "", identity: Identity | None = None
) -> int:
    """Write the position to the group. Returns how many partitions were written; 0 without a group.

    :param look: the answers that a turn has had, or none yet.
    :param committed: a committed batch; later ones are looked for.
    :param ways_past: as in :func:`~airflow_kafka_offsets.engine.ways.ways_on`.
    :param identity: the current one, where it is known.
    :raises GroupMoved: the group holds offsets that this pipeline did not write; nothing is overwritten.
    :raises CheckpointBehind: the group knows a later batch than the log.
    :raises GroupActive: the group has live members. The commit stands.
    """
    while True:
        group_id, position = committed.plan.group_id, log.position_after(committed)
        if group_id is None:
            return 0
        now = look.describe(tp.topic for tp in position)
        present = [tp for tp in now.partitions if tp in position]
        group = look.committed(group_id, present)
        shard = Shard(log, None, _newest(log, committed))  # after the look at the group
        identity = identity or log.identity()
        if identity is None or shard.head.committed is None or now.cluster_id != identity.cluster_id:
            return 0
        committed = shard.head.committed
        position, decided = log.position_after(committed), Decided(identity)
        if found := mirror_differences(group_id, group, decided, shard):
            raise refusal(log.name, found, ways_on(log.name, identity.number, committed.plan.by, ways_past))
        own = log.pipeline_id, committed.plan.key
        marks = {id: Mark(*own, id, now.cluster_id).encode() for id in now.topic_ids.values()}
        offsets = {
            tp: CommittedOffset(position[tp].offset, position[tp].leader_epoch, marks[now.topic_ids[tp.topic]])
            for tp in present
            if tp in position and not is_other_topic(position[tp], tp, now.topic_ids)
        }
        look.kafka.commit_offsets(group_id, offsets)
        later = log.batch(committed.number + 1)
        if later is None or not later.is_committed:
            return len(offsets)
        look = Answers(look.kafka, look.isolation_level)


def _newest(log: PipelineLog, committed: Batch) -> Batch | None:
    """The newest batch, by one look where there is none behind the committed one."""
    return committed if log.batch(committed.number + 1) is None else log.newest()
