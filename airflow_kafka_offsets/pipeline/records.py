"""Whether the records of a frozen plan are still in Kafka, and how many have come since."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.broker.protocol import EndOffset, OffsetReader
from airflow_kafka_offsets.offsets.model import is_older
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.pipeline.cuts import look_for_cuts
from airflow_kafka_offsets.pipeline.present import describe_present


@dataclass(frozen=True, slots=True)
class Records:
    """The state of a plan's records in Kafka.

    :ivar gone: a line for each partition whose offsets are gone: deleted, cut off, or taken by other records.
    :ivar another_log: a line for each topic that is another log by now; the cluster itself may be another one.
    :ivar waiting: how many offsets of the plan's partitions have come since: an upper bound of the records.
    """

    gone: tuple[str, ...] = ()
    another_log: tuple[str, ...] = ()
    waiting: int = 0

    @property
    def there(self) -> bool:
        return not self.gone and not self.another_log

    @property
    def lines(self) -> list[str]:
        return [*self.another_log, *self.gone]


def look_for_records(plan: OffsetPlan, cluster: OffsetReader) -> Records:
    """Three batch questions at most; one more where a partition has had another leader since."""
    description = describe_present(cluster, plan.topic_ids)
    if description is None or description.cluster_id != plan.cluster_id:
        now = description.cluster_id if description else "one without its topics"
        return Records(another_log=(f"the plan was made on cluster {plan.cluster_id}, and this is {now}",))
    read = {p.topic_partition.topic for p in plan.to_read()}
    ids = {name: topic.topic_id for name, topic in description.topics.items()}
    another = tuple(
        f"{topic}: its id is {ids[topic]}, the plan was made for {topic_id}"
        if topic in ids
        else f"{topic}: it does not exist any more"
        for topic, topic_id in sorted(plan.topic_ids.items())
        if topic in read and (topic not in ids or (topic_id is not None and ids[topic] != topic_id))
    )
    present = set(description.partitions())
    partitions = [p for p in plan.partitions if p.topic_partition in present]
    asked = [p.topic_partition for p in partitions]
    log_starts = cluster.log_start_offsets(asked) if asked else {}
    ends = cluster.end_offsets(asked, "read_uncommitted") if asked else {}
    cuts = look_for_cuts(
        cluster,
        {
            p.topic_partition: EndOffset(p.end_offset, p.leader_epoch)
            for p in partitions
            if p.range.size and is_older(p.leader_epoch, ends[p.topic_partition].leader_epoch)
        },
    )
    gone, waiting = [], 0
    for p in partitions:
        tp = p.topic_partition
        waiting += max(0, ends[tp].offset - p.end_offset)
        if not p.range.size:
            continue
        if log_starts[tp] > p.start_offset:
            count = min(log_starts[tp], p.end_offset) - p.start_offset
            gone.append(
                f"{tp}: start offset {p.start_offset} is below log start offset {log_starts[tp]} ({count} offsets "
                "are gone)"
            )
        elif ends[tp].offset < p.end_offset:
            gone.append(f"{tp}: end offset {p.end_offset} is beyond the end of the log, {ends[tp].offset}")
        elif tp in cuts:
            gone.append(f"{tp}: from offset {cuts[tp]} on, the log is another one (an unclean leader election)")
    return Records(tuple(gone), another, waiting)
