"""Sinks: what writes the rows of a batch under its key, and reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.sinks.contract import Sink
    from airflow_kafka_offsets.spark.sinks.files import FilesSink
    from airflow_kafka_offsets.spark.sinks.table import TableSink


def sink_of(job: Mapping[str, Any]) -> Sink:
    """The sink of a job object: what its ``rows`` make of the records, in the output of its ``sink``."""
    from airflow_kafka_offsets.spark.fates import RowSink

    sink, rows = plain_sink(job["sink"], job["output"]), job.get("rows")
    if rows is None:
        return sink
    bad = rows.get("bad")
    return RowSink(sink, rows, None if bad is None else plain_sink(bad["sink"]))


def plain_sink(members: Mapping[str, Any], output: str | None = None) -> FilesSink | TableSink:
    """A folder or a table, from a member ``sink`` of a job object."""
    from airflow_kafka_offsets.spark.sinks.columns import quoted, table_name
    from airflow_kafka_offsets.spark.sinks.delta import DeltaTable
    from airflow_kafka_offsets.spark.sinks.files import FilesSink
    from airflow_kafka_offsets.spark.sinks.iceberg import IcebergTable

    kind, path, by = members["format"], members["path"], tuple(members["partition_by"])
    output = output or f"{kind}:{path or members['table']}"
    if kind == "files":
        return FilesSink(path, output, members["file_format"], by)
    name = f"delta.{quoted(path)}" if path else table_name(members["table"])
    return (DeltaTable if kind == "delta" else IcebergTable)(name, output, path, by, members["evolve"])
