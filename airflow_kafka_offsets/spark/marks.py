# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Some records out of very many, found again without deciding about each once more.

A record's mark is one of 32,768 numbers, a hash of its place. The first read notes in a bitmap of 4 KiB which marks the
wanted records have, and in a second one those of their blocks of 4,096 offsets. A second read fetches only from the
first to the last such block of each partition, and passes over all records whose mark was not noted, before they are
decoded. Of a few thousand wanted records it passes over most others; of very many it passes over none, and is right all
the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.plan import Plan, Range
from airflow_kafka_offsets.spark.receipts import PLACE, places

_MOST, _BITS = 32767, 12
MARK = f"({PLACE} & {_MOST})"
BLOCK = MARK.replace("offset", f"shiftright(offset, {_BITS})")


def note(wanted: str, mark: str) -> str:
    """The aggregate that makes the bitmap.

    :param wanted: a condition in SQL. :param mark: :data:`MARK` or :data:`BLOCK`.
    """
    return f"bitmap_construct_agg(CASE WHEN {wanted} THEN {mark} END)"


def near(plan: Plan, bitmap: bytes) -> Plan:
    """The plan without offsets before the first and behind the last wanted record of a partition, roughly.

    :param bitmap: of blocks.
    """
    return replace(plan, ranges=tuple(_near(plan.ranges, bitmap)))


def _near(ranges: tuple[Range, ...], bitmap: bytes) -> Iterator[Range]:
    for topic, partition, start, end in ranges:
        blocks = range(start >> _BITS, (end - 1 >> _BITS) + 1)
        marks = zip(blocks, places(topic, partition, blocks), strict=True)
        found = [block << _BITS for block, mark in marks if bitmap[(mark & _MOST) >> 3] >> (mark & 7) & 1]
        last = min(end, found[-1] + (1 << _BITS)) if found else start
        yield Range(topic, partition, max(start, found[0]) if found else start, last)


def noted(records: DataFrame, bitmap: bytes) -> DataFrame:
    """All records that were wanted, and those with the same marks."""
    words = [int.from_bytes(bitmap[at : at + 8], "little", signed=True) for at in range(0, len(bitmap), 8)]
    table = f"from_json('{words}', 'ARRAY<BIGINT>')"  # Spark reads it once: of 512 literals it makes 512 objects first
    word = f"element_at({table}, CAST(shiftright({MARK}, 6) AS INT) + 1)"
    return records.where(f.expr(f"shiftright({word}, CAST({MARK} & 63 AS INT)) & 1 = 1"))
