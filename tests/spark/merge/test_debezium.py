"""Debezium's events, as a real connector has sent them, end to end: the entity table is the database's table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets import Avro, Debezium, Delta, Iceberg, Json, Merge, Rows
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.fates import KAFKA_COLUMNS, Fates
from testbed.broker import KafkaBroker
from testbed.java import Java
from tests.spark.merge.logs import UNKNOWN, Log
from tests.spark.merge.record_debezium import FOLDER, Record, record

pytestmark = pytest.mark.long

OLD = "id BIGINT, name STRING, doc STRING, photo BINARY, balance DECIMAL(10,2), born INT"
NEW = "id BIGINT, name STRING, doc STRING, photo BINARY, balance DECIMAL(10,2), note STRING"
STOCK = "shop STRING, item INT, count INT"
LSN = ("coalesce(kafka_source.lsn, 0)",)  # an incremental snapshot's rows have none
BINLOG = ("kafka_source.file", "kafka_source.pos", "kafka_source.row")
TABLES = [
    ("customers", ()),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in [
        ("customers", LSN), ("notes", ()), ("notes", LSN), ("mysql", ()), ("mysql", BINLOG),
    ]),
]  # fmt: skip


@dataclass
class ConnectorLog(Log):
    """A log table of a connector's events.

    :ivar schema: the columns of the table in the database.
    """

    schema: str = OLD

    @property
    def job(self) -> dict[str, Any]:
        name = self.folder.name.replace("-", "_")
        if self.kind == "delta":
            sink, entities = Delta(f"{self.folder}/log", evolve="add"), f"{self.folder}/customers"
        else:
            sink, entities = Iceberg(f"lake.db.{name}_log", evolve="add"), f"lake.db.{name}_customers"
        keys = ", ".join(column for column in self.schema.split(", ") if column.split()[0] in self.keys)
        rows = Rows(value=Debezium(Json(self.schema)), key=Json(keys))
        return job_object(sink, rows, merge=Merge(entities, [*self.keys], order_by=[*self.order_by]))

    @property
    def output(self) -> str:
        return str(self.job["output"])

    def sink_at(self, name: str) -> dict[str, Any]:
        return dict(self.job["sink"] if name == "log" else self.job["merge"]["sink"])

    def rows_of(self, records: Sequence[Record], first: int, partition: int = 0) -> DataFrame:
        return self.fates(records, first, partition).rows()

    def fates(self, records: Sequence[Record], first: int = 0, partition: int = 0) -> Fates:
        values = [
            (*(None if part is None else bytearray(part, "utf-8") for part in each), "shop", partition, first + n)
            for n, each in enumerate(records)
        ]
        columns = ", ".join(KAFKA_COLUMNS.split(", ")[:5])
        return Fates(self.spark.createDataFrame(values, columns), self.job["rows"])

    @property
    def state(self) -> list[dict[str, Any]]:
        """As the database writes it."""
        columns = [column.split()[0] for column in self.schema.split(", ")]
        rows = (row.asDict() for row in self.entity_rows.select(*columns).collect())
        texts = ({name: _text(value) for name, value in row.items()} for row in rows)
        return sorted(texts, key=lambda row: [row[key] for key in self.keys])


def _text(value: Any) -> Any:
    if isinstance(value, bytearray):
        return f"\\x{value.hex()}"
    return value if value is None or isinstance(value, int | str) else float(value)


def recorded(table: str) -> tuple[list[Record], list[dict[str, Any]]]:
    found = json.loads((FOLDER / f"{table}.json").read_text())
    return found["records"], found["rows"]


def replay(log: ConnectorLog, records: Sequence[Record], size: int, change_at: int | None = None) -> None:
    """Batches of some records each, merged each; from one on, the columns of the table are the new ones."""
    for number, first in enumerate(range(0, len(records), size), 1):
        log.schema = NEW if change_at is not None and first >= change_at else log.schema
        log.commit(number, log.rows_of(records[first : first + size], first))
        log.merge(number)


@pytest.mark.parametrize(("table", "order_by"), TABLES)
def test_the_entity_table_is_the_database(
    spark: SparkSession, tmp_path: Path, table: str, order_by: Sequence[str]
) -> None:
    """Snapshot, both replica identities, unchanged values, changed keys, truncate, columns, incremental snapshot."""
    log, (records, rows) = ConnectorLog(spark, tmp_path, "iceberg", order_by=order_by), recorded(table)
    replay(log, records, 15, change_at=15)
    wanted = sorted(rows, key=lambda row: row["id"])
    assert log.state == wanted
    log.commit(1, log.rows_of(records[:15], 0))  # a batch is written again
    assert log.merge(1) == [1]
    assert log.state == wanted
    log.spark.sql(f"DROP TABLE {log.table.name}")
    log.merge()
    assert log.state == wanted


@pytest.mark.slow
@pytest.mark.parametrize("schemas", ["", "with_schema/"])
def test_composite_keys_and_events_inside_of_payload(spark: SparkSession, tmp_path: Path, schemas: str) -> None:
    log = ConnectorLog(spark, tmp_path, "delta", keys=("shop", "item"), schema=STOCK)
    records, rows = recorded(f"{schemas}stock")
    replay(log, records, 4)
    assert log.state == sorted(rows, key=lambda row: (row["shop"], row["item"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "order_by", "first", "again"), [("customers", LSN, 7, (3, 6)), ("mysql", BINLOG, 30, (21, 25))]
)
def test_what_a_connector_sends_twice_ends_the_same(
    spark: SparkSession, tmp_path: Path, table: str, order_by: Sequence[str], first: int, again: tuple[int, int]
) -> None:
    """After a restart it goes on from an earlier place. By `order_by` no row goes back in between.

    MySQL's statement has deleted and created keys at one position of its binary log.
    """
    log, (records, _) = ConnectorLog(spark, tmp_path, "iceberg", order_by=order_by), recorded(table)
    log.commit(1, log.rows_of(records[:first], 0))
    log.merge()
    state = log.state
    log.commit(2, log.rows_of(records[slice(*again)], first))
    log.merge()
    assert log.state == state
    docs = {row["id"]: row["doc"] for row in state}
    assert docs[4] == "z" * 2500 if table == "customers" else docs == {2: "w", 3: "v", 4: None}


def test_nothing_is_known_of_an_unchanged_value_before_the_first_event(spark: SparkSession, tmp_path: Path) -> None:
    log, (records, _) = ConnectorLog(spark, tmp_path, "iceberg"), recorded("customers")
    log.commit(1, log.rows_of(records[4:5], 0))
    log.merge()
    assert [(row["doc"], row["photo"]) for row in log.state] == [(UNKNOWN, f"\\x{UNKNOWN.encode().hex()}")]


def test_an_event_that_is_none_is_bad_and_the_reason_says_why(spark: SparkSession, tmp_path: Path) -> None:
    log = ConnectorLog(spark, tmp_path, "iceberg")
    after = '"after": {"id": 1}'
    records: list[Record] = [
        ('{"id": 1}', f'{{"op": "x", {after}}}'),
        ('{"id": 1}', f"{{{after}}}"),
        ('{"id": 1}', '{"op": "u", "after": null}'),
        (None, f'{{"op": "c", {after}}}'),
        (None, None),
        ('{"id": null}', f'{{"op": "c", {after}}}'),
        ('{"id": 1}', '{"op": "c", "after": {"id": 1, "born": "soon"}}'),
        ('{"id": 1}', "null"),
        ('{"id": 1}', None),
        (None, '{"op": "t"}'),
        ('{"payload": {"id": 1}}', f'{{"payload": {{"op": "c", {after}}}}}'),
    ]
    fates = log.fates(records)
    assert [row["reason"] for row in fates.bad().collect()] == [
        "the event has operation x, and c, u, r, d and t are known",
        "the event has operation null, and c, u, r, d and t are known",
        "the event has no row in after",
        "the event has no key",
        "the event has no key",
        "the event has no key",
        "the value is not JSON of the schema",
        "the value is not JSON of the schema",
    ]
    rows = [(row["id"], row["kafka_op"]) for row in fates.rows().collect()]
    assert rows == [(1, None), (None, "t"), (1, "c")]


def test_rows_without_a_position_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    log, (records, _) = ConnectorLog(spark, tmp_path, "iceberg", order_by=["kafka_source.lsn"]), recorded("notes")
    log.schema = NEW
    log.commit(1, log.rows_of(records[-1:], 0))
    with pytest.raises(InvalidJob, match=r"The row of shop-0:0 .* has no kafka_source\.lsn"):
        log.merge()


def test_avro_events(spark: SparkSession) -> None:
    import io

    from fastavro import parse_schema, schemaless_writer

    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
    }
    source = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": ["null", "long"]}]}
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": source},
        {"name": "op", "type": "string"},
    ]
    envelope = {"type": "record", "name": "Envelope", "fields": fields}
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}

    def encoded(schema: Any, value: Any) -> bytearray:
        output = io.BytesIO()
        schemaless_writer(output, parse_schema(schema), value)
        return bytearray(output.getvalue())

    event = {"before": None, "after": {"id": 1, "name": "Ann"}, "source": {"lsn": 7}, "op": "c"}
    values = [
        (encoded(key, {"id": 1}), encoded(envelope, event), "shop", 0, 0),
        (encoded(key, {"id": 2}), None, "shop", 0, 1),
    ]
    rows = Rows(value=Debezium(Avro(json.dumps(envelope))), key=Avro(json.dumps(key)))
    columns = ", ".join(KAFKA_COLUMNS.split(", ")[:5])
    found = Fates(spark.createDataFrame(values, columns), job_object(Iceberg("a.b.c"), rows)["rows"]).rows()
    assert found.columns == ["id", "name", "kafka_op", "kafka_source", "topic", "partition", "offset"]
    assert [tuple(row)[:4] for row in found.collect()] == [(1, "Ann", "c", (7,)), (2, None, None, None)]


@pytest.mark.slow
def test_a_live_connector(spark: SparkSession, tmp_path: Path, java: Java, broker: KafkaBroker) -> None:
    found = record(java, broker)
    for table, more in (("customers", {}), ("notes", {}), ("stock", {"keys": ("shop", "item"), "schema": STOCK})):
        log = ConnectorLog(spark, tmp_path / table, "delta", **more)
        replay(log, found.records[table], 15, None if table == "stock" else 15)
        keys = log.keys
        assert log.state == sorted(found.rows[table], key=lambda row: [row[key] for key in keys])
