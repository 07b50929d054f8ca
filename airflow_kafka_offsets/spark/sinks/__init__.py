# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Sinks: what writes the rows of a batch under its key, and reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.sinks.contract import Sink
    from airflow_kafka_offsets.spark.sinks.table import TableSink

BAD_ROLE = "/bad"


def sink_of(job: Mapping[str, Any]) -> Sink:
    """The sink of a job object: what its ``rows`` make of the records, in the output of its ``sink``."""
    from airflow_kafka_offsets.spark.fates import RowSink

    sink, rows = plain_sink(job["sink"], job["output"]), job.get("rows")
    if rows is None:
        return sink
    bad = rows.get("bad")
    return RowSink(sink, rows, None if bad is None else plain_sink(bad["sink"], role=BAD_ROLE))


def entity_table(merge: Mapping[str, Any]) -> TableSink:
    """Of the member ``merge`` of a job object."""
    return plain_sink(merge["sink"], role="/merge")


def plain_sink(members: Mapping[str, Any], output: str | None = None, role: str = "") -> TableSink:
    """A table, from a member ``sink`` of a job object.

    :param role: what it is for, if not for rows.
    """
    from airflow_kafka_offsets.spark.sinks.columns import quoted, table_name
    from airflow_kafka_offsets.spark.sinks.delta import DeltaTable
    from airflow_kafka_offsets.spark.sinks.iceberg import IcebergTable

    path, kind = members["path"], DeltaTable if members["format"] == "delta" else IcebergTable
    name = f"delta.{quoted(path)}" if path else table_name(members["table"])
    output = output or f"{kind.format}:{path or members['table']}"
    by, keeps_rows = tuple(members["partition_by"]), members["keeps_rows"]
    return kind(name, output, path, by, members["evolve"], keeps_rows, role)
