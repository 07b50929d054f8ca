# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The mark that the mirror puts beside each offset of a consumer group: which pipeline wrote it, after which batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition, by_topic
from airflow_kafka_offsets.log.entries import digits_of, shard_in, shard_part

BY = "airflow-kafka-offsets"
CommittedOffsets = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class Mark:
    """The metadata that this package writes beside each offset of a group.

    :ivar batch: the key of the last committed batch.
    :ivar topic: the id of the topic that the offset is of, on ``cluster``.
    """

    pipeline: str
    batch: str
    topic: str | None = None
    cluster: str | None = None

    def encode(self) -> str:
        """ASCII, and below Kafka's limit of 4,095 bytes: a ``pipeline_id`` has at most 200 characters."""
        return json.dumps({"by": BY, **asdict(self)}, separators=(",", ":"))


@lru_cache(maxsize=10_000)
def mark_of(metadata: str) -> Mark | None:
    """``None`` for metadata of another writer, which may be anything. Read once for all partitions that carry it."""
    try:
        fields = read_json(metadata)
    except ValueError:
        return None
    match fields:
        case {"by": str(by), "pipeline": str(pipeline), "batch": str(batch)} if by == BY and digits_of(batch):
            return Mark(pipeline, batch, fields.get("topic"), fields.get("cluster"))
    return None


def marks_of(offsets: CommittedOffsets) -> dict[TopicPartition, Mark]:
    return {tp: mark for tp, committed in offsets.items() if (mark := mark_of(committed.metadata)) is not None}


def rows_behind(marks: Mapping[TopicPartition, Mark], shards: int) -> str:
    """In SQL, the rows that are read again where partitions resume at their marks: those of batches behind these, and
    all of a shard without a mark.

    No offsets: rows of a former topic of the same name have these, too. Keys of shards have numbers of their own.
    """
    by_shard: dict[str, dict[int, list[TopicPartition]]] = {}
    for tp, mark in marks.items():
        by_shard.setdefault(shard_in(mark.batch), {}).setdefault(digits_of(mark.batch), []).append(tp)
    if shards > 1:
        for i in range(shards):
            by_shard.setdefault(shard_part((i, shards)), {0: []})
    terms = []
    for shard, by_number in sorted(by_shard.items()):
        like = "NOT LIKE '%of%'" if shard == "-" else f"LIKE '%{shard}%'"
        own = "" if [*by_shard] == ["-"] else f" AND kafka_batch {like}"
        newest = max(by_number)
        terms.append(f"kafka_batch >= '{newest + 1:010}'{own}")
        for number in sorted(by_number.keys() - {newest}):
            topics = by_topic(by_number[number]).items()
            places = (f"topic = '{name}' AND partition IN ({', '.join(map(str, numbers))})" for name, numbers in topics)
            terms.append(f"kafka_batch >= '{number + 1:010}'{own} AND ({' OR '.join(places)})")
    return " OR ".join(terms)
