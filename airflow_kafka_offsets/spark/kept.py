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
than its share of 8 MiB. They are text, because classic PySpark cannot read an array of structs in an observation. Tasks
make it: in a driver, two threads may look at one observation at a time, and Spark gives both the same writer of JSON.
"""

from __future__ import annotations

import json
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
    """The aggregate of the wanted records: objects of JSON, with commas between.

    :param wanted: a condition in SQL.
    :param columns: of a bad record, as its table has them.
    :param offsets: of the plan; at least one.
    """
    record = f.struct(*columns)
    parts = record["key"], record["value"], f.to_json(record["headers"])
    size = reduce(add, (f.coalesce(f.octet_length(part), f.lit(0)) for part in parts))
    in_micros = record.withField("timestamp", f.unix_micros(record["timestamp"]))
    texts = f.collect_list(f.when(f.expr(wanted) & (size <= _MOST // offsets), f.to_json(in_micros)))
    return f.array_join(texts, ",")


def kept(spark: SparkSession, text: str, count: int) -> DataFrame | None:
    """The bad records; ``None``: some were too large.

    :param text: what was observed. Of a stage that Spark has run again it has each record twice.
    :param count: how many were observed.
    """
    records = json.loads(f"[{text}]")
    if len(records) < count:
        return None
    once = {(record["topic"], record["partition"], record["offset"]): record for record in records}
    frame = spark.createDataFrame([(json.dumps([*once.values()]),)], "text STRING")
    bad = frame.select(f.inline(f.from_json("text", f"ARRAY<STRUCT<{_TYPES}>>")))
    return bad.withColumn("timestamp", f.timestamp_micros("timestamp"))
