# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Receipts: what a write says in the table's own commit, and the hash of the offsets that it had to write.

A batch is proved by its receipt if the commit has added as many rows as offsets were planned, and the records that
Spark has read meanwhile are just those: the xor of the hashes of all offsets shows each that is missing, or is there
twice, and the number shows the rest.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.plan import Range
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN

PLACE = "xxhash64(crc32(CAST(topic AS BINARY)), CAST(`partition` AS BIGINT), offset)"
HASH = f"bit_xor({PLACE})"
MOST_IN_PYTHON = 300_000
"""With more offsets, a Spark job of half a second is faster."""
_STEP = 65_536
_ONES = 2**64 - 1
_SEED, _P1, _P2, _P3 = 42, 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def receipt_of(batch: Batch) -> dict[str, Any]:
    """What the commit of this attempt says."""
    plan = batch.plan
    return {
        BATCH_COLUMN: plan.key,
        "attempt": batch.attempt,
        "pipeline": plan.pipeline,
        "log": plan.log,
        "plan_id": plan.plan_id,
        "job": batch.slot.job,
        "offsets": batch.plan.offsets,
        "ranges": plan.digest,
    }


def planned_hash(spark: SparkSession, pieces: Sequence[Range]) -> int:
    """:data:`HASH` of these offsets, whether or not they have records."""
    if sum(piece.end - piece.start for piece in pieces) > MOST_IN_PYTHON:
        return _by_spark(spark, pieces)
    found = 0
    for topic, partition, start, end in pieces:
        for place in places(topic, partition, range(start, end)):
            found ^= place
    return found - 2**64 if found >= 2**63 else found


def places(topic: str, partition: int, offsets: Iterable[int]) -> Iterator[int]:
    """:data:`PLACE` of each, as unsigned numbers."""
    seed = _xxhash64(partition, _xxhash64(zlib.crc32(topic.encode()), _SEED))
    return (_xxhash64(offset, seed) for offset in offsets)


def _by_spark(spark: SparkSession, pieces: Sequence[Range]) -> int:
    rows = [
        (topic, partition, first, min(first + _STEP, end) - 1)
        for topic, partition, start, end in pieces
        for first in range(start, end, _STEP)
    ]
    ranges = spark.createDataFrame(rows, "topic STRING, partition INT, first BIGINT, last BIGINT")
    offsets = ranges.select("topic", "partition", f.explode(f.sequence("first", "last")).alias("offset"))
    return int(offsets.agg(f.expr(HASH)).collect()[0][0])


def _xxhash64(value: int, seed: int) -> int:
    """Of a BIGINT, as Spark's ``xxhash64`` makes it (``XXH64.hashLong``)."""
    mixed = seed + _P5 + 8 ^ _rotated(value * _P2, 31) * _P1 & _ONES
    mixed = _rotated(mixed, 27) * _P1 + _P4 & _ONES
    mixed = (mixed ^ mixed >> 33) * _P2 & _ONES
    mixed = (mixed ^ mixed >> 29) * _P3 & _ONES
    return mixed ^ mixed >> 32


def _rotated(value: int, bits: int) -> int:
    value &= _ONES
    return value << bits & _ONES | value >> 64 - bits
