"""What a DAG may say about rows and sinks. Wrong values are refused when they are built, templates when rendered."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.rows.config import Avro, BadRecords, Delta, Files, Iceberg, Json, Merge, Rows, Text

RECORD = '{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}'
ALL = Rows(
    value=Json("id BIGINT, at TIMESTAMP", {"timestampFormat": "yyyy"}),
    key=Avro(RECORD),
    select=["value.*"],
    where="value.id > 0",
    expect={"late": "value.at > '2026-01-01'"},
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
    (lambda: Files("lake/orders"), "Files.path is 'lake/orders', a relative path"),
    (lambda: Files("/lake/*"), "an output is one folder"),
    (lambda: Files("/lake/../orders"), "an output is one folder"),
    (lambda: Files("s3a://key:secret@bucket/orders"), "Files.path has a password in it"),
    (lambda: Files("/lake", format="hudi"), "Files.format is 'hudi'; it is one of 'parquet'"),  # type: ignore[arg-type]
    (lambda: Files("/lake", partition_by="day"), r"Files.partition_by is 'day'; give a list: \[\"day\"\]"),
    (lambda: Files("/lake", partition_by=["_day", "kafka_batch"]), "'_day'.*\n.*'kafka_batch'"),
    (lambda: Delta("lake orders"), "Delta.path_or_table is 'lake orders'; give table"),
    (lambda: Delta("./lake"), "Delta.path_or_table is './lake', a relative path"),
    (lambda: Delta("/lake", evolve="drop"), "Delta.evolve is 'drop'; it is one of None, 'add'"),  # type: ignore[arg-type]
    (lambda: Iceberg("/lake/orders"), "Iceberg.table is '/lake/orders'; give table"),
    (lambda: BadRecords("lake.bad"), r"BadRecords.sink is 'lake.bad'; give Files\(…\)"),  # type: ignore[arg-type]
    (lambda: BadRecords(Files), "BadRecords.sink is <class"),  # type: ignore[arg-type]
    (lambda: BadRecords(Delta("lake.bad", evolve="add")), "BadRecords.sink has evolve"),
    *(
        (partial(BadRecords, Files("/bad"), limit), f"BadRecords.limit is {limit!r}")
        for limit in (-1, True, "5", "101%", "%", 0.5)
    ),
    (lambda: Rows(value="json"), r"Rows.value is 'json'; give Json\(…\), Avro\(…\), Text\(…\)"),  # type: ignore[arg-type]
    (lambda: Rows(select="value.*"), r"Rows.select is 'value.\*'; give a list"),
    (lambda: Rows(select=[]), "Rows.select is empty"),
    (lambda: Rows(select=["value.id", ""]), "Rows.select is ''"),
    (lambda: Rows(where=" "), "Rows.where is ' '"),
    (lambda: Rows(expect=["value.id > 0"]), "Rows.expect is"),  # type: ignore[arg-type]
    (lambda: Rows(expect={"positive": ""}), r"Rows.expect\['positive'\] is ''"),
    (lambda: Merge("lake customers", ["id"]), "Merge.table is 'lake customers'; give table"),
    (lambda: Merge("./lake", ["id"]), "Merge.table is './lake', a relative path"),
    (lambda: Merge("lake.customers", "id"), r"Merge.keys is 'id'; give a list"),
    (lambda: Merge("lake.customers", []), "Merge.keys is empty"),
    (lambda: Merge("lake.customers", ["id"], " "), "Merge.delete_when is ' '"),
    (lambda: Rows(bad=Files("/bad")), "Rows.bad is Files"),  # type: ignore[arg-type]
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
    rows = Rows(Json("{{ x }}"), select=["{{ x }}"], where="{{ x }}", bad=BadRecords(Files("{{ x }}"), "{{ x }}"))
    context = {"task": Task(), "x": "id BIGINT"}
    assert Rows(Json("{{ x }}"), select=["{{ x }}"]).resolve(context) == Rows(Json("id BIGINT"), select=["id BIGINT"])
    with pytest.raises(InvalidRequest, match=r"Files.path is 'id BIGINT', a relative path"):
        rows.resolve(context)


def test_values_are_shown_as_they_are_written_and_pickle() -> None:
    assert repr(Delta("lake.orders", ["day"], evolve="add")) == (
        "Delta(path_or_table='lake.orders', partition_by=['day'], evolve='add')"
    )
    assert repr(Rows(Text())) == "Rows(value=Text())"
    assert pickle.loads(pickle.dumps(ALL)) == ALL
    assert Delta("lake.orders") != Iceberg("lake.orders")
