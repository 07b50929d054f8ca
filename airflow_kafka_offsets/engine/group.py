"""Whether the consumer group is as this pipeline left it.

The mirror puts a mark beside each offset: which pipeline wrote it, after which batch. "As we left it": an offset
carries our mark, or equals the position, or is what the last plan or claim says that the group held. Before the first
commit, anything is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from shlex import quote

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import CheckpointBehindGroup, CheckpointLost, GroupMoved, clean_text
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import ClusterDescription, CommittedOffset, TopicList, TopicPartition
from airflow_kafka_offsets.log.entries import Batch, number_of
from airflow_kafka_offsets.plan.body import Offsets

BY = "airflow-kafka-offsets"
Held = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class Mark:
    """The metadata that this package writes beside each offset of a group.

    :ivar batch: the key of the last committed batch.
    """

    pipeline: str
    batch: str

    def encode(self) -> str:
        """ASCII, and below Kafka's limit of 4,095 bytes: a ``pipeline_id`` has at most 200 characters."""
        return json.dumps({"by": BY, "pipeline": self.pipeline, "batch": self.batch}, separators=(",", ":"))

    @classmethod
    def of(cls, committed: CommittedOffset) -> Mark | None:
        """``None`` for metadata of another writer, which may be anything."""
        return _mark(committed.metadata)


@lru_cache(maxsize=100)
def _mark(metadata: str) -> Mark | None:
    """Read once for all partitions that carry it."""
    try:
        fields = read_json(metadata)
    except ValueError:
        return None
    match fields:
        case {"by": str(by), "pipeline": str(pipeline), "batch": str(batch)} if by == BY and number_of(batch):
            return Mark(pipeline, batch)
    return None


def marks_of(held: Held) -> dict[TopicPartition, Mark]:
    return {tp: mark for tp, committed in held.items() if (mark := Mark.of(committed)) is not None}


def held_by(kafka: Cluster, group_id: str, partitions: Iterable[TopicPartition]) -> tuple[ClusterDescription, Held]:
    """What a group holds of those of the partitions that exist, and the cluster's description of their topics."""
    wanted = set(partitions)
    now = kafka.describe(TopicList(tuple(sorted({tp.topic for tp in wanted})), all_exist=False))
    return now, kafka.committed(group_id, [tp for tp in now.partitions if tp in wanted])


def foreign(held: Held, pipeline_id: str) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that this pipeline did not write."""
    marks = marks_of(held)
    return {tp: c for tp, c in held.items() if tp not in marks or marks[tp].pipeline != pipeline_id}


def refuse_moved(pipeline_id: str, group_id: str, held: Held, position: Offsets, seen: Held) -> None:
    """:raises GroupMoved: the group holds an offset that this pipeline did not leave there."""
    moved = {
        tp: committed
        for tp, committed in sorted(foreign(held, pipeline_id).items())
        if tp in position and committed.offset != position[tp].offset
        and (tp not in seen or committed.offset != seen[tp].offset)
    }  # fmt: skip
    if moved:
        marks = marks_of(moved)
        lines = [
            f"{tp}: group {group_id!r} holds {committed.offset}, the position is {position[tp].offset}"
            + (f" (written by pipeline {clean_text(marks[tp].pipeline)!r})" if tp in marks else "")
            for tp, committed in moved.items()
        ]
        raise GroupMoved(
            lines,
            "Somebody else wrote to the group; nothing was overwritten. To keep the position and let the group follow "
            f"again: kafka-offsets reset {quote(pipeline_id)} --start current --execute\n"
            f"To go on from the group's offsets: kafka-offsets reset {quote(pipeline_id)} --start group-offsets",
        )


def refuse_lost_log(
    pipeline_id: str, group_id: str | None, held: Held, newest: Batch | None, *, has_succeeded: bool
) -> None:
    """
    :param newest: the newest batch of the log.
    :param has_succeeded: whether Airflow knows that the task of this pipeline has succeeded, and there is no batch.
    :raises CheckpointLost: there was a log, and there is none any more.
    """
    marks = marks_of(held)
    if newest is None and marks:
        tp, mark = next(iter(sorted(marks.items())))
        raise CheckpointLost(
            f"Pipeline {pipeline_id!r} has no batch, and group {group_id!r} was moved by batch {mark.batch} of pipeline {clean_text(mark.pipeline)!r} ({tp}).",  # noqa: E501
            "The checkpoint location was lost or changed, or the pipeline was renamed, or two pipelines share the group. To plan from here could read records again.",  # noqa: E501
            "Restore the checkpoint location or the name; give another pipeline a group of its own; or go on from what "
            f"the group has: kafka-offsets reset {quote(pipeline_id)} --start group-offsets",
        )
    if newest is None and has_succeeded:
        raise CheckpointLost(
            f"Pipeline {pipeline_id!r} has no batch, and this task has succeeded before.",
            "The checkpoint location was lost or changed, or the pipeline or the group was renamed: the records may be in the output already.",  # noqa: E501
            'Restore the checkpoint location or the name. To start anew, run once with this conf: {"kafka_offsets": {"acknowledge": "why"}}',  # noqa: E501
        )


def later_marks(held: Held, pipeline_id: str, committed: Batch | None) -> dict[TopicPartition, Mark]:
    """Marks of batches of this pipeline that its log does not know: it is an older copy.

    :param committed: the newest committed batch, looked at after the group.
    """
    number, key = (0, "") if committed is None else (committed.number, committed.plan.key)
    return {
        tp: mark
        for tp, mark in marks_of(held).items()
        if mark.pipeline == pipeline_id and mark.batch != key and number_of(mark.batch) >= number
    }


def refuse_older_log(pipeline_id: str, group_id: str, held: Held, committed: Batch | None, seen: Held) -> None:
    """:raises CheckpointBehindGroup: the group knows a later batch than the log, and nobody has acknowledged that."""
    later = [mark.batch for tp, mark in later_marks(held, pipeline_id, committed).items() if held[tp] != seen.get(tp)]
    if later:
        key = "none" if committed is None else committed.plan.key
        raise CheckpointBehindGroup(
            f"Group {group_id!r} knows batch {max(later)} of pipeline {pipeline_id!r}, and the log's newest committed batch is {key}.",  # noqa: E501
            "The checkpoint location is an older copy: records that later batches wrote would be read again.",
            "Restore the newest copy. Or delete the rows of the batches that the log does not know, and go on: "
            f"kafka-offsets reset {quote(pipeline_id)} --start current --execute",
        )


def strange(held: Held, pipeline_id: str, committed: Batch | None) -> dict[TopicPartition, CommittedOffset]:
    """What this log did not leave in the group: a plan or an acknowledgement keeps it."""
    later = later_marks(held, pipeline_id, committed)
    return {**foreign(held, pipeline_id), **{tp: held[tp] for tp in later}}
