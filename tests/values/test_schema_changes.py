"""What a log says of two row definitions whose schemas differ."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.values.row_definition import FieldFormat, Origin, RowDefinition
from airflow_kafka_offsets.values.schema_changes import older_versions, schema_changes


def avro(**types: Any) -> str:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def registered(schema: str, version: int, subject: str = "orders-value") -> FieldFormat:
    return FieldFormat("avro", schema, {version: schema}, Origin(subject, version))


def ddl(text: str) -> FieldFormat:
    return FieldFormat("json", text)


def said(before: FieldFormat, now: FieldFormat) -> list[str]:
    return schema_changes(RowDefinition(value=before), RowDefinition(value=now))


def changed(before: FieldFormat, now: FieldFormat) -> str:
    """What is said of the columns."""
    (line,) = said(before, now)
    return line.partition(": ")[2].removesuffix(".")


def test_the_versions_of_a_subject_and_its_columns_are_said() -> None:
    old, new = avro(id="long", note="string"), avro(id="long", discount=["null", "string"])
    assert said(registered(old, 5), registered(new, 7)) == [
        "Schema of orders-value: version 5 → 7: new column discount STRING, column note is gone."
    ]


def test_without_a_registry_the_columns_alone_are_said() -> None:
    assert said(ddl("id INT"), ddl("id BIGINT")) == ["The schema of value has changed: column id INT → BIGINT."]


def test_two_subjects_are_named() -> None:
    schema = avro(id="long")
    assert said(registered(schema, 5), registered(schema, 1, "sales-value")) == [
        "Schema of value: orders-value version 5 → sales-value version 1: the columns are the same."
    ]


def test_the_key_s_schema_is_spoken_of_too() -> None:
    before = RowDefinition(FieldFormat("string"), ddl("id INT"))
    now = RowDefinition(FieldFormat("string"), ddl("id INT, shop STRING"))
    assert schema_changes(before, now) == ["The schema of key has changed: new column shop STRING."]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(registered(avro(id="long"), 5), registered(avro(id="long"), 5), id="the same"),
        pytest.param(
            registered(avro(id="long"), 5),
            FieldFormat("avro", avro(id="long"), {5: "", 7: ""}, Origin("orders-value", 5)),
            id="one more writer's schema, and the same reader's",
        ),
        pytest.param(ddl("id INT"), FieldFormat("json", "id INT", {7: ""}, Origin("o", 7)), id="now from a registry"),
    ],
)
def test_nothing_is_said_where_the_reader_s_schema_is_the_same(before: FieldFormat, now: FieldFormat) -> None:
    assert said(before, now) == []


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ("id INT", "ID bigint", "column ID INT → bigint"),
        ("id INT, a DECIMAL(10,2)", "id INT, a DECIMAL( 10, 2 )", "the columns are the same"),
        ("id INT", "`id` INT COMMENT 'a, b', `of, two` ARRAY<INT>", "new column of, two ARRAY<INT>"),
        ("id INT NOT NULL", "id INT", "column id INT NOT NULL → INT"),
        ("id: INT, at: DATE", "id INT", "column at is gone"),
        ("a STRUCT<b: INT, c: INT>", "a STRUCT<b: BIGINT>", "column a.c is gone, column a.b INT → BIGINT"),
        ("a INT", ", ".join(f"c{n} INT" for n in range(12)), "new column c0 INT"),
    ],
)
def test_columns_of_a_ddl(before: str, now: str, words: str) -> None:
    assert changed(ddl(before), ddl(now)).startswith(words)


def test_ten_changes_are_said_and_the_others_are_counted() -> None:
    assert changed(ddl("a INT"), ddl(", ".join(f"c{n} INT" for n in range(12)))).endswith("c9 INT, 3 more")


TYPES = [
    ("int", "INT"),
    (["null", "double"], "DOUBLE"),
    (["int", "string"], "UNION<INT, STRING>"),
    ({"type": "int", "logicalType": "date"}, "DATE"),
    ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, "DECIMAL(10,2)"),
    ({"type": "string", "logicalType": "uuid"}, "STRING"),
    ({"type": "enum", "name": "Kind", "symbols": ["A"]}, "STRING"),
    ({"type": "array", "items": "bytes"}, "ARRAY<BINARY>"),
    ({"type": "map", "values": "boolean"}, "MAP<STRING, BOOLEAN>"),
    ("shop.Address", "shop.Address"),
]


@pytest.mark.parametrize(("kind", "words"), TYPES, ids=[words for _, words in TYPES])
def test_columns_of_an_avro_schema_have_spark_s_types(kind: Any, words: str) -> None:
    before, now = FieldFormat("avro", avro(id="long")), FieldFormat("avro", avro(id="long", more=kind))
    assert changed(before, now) == f"new column more {words}"


def test_a_field_of_a_record_within_is_named_by_its_path() -> None:
    inner = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
    before, now = FieldFormat("avro", avro(id="long")), FieldFormat("avro", avro(id="long", to=["null", inner]))
    assert changed(before, now) == "new column to.city STRING"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (ddl("id INT"), ddl('{"type":"struct","fields":[]}')),
        (ddl("struct<id: INT>"), ddl("id INT")),
        (ddl("id INT"), ddl("id")),
        (FieldFormat("avro", avro(id="long")), FieldFormat("avro", '{"type": "record", "fields": [1]}')),
        (FieldFormat("avro", avro(id="long")), FieldFormat("avro", avro(id=None))),
        (FieldFormat("avro", avro(id="long")), FieldFormat("avro", "no JSON")),
        (FieldFormat("avro", avro(id="long")), FieldFormat("avro", "[]")),
        (FieldFormat("avro", avro(id="long")), FieldFormat("avro")),
    ],
)
def test_columns_that_cannot_be_read_are_left_out_of_the_sentence(before: FieldFormat, now: FieldFormat) -> None:
    assert said(before, now) == ["The schema of value has changed."]


def test_another_format_is_said() -> None:
    assert changed(ddl("id INT"), FieldFormat("string")) == "format json → string"


def test_a_field_that_was_not_decoded_has_no_schema_that_could_change() -> None:
    assert schema_changes(RowDefinition(), RowDefinition(value=ddl("id INT"))) == []


def test_an_older_version_of_the_same_subject_is_found() -> None:
    five, seven = (RowDefinition(value=registered(avro(id="long"), version)) for version in (5, 7))
    other = RowDefinition(value=registered(avro(id="long"), 1, "sales-value"))
    assert list(older_versions(seven, five)) == [("orders-value", 7, 5)]
    none = RowDefinition()
    for before, now in ((five, seven), (seven, seven), (seven, other), (seven, none), (none, five)):
        assert list(older_versions(before, now)) == []
