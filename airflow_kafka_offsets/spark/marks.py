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
wanted records have. A second read passes over all records whose mark was not noted, before they are decoded. Of a few
thousand wanted records it passes over most others; of very many it passes over none, and is right all the same.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

_MARK = "(xxhash64(topic, partition, offset) & 32767)"


def note(wanted: str) -> str:
    """The aggregate that makes the bitmap.

    :param wanted: a condition in SQL.
    """
    return f"bitmap_construct_agg(CASE WHEN {wanted} THEN {_MARK} END)"


def noted(records: DataFrame, bitmap: bytes) -> DataFrame:
    """All records that were wanted, and those with the same marks."""
    words = [int.from_bytes(bitmap[at : at + 8], "little", signed=True) for at in range(0, len(bitmap), 8)]
    table = f"from_json('{words}', 'ARRAY<BIGINT>')"  # Spark reads it once: of 512 literals it makes 512 objects first
    word = f"element_at({table}, CAST(shiftright({_MARK}, 6) AS INT) + 1)"
    return records.where(f.expr(f"shiftright({word}, CAST({_MARK} & 63 AS INT)) & 1 = 1"))
