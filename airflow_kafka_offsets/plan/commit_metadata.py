"""The commit metadata that this package writes beside each offset of the group.

``{"by": "airflow-kafka-offsets", "pipeline", "instance", "batch"}``: which pipeline, of which Airflow, and up to which
batch. Anything may stand there that others wrote, so types are checked, and what is not exactly this is somebody's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.plan.plan import number_of
from airflow_kafka_offsets.plan.position import Position, SavedOffset

BY = "airflow-kafka-offsets"
METADATA_LIMIT_BYTES = 4095  # confluent-kafka sends a trailing NUL, which counts towards the broker's 4,096
_LONGEST_NAME = 1000  # of a pipeline or an Airflow, in characters of JSON; two of them fit twice


Held = Mapping[TopicPartition, CommittedOffset]
"""What the group holds; absent where nothing."""


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What one pipeline of one Airflow writes, and which offsets of a group are its own by that.

    :ivar batch: the key of the last committed batch; ``None``: the group was signed before any was.
    """

    pipeline: str
    instance: str
    batch: str | None = None

    @classmethod
    def by(cls, pipeline_id: str, instance: str) -> CommitMetadata:
        return cls(name_in_metadata(pipeline_id), name_in_metadata(instance))

    def after(self, batch: str | None) -> CommitMetadata:
        return replace(self, batch=batch)

    def encode(self) -> str:
        """ASCII JSON, at most ``METADATA_LIMIT_BYTES`` long."""
        fields = {"by": BY, "pipeline": self.pipeline, "instance": self.instance, "batch": self.batch}
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def of(cls, committed: CommittedOffset) -> CommitMetadata | None:
        """What this metadata says; ``None`` for metadata of another writer."""
        if len(committed.metadata) > METADATA_LIMIT_BYTES:
            return None
        try:
            fields = read_json(committed.metadata)
        except ValueError:
            return None
        match fields:
            case {"by": str(by), "pipeline": str(pipeline), "instance": str(instance), "batch": str() | None as batch}:
                known = by == BY and (batch is None or number_of(batch) > 0)
                return cls(pipeline, instance, batch) if known else None
        return None

    def own(self, held: Held) -> dict[TopicPartition, CommitMetadata]:
        """The commit metadata of this pipeline, of whichever Airflow, by partition."""
        written = {tp: CommitMetadata.of(commit) for tp, commit in held.items()}
        return {
            tp: metadata
            for tp, metadata in written.items()
            if metadata is not None and metadata.pipeline == self.pipeline
        }

    def unsigned(self, held: Held) -> Held:
        """The offsets without metadata of this pipeline and this Airflow."""
        own = self.own(held)
        return {tp: c for tp, c in held.items() if tp not in own or own[tp].instance != self.instance}

    def foreign(
        self, held: Held, position: Position | None, recorded: Mapping[TopicPartition, int | None] | None = None
    ) -> Held:
        """Offsets of somebody else: not written by this pipeline, and not at its position (docs/log.md, rule 5).

        :param recorded: what an unfinished plan has recorded of the group, and may not have signed yet.
        """
        own, saved = self.own(held), position.offsets if position else {}
        return {
            tp: commit
            for tp, commit in sorted(held.items())
            if tp not in own
            and (tp not in saved or saved[tp].offset != commit.offset)
            and (recorded or {}).get(tp) != commit.offset
        }


def name_in_metadata(name: str) -> str:
    """A name as the metadata has it: itself, or where it is too long its beginning and a digest."""
    if len(json.dumps(name)) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{name[: _LONGEST_NAME // 8]}…{digest}"  # a character is at most twelve of JSON


def newest_batch(written: Mapping[TopicPartition, CommitMetadata]) -> str | None:
    """The key of the newest batch that the group knows of; ``None`` where it knows of none."""
    return max((metadata.batch for metadata in written.values() if metadata.batch), key=number_of, default=None)


def position_of_group(
    held: Held,
    written: Mapping[TopicPartition, CommitMetadata],
    cluster_id: str,
    topic_ids: Mapping[str, str | None],
    before: Position | None = None,
) -> Position | None:
    """The position as the group's offsets give it, over what the log still knows; ``None`` where they give none."""
    known = {
        tp: SavedOffset(held[tp].offset, held[tp].leader_epoch) for tp, metadata in written.items() if metadata.batch
    }
    if not known:
        return None
    base = before or Position(cluster_id, {})
    ids = {tp.topic: topic_ids[tp.topic] for tp in known if tp.topic in topic_ids}
    return Position(cluster_id, {**base.offsets, **known}, {**base.topic_ids, **ids}, base.startup, base.restarts)


def writer_of(committed: CommittedOffset) -> str:
    """Who wrote a commit, as far as its metadata tells."""
    metadata = CommitMetadata.of(committed)
    if metadata is None:
        return "somebody else (not this provider)"
    return f"pipeline {metadata.pipeline!r} of Airflow {metadata.instance}"
