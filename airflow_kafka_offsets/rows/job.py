# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The job object: what rows mean and where they go, as the Spark driver reads it from the checkpoint location.

docs/job-contract.md has its members. The driver knows nothing of Airflow's side, so everything it needs is in here:
schemas of a registry, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.rows.checks import folder, refuse, table_parts, tidy
from airflow_kafka_offsets.rows.config import (
    Avro,
    Debezium,
    Delta,
    Format,
    Iceberg,
    Json,
    Merge,
    Rows,
    SinkConfig,
)
from airflow_kafka_offsets.rows.registry import RegisteredSchemas

VERSION = 1
_SOURCE = (
    "connector STRING, snapshot STRING, ts_ms BIGINT, db STRING, schema STRING, table STRING, txId STRING, lsn BIGINT, "
    "gtid STRING, file STRING, pos BIGINT, row BIGINT, scn STRING, commit_lsn STRING, change_lsn STRING"
)
"""What Debezium's connectors say of where an event is in the database's log; Avro's schema says so itself."""


def job_object(
    sink: SinkConfig,
    rows: Rows | None = None,
    registry_schemas: Mapping[str, RegisteredSchemas] | None = None,
    merge: Merge | None = None,
) -> dict[str, Any]:
    """The job object of a sink and of rows, both rendered.

    :param rows: ``None``: rows are the records as Kafka has them.
    :param registry_schemas: of ``value`` and ``key``, where they are decoded by a registry
        (:func:`~airflow_kafka_offsets.rows.registry.schemas_of`).
    :raises InvalidRequest: bad records or entities would go to, into or around the sink's own table.
    """
    if rows is not None and rows.bad is not None:
        _refuse_one_output(sink, rows.bad.sink, "Rows.bad")
    merged = None if merge is None else _merge(sink, merge, None if rows is None else rows.value)
    members = None if rows is None else _rows(rows, registry_schemas or {})
    return {"version": VERSION, "output": output_name(sink), "sink": _sink(sink), "rows": members, "merge": merged}


def entity_table(sink: SinkConfig, merge: Merge) -> Delta | Iceberg:
    """The entity table: a table of the sink's format, which gets the columns that the sink's table has.

    :raises InvalidRequest: the sink's format has no such name.
    """
    return (Delta if isinstance(sink, Delta) else Iceberg)(merge.table, evolve="add")


def _merge(sink: SinkConfig, merge: Merge, value: Any) -> dict[str, Any]:
    table = entity_table(sink, merge)
    _refuse_one_output(sink, table, "Merge.table")
    is_debezium = isinstance(value, Debezium)
    return {
        "sink": _sink(table),
        "keys": list(merge.keys),
        "order_by": list(merge.order_by),
        "delete_when": merge.delete_when or ("kafka_op IS NULL OR kafka_op = 'd'" if is_debezium else None),
        "truncate_when": "kafka_op = 't'" if is_debezium else None,
        "placeholder": value.placeholder if is_debezium else None,
    }


def output_name(sink: SinkConfig) -> str:
    """An output in words, the same however it is written: ``delta:/lake/orders``, ``iceberg:lake.orders``."""
    match sink:
        case Delta(name) if "/" in name:
            return f"delta:{folder(name)}"
        case Delta(name):
            return f"delta:{_table(name)}"
        case Iceberg(name):
            return f"iceberg:{_table(name)}"


def _table(name: str) -> str:
    return ".".join(table_parts(name)).lower()  # Spark looks tables up without regard to case


def _sink(sink: SinkConfig) -> dict[str, Any]:
    place = _place(sink)
    path, table = (tidy(place), None) if "/" in place else (None, place)
    return {
        "format": type(sink).__name__.lower(),
        "path": path,
        "table": table,
        "partition_by": list(sink.partition_by),
        "evolve": sink.evolve,
        "keeps_rows": sink.keeps_rows,
    }


def _place(sink: SinkConfig) -> str:
    """Its folder, which has a slash, or its table, which has none."""
    match sink:
        case Delta(place) | Iceberg(place):
            return place


def _rows(rows: Rows, schemas: Mapping[str, RegisteredSchemas]) -> dict[str, Any]:
    bad, value, key = rows.bad, rows.value, rows.key
    if is_debezium := isinstance(value, Debezium):
        value, key = (
            _in_payload(value.format, "op STRING, after STRUCT<{}>, source STRUCT<" + _SOURCE + ">"),
            _in_payload(key),
        )
    return {
        "value": _format(value, schemas.get("value")),
        "key": _format(key, schemas.get("key")),
        "events": "debezium" if is_debezium else None,
        "select": None if rows.select is None else list(rows.select),
        "where": rows.where,
        "expect": dict(rows.expect or {}),
        "ensure": dict(rows.ensure or {}),
        "bad": None if bad is None else {"sink": _sink(bad.sink), "limit": bad.limit},
    }


def _in_payload(given: Any, columns: str = "{}") -> Any:
    """The same, with columns around the schema's, and all of them once more in ``payload``: Kafka Connect puts them
    there if its records carry their schema."""
    if not isinstance(given, Json):
        return given
    columns = columns.format(given.schema)
    return replace(given, schema=f"{columns}, payload STRUCT<{columns}>")


def _format(given: Format | None, registered: RegisteredSchemas | None) -> dict[str, Any] | None:
    match given:
        case None:
            return None
        case Json(schema, options):
            texts = {
                name: str(value).lower() if isinstance(value, bool) else str(value)
                for name, value in (options or {}).items()
            }
            return {"format": "json", "schema": schema, "options": texts}
        case Avro(schema) if registered is not None:
            by_id = {str(number): text for number, text in sorted(registered.by_id.items())}
            return {"format": "avro", "schema": schema or registered.schema, "by_id": by_id}
        case Avro(schema):
            return {"format": "avro", "schema": schema, "by_id": None}
        case _:
            return {"format": "text"}


def _refuse_one_output(sink: SinkConfig, beside: SinkConfig, what: str) -> None:
    own, other = output_name(sink), output_name(beside)
    folders = [f"{folder(place)}/" for place in map(_place, (sink, beside)) if "/" in place]
    is_inside = len(folders) == 2 and any(a.startswith(b) for a, b in (folders, folders[::-1]))
    if own == other or is_inside:
        refuse(
            [
                f"{what} is {other}, and rows go to {own}: readers of the one would see the other. "
                "Give it an output beside it."
            ]
        )
