"""The job object, member by member: docs/job-contract.md."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.rows.config import (
    Avro,
    BadRecords,
    Debezium,
    Delta,
    Iceberg,
    Json,
    Merge,
    Rows,
    SinkConfig,
    Text,
)
from airflow_kafka_offsets.rows.job import job_object, output_name
from airflow_kafka_offsets.rows.registry import RegisteredSchemas
from tests.rows.test_config import ALL, RECORD


def test_a_job_without_rows() -> None:
    assert job_object(Delta("/lake/orders/", partition_by=("day",), evolve="add")) == {
        "version": 1,
        "output": "delta:/lake/orders",
        "sink": {
            "format": "delta",
            "path": "/lake/orders",
            "table": None,
            "partition_by": ["day"],
            "evolve": "add",
            "keeps_rows": True,
        },
        "rows": None,
        "merge": None,
    }


def test_a_job_with_an_entity_table() -> None:
    job = job_object(Delta("/lake/orders"), merge=Merge("/lake//customers/", ("id",), "op = 'd'"))
    sink = job_object(Delta("/lake/customers", evolve="add"))["sink"]
    words = {"delete_when": "op = 'd'", "truncate_when": None, "placeholder": None}
    assert job["merge"] == {"sink": sink, "keys": ["id"], "order_by": [], **words}
    assert job_object(Iceberg("lake.orders"), merge=Merge("lake.x", ["id"]))["merge"]["sink"]["format"] == "iceberg"


def test_debezium_is_an_envelope_around_the_columns_and_says_what_a_merge_does() -> None:
    rows = Rows(value=Debezium(Json("id BIGINT, name STRING"), placeholder="?"), key=Json("id BIGINT"))
    job = job_object(
        Delta("/lake/changes"), rows, merge=Merge("/lake/customers", ["id"], order_by=["kafka_source.lsn"])
    )
    schema = job["rows"]["value"]["schema"]
    assert schema.startswith("op STRING, after STRUCT<id BIGINT, name STRING>, source STRUCT<")
    assert schema.partition(", payload STRUCT<")[2] == schema.partition(", payload ")[0] + ">"
    assert job["rows"]["key"]["schema"] == "id BIGINT, payload STRUCT<id BIGINT>"
    assert job["rows"]["events"] == "debezium"
    merge = {name: job["merge"][name] for name in ("order_by", "delete_when", "truncate_when", "placeholder")}
    deletes = "kafka_op IS NULL OR kafka_op = 'd'"
    assert [*merge.values()] == [["kafka_source.lsn"], deletes, "kafka_op = 't'", "?"]
    soft = job_object(Delta("/lake/changes"), rows, merge=Merge("/lake/customers", ["id"], "false"))
    assert soft["merge"]["delete_when"] == "false"
    avro = Rows(value=Debezium(Avro(RECORD)), key=Avro(RECORD))
    assert job_object(Delta("/lake/changes"), avro)["rows"]["value"]["schema"] == RECORD


@pytest.mark.parametrize(
    ("sink", "table", "problem"),
    [
        (Delta("/lake/orders"), "/lake/orders/", "readers of the one would see the other"),
        (Delta("/lake/orders"), "/lake/orders/customers", "readers of the one would see the other"),
        (Delta("lake.orders"), "Lake.Orders", "readers of the one would see the other"),
        (Iceberg("lake.orders"), "/lake/customers", "Iceberg.table is '/lake/customers'"),
    ],
)
def test_an_entity_table_is_a_table_of_the_same_format_beside_the_sink(
    sink: SinkConfig, table: str, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        job_object(sink, merge=Merge(table, ["id"]))


def test_a_job_with_rows() -> None:
    job = job_object(Delta("s3a://lake/orders"), ALL)
    assert job["rows"] == {
        "value": {"format": "json", "schema": "id BIGINT, at TIMESTAMP", "options": {"timestampFormat": "yyyy"}},
        "key": {"format": "avro", "schema": RECORD, "by_id": None},
        "events": None,
        "select": ["value.*"],
        "where": "value.id > 0",
        "expect": {"late": "value.at > '2026-01-01'"},
        "ensure": {"ids are unique": "count(*) = count(DISTINCT id)"},
        "bad": {"sink": job_object(Delta("lake.bad"))["sink"], "limit": "0.1%"},
    }
    assert json.loads(json.dumps(job)) == job


def test_schemas_of_a_registry() -> None:
    registered = {"value": RegisteredSchemas("newest", {9: "b", 7: "a"}, "orders-value version 2")}
    job = job_object(Iceberg("lake.db.orders"), Rows(Avro(registry="registry"), key=Text()), registered)
    assert job["rows"]["value"] == {"format": "avro", "schema": "newest", "by_id": {"7": "a", "9": "b"}}
    assert job["rows"]["key"] == {"format": "text"}
    fixed = job_object(Iceberg("lake.db.orders"), Rows(Avro(RECORD, registry="registry")), registered)
    assert fixed["rows"]["value"] == {"format": "avro", "schema": RECORD, "by_id": {"7": "a", "9": "b"}}


def test_options_are_texts() -> None:
    job = job_object(Delta("/lake"), Rows(Json("id INT", {"allowComments": True})))
    assert job["rows"]["value"]["options"] == {"allowComments": "true"}


@pytest.mark.parametrize(
    ("sink", "name"),
    [
        (Delta("/lake//orders/"), "delta:/lake/orders"),
        (Delta("file:///lake/orders"), "delta:file:///lake/orders"),
        (Delta("S3://bucket/orders"), "delta:s3a://bucket/orders"),
        (Delta("abfs://lake@account/orders"), "delta:abfss://lake@account/orders"),
        (Delta("Lake.Orders"), "delta:lake.orders"),
        (Iceberg("lake.`my.db`.Orders"), "iceberg:lake.my.db.orders"),
    ],
)
def test_an_output_has_one_name_however_it_is_written(sink: SinkConfig, name: str) -> None:
    assert output_name(sink) == name


@pytest.mark.parametrize(
    ("sink", "bad"),
    [
        (Delta("/lake/orders"), Delta("/lake/orders/")),
        (Delta("/lake/orders"), Delta("/lake/orders/bad")),
        (Delta("/lake/orders/all"), Delta("/lake/orders")),
        (Delta("s3://lake/orders"), Delta("s3a://lake/orders/bad")),
        (Delta("lake.orders"), Delta("LAKE.orders")),
    ],
)
def test_bad_records_do_not_go_where_rows_go(sink: SinkConfig, bad: SinkConfig) -> None:
    with pytest.raises(InvalidRequest, match="readers of the one would see the other"):
        job_object(sink, Rows(bad=BadRecords(bad)))


def test_bad_records_go_beside_the_rows() -> None:
    for bad in (Delta("/lake/orders-bad"), Delta("/lake/wrongs"), Delta("lake.bad")):
        job_object(Delta("/lake/orders"), Rows(bad=BadRecords(bad)))
