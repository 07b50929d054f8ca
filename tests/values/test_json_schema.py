"""A JSON Schema becomes the columns that it describes, or is refused with the path of what no column can say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.values.json_schema import ddl_of

WHAT = "The JSON Schema of subject 'orders-value', version 3"
ORDER = {
    "type": "object",
    "required": ["id", "at", "lines", "note"],
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "mail": {"type": "string", "format": "email"},
        "note": {"type": ["null", "string"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["sku"],
                "properties": {"sku": {"type": "string"}, "price": {"type": "number"}},
            },
        },
    },
}


def of(properties: dict[str, Any], **more: Any) -> str:
    return ddl_of(json.dumps({"type": "object", "properties": properties, **more}), WHAT)


def problems(schema: Any) -> list[str]:
    with pytest.raises(InvalidRequest) as refused:
        ddl_of(schema if isinstance(schema, str) else json.dumps(schema), WHAT)
    return list(refused.value.problems)


def test_each_type_of_json_has_its_column() -> None:
    assert ddl_of(json.dumps(ORDER), WHAT).split(", `") == [
        "`id` BIGINT NOT NULL",
        "amount` DOUBLE",
        "paid` BOOLEAN",
        "day` DATE",
        "at` TIMESTAMP NOT NULL",
        "mail` STRING",
        "note` STRING",
        "tags` ARRAY<STRING>",
        "counts` MAP<STRING, BIGINT>",
        "lines` ARRAY<STRUCT<`sku`: STRING NOT NULL",
        "price`: DOUBLE>> NOT NULL",
    ]


@pytest.mark.parametrize(
    "nullable",
    [
        {"type": ["string", "null"]},
        {"oneOf": [{"type": "null"}, {"type": "string"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/a~1b"}]},
        {"$ref": "#/$defs/maybe"},
    ],
)
def test_a_choice_between_a_type_and_null_is_that_type_and_may_be_null(nullable: Any) -> None:
    defined = {"a/b": {"type": "string"}, "maybe": {"type": ["null", "string"]}}
    assert of({"a": nullable}, required=["a"], **{"$defs": defined}) == "`a` STRING"


def test_a_type_that_is_defined_beside_the_properties_is_read_wherever_it_is_named() -> None:
    money = {"type": "object", "properties": {"cents": {"type": "integer"}}}
    named = {"$ref": "#/definitions/Money"}
    found = of({"price": named, "all": {"type": "array", "items": named}}, definitions={"Money": money})
    assert found == "`price` STRUCT<`cents`: BIGINT>, `all` ARRAY<STRUCT<`cents`: BIGINT>>"


def test_required_of_an_older_draft_requires_nothing_here() -> None:
    """In draft 3 it stands at the property, and is true or false."""
    assert of({"a": {"type": "string", "required": True}}, required=True) == "`a` STRING"


def test_a_name_is_quoted_as_spark_quotes_it() -> None:
    assert of({"a b": {"type": "string"}, "c`d": {"type": "string"}}) == "`a b` STRING, `c``d` STRING"


@pytest.mark.parametrize(
    ("property_", "said"),
    [
        (True, "#/properties/a says nothing of its type."),
        ({}, "#/properties/a says nothing of its type."),
        ({"type": "null"}, "#/properties/a says nothing of its type."),
        ({"type": ["string", "integer"]}, "#/properties/a has the types string and integer, and a column has one."),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "#/properties/a is oneOf of 2 schemas, and",
        ),
        ({"type": "object"}, "#/properties/a/additionalProperties says nothing of its type."),
        ({"type": "array"}, "#/properties/a/items says nothing of its type."),
        ({"type": "array", "items": [{"type": "string"}]}, "#/properties/a/items says nothing of its type."),
        ({"type": "text"}, "#/properties/a has the type text, which no column has."),
        ({"$ref": "money.json"}, "#/properties/a refers to money.json, which is outside of this schema."),
        (
            {"$ref": "#/defs/None"},
            "#/properties/a refers to #/defs/None, which is outside of this schema.",
        ),
        ({"$ref": "#"}, "#/properties/a contains itself, by #."),
        ({"$ref": "#/definitions/Tree"}, "#/properties/a/properties/left contains itself, by #/definitions/Tree."),
    ],
)
def test_what_no_column_can_say_is_refused_with_its_path_and_the_way_out(property_: Any, said: str) -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/definitions/Tree"}}}
    (problem,) = problems({"type": "object", "properties": {"a": property_}, "definitions": {"Tree": tree}})
    assert problem.startswith(f"{WHAT}: {said}")
    assert problem.endswith('Give the columns as DDL besides, such as schema="id BIGINT, note STRING".')


def test_two_names_that_spark_takes_for_one_are_refused() -> None:
    (problem,) = problems({"type": "object", "properties": {"id": {"type": "string"}, "ID": {"type": "string"}}})
    assert "#/properties/ID differs from id in its case alone" in problem


def test_all_places_are_named_at_once_and_a_slash_in_a_name_is_no_step() -> None:
    found = problems({"type": "object", "properties": {"a/b": {}, "c": {"type": "array", "items": {}}}})
    assert [problem.partition(": ")[2].split()[0] for problem in found] == ["#/properties/a~1b", "#/properties/c/items"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "is no JSON: "),
        ("[" * 10_000, "nested too deep"),
        ('{"type": "string"}', ": # is no object with properties."),
        ('{"type": "object"}', ": # is no object with properties."),
        ("3", ": # says nothing of its type."),
        ('{"type": "object", "properties": ["a"]}', ": # is no object with properties."),
    ],
)
def test_what_is_no_schema_of_objects_is_refused(text: str, said: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(WHAT)
    assert said in problem
