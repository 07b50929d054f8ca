# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Bad records that the observation of the write brings along, so that Kafka is not read a second time for them.

An aggregate has no bound, and all records may be bad. So only those of a small plan are kept, and no record is larger
than its share of 8 MiB. They are text, because classic PySpark cannot read an array of structs in an observation.

In a driver, two threads may look at one observation at a time, a listener's and that of a Spark Connect server. Spark
gives both the same memory, and one may see what the other is just writing (``AggregatingAccumulator.value``). So tasks
make the text, each record with its checksum.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.plan import Plan

SMALL = 100_000  # offsets of a plan
_MOST = 8 << 20
_TYPES = (
    "topic STRING, partition INT, offset BIGINT, timestamp BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "key BINARY, value BINARY, reason STRING"
)


def is_kept(plan: Plan) -> bool:
    """Whether the plan's bad records come along, if none is too large."""
    return plan.offsets <= SMALL


def keep(wanted: str, columns: Sequence[Column], offsets: int) -> Column:
    """The aggregate of the wanted records: a line for each, its CRC-32 and a JSON object.

    :param wanted: a condition in SQL.
    :param columns: of a bad record, as its table has them.
    :param offsets: of the plan; at least one.
    """
    record = f.struct(*columns)
    parts = record["key"], record["value"], f.to_json(record["headers"])
    size = reduce(add, (f.coalesce(f.octet_length(part), f.lit(0)) for part in parts))
    text = f.to_json(record.withField("timestamp", f.unix_micros(record["timestamp"])))
    line = f.concat_ws(" ", f.crc32(text), text)
    return f.array_join(f.collect_list(f.when(f.expr(wanted) & (size <= _MOST // offsets), line)), "\n")


def kept(spark: SparkSession, text: str, count: int) -> DataFrame | None:
    """The bad records; ``None``: some were too large, or another thread was writing the text.

    :param text: what was observed. Of a stage that Spark has run again it has each record twice.
    :param count: how many were observed.
    """
    lines = [line.partition(" ") for line in text.split("\n") if line]
    if len(lines) < count or any(crc != str(zlib.crc32(record.encode(errors="replace"))) for crc, _, record in lines):
        return None
    records = [json.loads(record) for _, _, record in lines]
    once = {(record["topic"], record["partition"], record["offset"]): record for record in records}
    frame = spark.createDataFrame([(json.dumps([*once.values()]),)], "text STRING")
    bad = frame.select(f.inline(f.from_json("text", f"ARRAY<STRUCT<{_TYPES}>>")))
    return bad.withColumn("timestamp", f.timestamp_micros("timestamp"))
