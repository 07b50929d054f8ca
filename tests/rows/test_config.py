"""What a DAG may say about rows and sinks. Wrong values are refused when they are built, templates when rendered."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.rows.config import Avro, BadRecords, Debezium, Delta, Iceberg, Json, Merge, Rows, Text

RECORD = '{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}'
ALL = Rows(
    value=Json("id BIGINT, at TIMESTAMP", {"timestampFormat": "yyyy"}),
    key=Avro(RECORD),
    select=["value.*"],
    where="value.id > 0",
    expect={"late": "value.at > '2026-01-01'"},
    ensure={"ids are unique": "count(*) = count(DISTINCT id)"},
    bad=BadRecords(Delta("lake.bad"), limit="0.1%"),
)

WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Json(""), "Json.schema is ''; give columns in Spark's DDL"),
    (lambda: Json({"id": "BIGINT"}), "Json.schema is {'id': 'BIGINT'}"),  # type: ignore[arg-type]
    (lambda: Json("id BIGINT Not  Null"), r"NOT NULL, which Spark\'s from_json ignores.*Rows\(expect="),
    (lambda: Json("id INT", {"Mode": "FAILFAST"}), "Json.options has 'Mode', which the job sets itself"),
    (lambda: Json("id INT", ["x"]), r"Json.options is \['x'\]"),  # type: ignore[arg-type]
    (lambda: Avro(), "Avro has no schema"),
    (lambda: Avro('"long"'), "Avro.schema is not the JSON text of an Avro record"),
    (lambda: Avro(RECORD, subject="orders-value"), "Avro.subject is 'orders-value' without a registry"),
    (lambda: Avro(registry=""), "Avro.registry is ''"),
    (lambda: Delta("lake/orders"), "Delta.path_or_table is 'lake/orders', a relative path"),
    (lambda: Delta("/lake/*"), "an output is one folder"),
    (lambda: Delta("/lake/../orders"), "an output is one folder"),
    (lambda: Delta("s3a://key:secret@bucket/orders"), "Delta.path_or_table has a password in it"),
    (lambda: Delta("/lake", partition_by="day"), r"Delta.partition_by is 'day'; give a list: \[\"day\"\]"),
    (lambda: Delta("lake orders"), "Delta.path_or_table is 'lake orders'; give table"),
    (lambda: Delta("./lake"), "Delta.path_or_table is './lake', a relative path"),
    (lambda: Delta("/lake", evolve="drop"), "Delta.evolve is 'drop'; it is one of None, 'add'"),  # type: ignore[arg-type]
    (lambda: Iceberg("/lake/orders"), "Iceberg.table is '/lake/orders'; give table"),
    (lambda: BadRecords("lake.bad"), r"BadRecords.sink is 'lake.bad'; give Delta\(…\), Iceberg\(…\)"),  # type: ignore[arg-type]
    (lambda: BadRecords(Delta), "BadRecords.sink is <class"),  # type: ignore[arg-type]
    (lambda: BadRecords(Delta("lake.bad", evolve="add")), "BadRecords.sink has evolve"),
    *(
        (partial(BadRecords, Delta("/bad"), limit), f"BadRecords.limit is {limit!r}")
        for limit in (-1, True, "5", "101%", "%", 0.5)
    ),
    (lambda: Rows(value="json"), r"Rows.value is 'json'; give Json\(…\), Avro\(…\), Text\(…\), Debezium\(…\)"),  # type: ignore[arg-type]
    (lambda: Rows(select="value.*"), r"Rows.select is 'value.\*'; give a list"),
    (lambda: Rows(select=[]), "Rows.select is empty"),
    (lambda: Rows(select=["value.id", ""]), "Rows.select is ''"),
    (lambda: Rows(where=" "), "Rows.where is ' '"),
    (lambda: Rows(expect=["value.id > 0"]), "Rows.expect is"),  # type: ignore[arg-type]
    (lambda: Rows(expect={"positive": ""}), r"Rows.expect\['positive'\] is ''"),
    (lambda: Rows(ensure=["count(*) > 0"]), "Rows.ensure is"),  # type: ignore[arg-type]
    (lambda: Rows(where="value.at > Current_Timestamp()"), "Rows.where has Current_Timestamp, so that"),
    (lambda: Rows(expect={"new": "value.at > now( )"}), r"Rows.expect\['new'\] has now\( \)"),
    (lambda: Delta("/lake", keeps_rows="no"), "Delta.keeps_rows is 'no'; it is one of True, False"),  # type: ignore[arg-type]
    (lambda: Rows(value=Debezium(Json("id INT"))), r"Rows.key is None; give Json\(…\), Avro\(…\)"),
    (lambda: Debezium(Text()), r"Debezium.format is Text\(\); give Json"),  # type: ignore[arg-type]
    (lambda: Debezium(Json("id INT"), ""), "Debezium.placeholder is ''"),
    (lambda: Merge("lake.a", ["id"], order_by="lsn"), r"Merge.order_by is 'lsn'; give a list"),
    (lambda: Merge("lake customers", ["id"]), "Merge.table is 'lake customers'; give table"),
    (lambda: Merge("./lake", ["id"]), "Merge.table is './lake', a relative path"),
    (lambda: Merge("lake.customers", "id"), r"Merge.keys is 'id'; give a list"),
    (lambda: Merge("lake.customers", []), "Merge.keys is empty"),
    (lambda: Merge("lake.customers", ["id"], " "), "Merge.delete_when is ' '"),
    (lambda: Rows(bad=Delta("/bad")), "Rows.bad is Delta"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "problem"), WRONG, ids=[problem[:40] for _, problem in WRONG])
def test_a_wrong_value_is_refused_when_it_is_built(make: Callable[[], Any], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        make()


def test_all_problems_of_a_value_are_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as raised:
        Rows(value="json", select=[], expect={"x": ""})  # type: ignore[arg-type]
    assert len(raised.value.problems) == 3


class Task:
    """Renders as Airflow does: texts, and what is in lists and mappings."""

    def render_template(self, value: Any, context: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{{ x }}", context["x"])
        if isinstance(value, list):
            return [self.render_template(item, context) for item in value]
        if isinstance(value, dict):
            return {name: self.render_template(item, context) for name, item in value.items()}
        return value.resolve(context) if hasattr(value, "resolve") else value


def test_templates_pass_and_what_they_become_is_checked() -> None:
    rows = Rows(Json("{{ x }}"), select=["{{ x }}"], where="{{ x }}", bad=BadRecords(Delta("{{ x }}"), "{{ x }}"))
    context = {"task": Task(), "x": "id BIGINT"}
    assert Rows(Json("{{ x }}"), select=["{{ x }}"]).resolve(context) == Rows(Json("id BIGINT"), select=["id BIGINT"])
    with pytest.raises(InvalidRequest, match=r"Delta.path_or_table is 'id BIGINT'; give table"):
        rows.resolve(context)


def test_a_condition_may_speak_of_functions_that_it_does_not_call() -> None:
    Rows(
        where="value.note != 'now()' AND `current_date` IS NULL",
        expect={"x": "value.uuid IS NULL OR unix_timestamp(value.at) > 0"},
    )


def test_values_are_shown_as_they_are_written_and_pickle() -> None:
    assert repr(Delta("lake.orders", ["day"], evolve="add")) == (
        "Delta(path_or_table='lake.orders', partition_by=['day'], evolve='add')"
    )
    assert repr(Rows(Text())) == "Rows(value=Text())"
    assert pickle.loads(pickle.dumps(ALL)) == ALL
    assert Delta("lake.orders") != Iceberg("lake.orders")
