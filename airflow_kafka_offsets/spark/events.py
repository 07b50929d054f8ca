# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Debezium's change events → rows: the key's columns, the others of the changed row, the operation and its source.

A tombstone is an event without a value: a delete by its key.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.sinks.columns import quoted

OPERATION, SOURCE = "kafka_op", "kafka_source"
_UNKNOWN = "concat('the event has operation ', coalesce(value.op, 'null'), ', and c, u, r, d and t are known')"


def reasons(seen: StructType) -> Iterator[Column]:
    """Why an event is bad, in words; null where it is not.

    :param seen: the types of ``key`` and ``value``.
    """
    keys = " OR ".join(["key IS NULL", *(f"key.{quoted(name)} IS NULL" for name in _names(seen["key"].dataType))])
    problems = {
        "value IS NOT NULL AND coalesce(value.op NOT IN ('c', 'u', 'r', 'd', 't'), true)": _UNKNOWN,
        "value.op IN ('c', 'u', 'r') AND value.after IS NULL": "'the event has no row in after'",
        f"NOT value.op <=> 't' AND ({keys})": "'the event has no key'",
    }
    for condition, words in problems.items():
        yield f.expr(f"CASE WHEN {condition} THEN {words} END")


def columns(seen: StructType) -> Iterator[str]:
    """What the rows have, as expressions."""
    keys = _names(seen["key"].dataType)
    yield from (f"key.{quoted(name)}" for name in keys)
    is_key = {name.lower() for name in keys}
    row = seen["value"].dataType["after"].dataType  # type: ignore[index]
    yield from (f"value.after.{quoted(name)}" for name in _names(row) if name.lower() not in is_key)


def added() -> list[str]:
    """What they have besides, whatever is selected."""
    return [f"value.op AS {OPERATION}", f"value.source AS {SOURCE}"]


def _names(kind: object) -> list[str]:
    return kind.names if isinstance(kind, StructType) else []
