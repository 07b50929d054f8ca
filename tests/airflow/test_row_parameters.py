"""The resolve task's parameters for rows: what is refused when the DAG is parsed, and what the run puts on record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from airflow_kafka_offsets import kafka_spark_batch
from airflow_kafka_offsets.batch.carry_out import Assignment
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator
from airflow_kafka_offsets.operators.row_parameters import limit_of, put_definition, row_arguments
from airflow_kafka_offsets.request.parameters import ResolveParameters
from airflow_kafka_offsets.spark.sinks.sink_arguments import formats_of_arguments
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.values.row_definition import Origin, RowDefinition, object_name
from testbed.registry_server import RegistryServer
from tests.builders import plan, planned
from tests.conftest import unique_name

JSON = {"format": "json", "schema": "id BIGINT"}
GOOD = {"format": "parquet", "path": "/lake/good"}
BAD = {"format": "parquet", "path": "/lake/bad", "limit": 5}
TABLE = {"format": "delta", "table": "lake.orders"}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"value": "json"}, "value is 'json'; expected words"),
    ({"value": {"format": "protobuf"}}, "docs/typed-rows.md shows"),
    ({"value": {"format": "xml"}}, "use one of string, json, avro"),
    ({"value": {"format": "json"}}, "give one of schema"),
    ({"value": {**JSON, "schema_file": "/s"}}, "give one of schema"),
    ({"value": {**JSON, "version": 3}}, "value has version, and no registry"),
    ({"value": {"format": "avro", "registry": "r", "version": "newest"}}, "value has the version 'newest'; give its"),
    ({"value": {"format": "avro", "registry": "r", "version": ""}}, "value has the version ''; give its number"),
    ({"value": {**JSON, "fields": 3}}, "value has 'fields'; it takes format"),
    ({"value": {"format": "string", "schema": "id INT"}}, "value is a string, which has no schema"),
    ({"value": {"format": "avro", "schema": "{}"}}, "is not the JSON text of an Avro record"),
    ({"key": {"format": "json"}}, "key has the format 'json': give one of schema"),
    ({"value": JSON, "tombstones": "drop"}, "use 'row' \\(a row of nulls\\) or 'leave-out'"),
    ({"value": JSON, "select": "value.*"}, 'give a list: \\["value'),
    ({"value": JSON, "select": ["explode(value.list)"]}, "uses explode, which makes several rows of one record"),
    ({"value": JSON, "select": ["current_timestamp() AS now"]}, "uses current_timestamp, which is another value each"),
    ({"value": JSON, "where": "value.id > (SELECT 1)"}, "where uses SELECT"),
    ({"value": JSON, "where": "value.id > (1"}, "where has a bracket or a quotation mark too many or too few"),
    ({"value": JSON, "expect": {"positive": "value.id > 0;"}}, "expect 'positive' has a comment or a semicolon"),
    ({"value": JSON, "expect": ["value.id > 0"]}, "give names and conditions"),
    ({"value": JSON, "bad_records": "/lake/bad"}, "give the words of a sink"),
    ({"value": JSON, "bad_records": {**BAD, "limit": "many"}}, "has the limit 'many'"),
    ({"value": JSON, "bad_records": {**BAD, "limit": True}}, "has the limit True"),
    ({"value": JSON, "bad_records": {**BAD, "format": "csv"}}, "cannot hold bytes"),
    ({"value": JSON, "bad_records": {**BAD, "tabel": "x"}}, "bad_records: sink has 'tabel'"),
    ({"value": JSON, "bad_records": {**GOOD, "limit": 5}}, "name the same output"),
    ({"value": JSON, "bad_records": {**BAD, "path": "/lake/good/bad"}}, "/lake/good/bad lies in /lake/good: its"),
    ({"value": JSON, "bad_records": {**BAD, "path": "/lake"}}, "/lake/good lies in /lake: its readers"),
    ({"bad_records": BAD}, "nothing decides which records are bad"),
    ({"value": JSON, "sink": {"format": "delta", "path": "/lake/d", "mode": "append"}}, "replaces its rows"),
    ({"bad_records": {"format": "delta", "path": "/b", "upsert": {"keys": ["id"]}}}, "bad_records has upsert"),
    ({"value": JSON, "bad_records": {**BAD, "path": "/lake/{topic}"}}, "bad_records has {topic} in it"),
    ({"sink": {**GOOD, "upsert": {"keys": ["id"]}}}, "format 'parquet' takes"),
    ({"sink": {**TABLE, "table": "lake.{Topic}"}}, "sink has the table 'lake.{Topic}': use {topic}"),
    ({"sink": {**TABLE, "upsert": ["id"]}}, "sink has the upsert \\['id'\\]; give"),
    ({"sink": {**TABLE, "upsert": {"delete_when": "true"}}}, "sink has the upsert .*; give"),
    ({"sink": {**TABLE, "upsert": {"keys": "id"}}}, "sink has the upsert keys 'id'; give a list"),
    ({"sink": {**TABLE, "upsert": {"keys": ["id"], "delete_when": "rand() > 1"}}}, "delete_when uses rand"),
    ({"sink": {**TABLE, "mode": "append", "upsert": {"keys": ["id"]}}}, "An upsert into Delta is no append"),
]


@pytest.mark.parametrize("path", ["/lake/good/_bad", "/lake/good-and-bad"])
def test_bad_records_may_lie_where_readers_of_the_rows_do_not_look(path: str) -> None:
    with DAG("typed", schedule=None):
        kafka_spark_batch(
            "orders", topics="orders", group_id="g", sink=GOOD, value=JSON, bad_records={**BAD, "path": path}
        )


@pytest.mark.parametrize(("words", "problem"), WRONG, ids=str)
def test_wrong_words_are_refused_when_the_dag_is_parsed(words: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem), DAG("typed", schedule=None):
        kafka_spark_batch("orders", topics="orders", group_id="g", **{"sink": GOOD, **words})


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused, DAG("typed", schedule=None):
        kafka_spark_batch(
            "orders", topics="orders", group_id="g", sink=GOOD, value={"format": "json"}, where="", select=["rand()"]
        )
    assert len(refused.value.problems) == 2


def test_a_wrong_sink_hides_nothing_that_is_wrong_besides() -> None:
    with pytest.raises(InvalidRequest) as refused, DAG("typed", schedule=None):
        kafka_spark_batch(
            "orders", topics="orders", group_id="g", sink={"format": "parquet", "path": "relative"}, value=JSON,
            bad_records=BAD, where="rand() > 1",
        )  # fmt: skip
    assert len(refused.value.problems) == 2


def test_a_job_s_own_output_is_no_place_for_bad_records() -> None:
    with pytest.raises(InvalidRequest, match="name the same output"), DAG("typed", schedule=None):
        kafka_spark_batch(
            "orders",
            topics="orders",
            group_id="g",
            application="job.py",
            output="/lake/bad",
            value=JSON,
            bad_records=BAD,
        )


@pytest.mark.parametrize(
    "words",
    [
        {"value": {"format": "json", "schema": "{{ params.schema }}"}},
        {"value": "{{ params.value }}"},
        {"sink": {**TABLE, "table": "lake.`{{ params.topic }}`"}},
        {"sink": {**TABLE, "table": "lake_{% if params.x %}a{% endif %}.{topic}"}, "value": JSON},
        {"value": JSON, "bad_records": {**BAD, "path": "{{ params.path }}"}},
        {"value": JSON, "where": "value.text = 'rand() AND (' AND value.`select` > 0"},
    ],
    ids=str,
)
def test_what_a_template_decides_is_left_to_the_run(words: dict[str, Any]) -> None:
    with DAG("typed", schedule=None):
        kafka_spark_batch("orders", topics="orders", group_id="g", **{"sink": GOOD, **words})


def test_the_definition_is_put_into_the_work_store_under_its_digest(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    file = tmp_path / "orders.ddl"
    file.write_text("id BIGINT,\n  note STRING\n")
    asked = ResolveParameters(value={"format": "json", "schema_file": str(file)}, where="value.id > 0")
    made = put_definition(asked, store, ["orders"])
    assert made is not None
    found = read_object(store, object_name(made.digest), RowDefinition.from_dict)
    assert found == made
    assert found.value is not None
    assert (found.value.schema, found.where) == ("id BIGINT,\n  note STRING", "value.id > 0")
    assert put_definition(asked, store, ["orders"]) == made, "the same words are the same object"
    assert put_definition(ResolveParameters(), store, ["orders"]) is None


def test_a_schema_may_lie_wherever_a_work_store_may(tmp_path: Path) -> None:
    (tmp_path / "order.ddl").write_text("id BIGINT")
    asked = ResolveParameters(value={"format": "json", "schema_file": f"file://{tmp_path}/order.ddl"})
    made = put_definition(asked, LocalStore(tmp_path / "store"), ["orders"])
    assert made is not None
    assert made.value is not None
    assert made.value.schema == "id BIGINT"


def test_a_schema_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, problem in ((str(tmp_path / "none.ddl"), "cannot be read here"), ("none.ddl", "give the whole path")):
        asked = ResolveParameters(value={"format": "json", "schema_file": path})
        with pytest.raises(InvalidRequest, match=problem):
            put_definition(asked, LocalStore(tmp_path / "store"), ["orders"])


def test_the_job_s_arguments_name_the_formats_that_it_needs_packages_for() -> None:
    asked = ResolveParameters(
        value={"format": "avro", "schema": "…"}, key=JSON, bad_records={"format": "delta", "table": "lake.bad"}
    )
    arguments = row_arguments(asked)
    assert formats_of_arguments(arguments) == {"avro", "json", "delta"}
    assert "--bad-records-table" in arguments


def test_an_upsert_and_an_output_of_each_topic_need_a_definition_although_nothing_is_decoded(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    upsert = {"keys": ["key"], "delete_when": "length(value) = 0"}
    for sink, found in (
        (GOOD, None),
        ({**GOOD, "path": "/lake/{topic}"}, RowDefinition()),
        ({**TABLE, "upsert": upsert}, RowDefinition(keys=("key",), delete_when="length(value) = 0")),
    ):
        assert put_definition(ResolveParameters(sink=sink), store, ["orders"]) == found
        assert found is None or read_object(store, found.object_name, RowDefinition.from_dict) == found


def test_without_a_limit_no_record_may_be_bad() -> None:
    assert str(limit_of(ResolveParameters(value=JSON))) == "0"
    assert str(limit_of(ResolveParameters(value=JSON, bad_records=BAD))) == "5"
    assert limit_of(ResolveParameters()) is None


# ── a registry ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def registered(schema_registry: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, object], int]:
    """`registered(subject, kind, schema)`: its id; the connection `registry` leads there."""
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", "host": schema_registry.url}))

    def register(subject: str, kind: str, schema: object) -> int:
        return SchemaRegistryClient({"url": schema_registry.url}).register_schema(
            subject, Schema(json.dumps(schema), kind)
        )

    return register


def avro(*fields: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Order",
        "fields": [{"name": name, "type": ["null", "long"], "default": None} for name in fields],
    }


def test_all_versions_of_a_topic_s_subject_are_put_on_record(registered: Callable[..., int], tmp_path: Path) -> None:
    topic, store = unique_name("orders"), LocalStore(tmp_path / "store")
    first, second = (
        registered(f"{topic}-value", "AVRO", avro("id")),
        registered(f"{topic}-value", "AVRO", avro("id", "amount")),
    )
    asked = ResolveParameters(value={"format": "avro", "registry": "registry"})
    made = put_definition(asked, store, [topic])
    assert made is not None
    found = read_object(store, object_name(made.digest), RowDefinition.from_dict)
    assert found == made
    assert found.value is not None
    assert sorted(found.value.writers) == sorted([first, second])
    assert found.value.origin == Origin(f"{topic}-value", 2)
    assert "amount" in (found.value.schema or "")


def test_a_json_schema_becomes_columns_or_the_dag_says_them(registered: Callable[..., int], tmp_path: Path) -> None:
    topic, store = unique_name("orders"), LocalStore(tmp_path / "store")
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    number = registered(f"{topic}-value", "JSON", schema)
    for more, ddl in (({}, "`id` BIGINT NOT NULL"), ({"schema": "id INT"}, "id INT")):
        made = put_definition(
            ResolveParameters(value={"format": "json", "registry": "registry", **more}), store, [topic]
        )
        assert made is not None
        found = read_object(store, object_name(made.digest), RowDefinition.from_dict)
        assert found == made
        assert found.value is not None
        assert (found.value.schema, list(found.value.writers)) == (ddl, [number])


def test_topics_of_several_schemas_in_one_table_are_refused(tmp_path: Path) -> None:
    asked = ResolveParameters(value={"format": "avro", "registry": "registry"})
    with pytest.raises(InvalidRequest, match="Give each topic a table"):
        put_definition(asked, LocalStore(tmp_path / "store"), ["orders", "payments"])


def test_with_an_output_of_each_topic_each_has_its_own_schema(registered: Callable[..., int], tmp_path: Path) -> None:
    orders, payments = unique_name("orders"), unique_name("payments")
    for topic, column in ((orders, "amount"), (payments, "method")):
        registered(f"{topic}-value", "JSON", {"type": "object", "properties": {column: {"type": "string"}}})
    sink = {"format": "delta", "table": "lake.{topic}"}
    value = {"format": "json", "registry": "registry"}
    store = LocalStore(tmp_path)
    made = put_definition(ResolveParameters(value=value, sink=sink), store, [orders, payments])
    assert made is not None
    found = read_object(store, made.object_name, RowDefinition.from_dict)
    assert found is not None
    assert {topic: value and value.schema for topic, (value, _) in found.topics.items()} == {
        orders: "`amount` STRING",
        payments: "`method` STRING",
    }
    assert found.of_topic("another") is None


def test_a_batch_that_stays_in_one_table_has_one_schema_although_the_dag_gives_each_topic_a_table_now(
    registered: Callable[..., int], tmp_path: Path
) -> None:
    topic, store = unique_name("orders"), LocalStore(tmp_path / "store")
    registered(f"{topic}-value", "AVRO", avro("id"))
    with DAG("typed", schedule=None):
        task = ResolveStartupOffsetsOperator(
            task_id="resolve",
            topics=topic,
            group_id="g",
            value={"format": "avro", "registry": "registry"},
            sink={"format": "parquet", "path": "/lake/{{ ds }}/{topic}"},
        )
    task.sink = {"format": "parquet", "path": "/lake/2026-11-22/{topic}"}  # as it is rendered
    log = PipelineLog(store, "pipeline")
    begun = log.begin(7, Planned(plan([planned(TopicPartition(topic, 0), 0, 3)], output="/lake/2026-11-21")))
    made = task._put_rows(Assignment(begun, (0,), "does it"), log)
    assert made is not None
    assert made.value is not None
    assert made.topics == {}


def test_a_batch_that_reads_nothing_needs_no_schema_of_a_topic_that_has_none_yet(
    registered: Callable[..., int], tmp_path: Path
) -> None:
    orders, new = unique_name("orders"), unique_name("new")
    registered(f"{orders}-value", "AVRO", avro("id"))
    asked = ResolveParameters(value={"format": "avro", "registry": "registry"}, sink={**GOOD, "path": "/lake/{topic}"})
    made = put_definition(asked, LocalStore(tmp_path), [new, orders])
    assert made is not None
    assert list(made.topics) == [orders]
    for topics, with_records in (([new, orders], [new]), ([new], [])):
        with pytest.raises(InvalidRequest, match=f"{new}-value"):
            put_definition(asked, LocalStore(tmp_path), topics, with_records)


def test_the_registry_s_schema_has_to_be_of_the_format(registered: Callable[..., int], tmp_path: Path) -> None:
    topic = unique_name("orders")
    registered(f"{topic}-value", "AVRO", avro("id"))
    asked = ResolveParameters(value={"format": "json", "registry": "registry"})
    with pytest.raises(InvalidRequest, match="is of the kind AVRO"):
        put_definition(asked, LocalStore(tmp_path / "store"), [topic])
