"""A schema and those that it refers to become one text: each type is written once, where it is named first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.values.avro_references import standalone


def record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, **more, "fields": [{"name": n, "type": t} for n, t in fields]}


def whole(schema: Any, *referenced: Any) -> Any:
    return json.loads(standalone(json.dumps(schema), map(json.dumps, referenced)))


MONEY = record("Money", ("cents", "long"), namespace="shop")
CODE = {"type": "enum", "name": "Code", "symbols": ["EUR"]}
"""It has no namespace."""


def test_a_schema_without_references_stays_the_text_that_it_was() -> None:
    text = '{ "type":"record", "name":"A", "fields":[{"name":"next","type":["null","A"],"default":null}] }'
    assert standalone(text) == text


def test_a_type_is_written_out_where_it_is_named_first_and_named_from_there_on() -> None:
    order = record("Order", ("price", "Money"), ("tax", ["null", "shop.Money"]), namespace="shop")
    price, tax = whole(order, MONEY)["fields"]
    assert price["type"] == MONEY
    assert tax["type"] == ["null", "shop.Money"]


def test_a_reference_of_a_reference_is_written_out_inside_of_it() -> None:
    price = record("Price", ("money", "Money"), namespace="shop")
    order = record("Order", ("prices", {"type": "array", "items": "shop.Price"}), ("last", "shop.Money"))
    prices, last = whole(order, price, MONEY)["fields"]
    assert prices["type"]["items"]["fields"][0]["type"] == MONEY
    assert last["type"] == "shop.Money"


def test_a_type_without_a_namespace_keeps_none_inside_of_another_ones() -> None:
    order = record("Order", ("codes", {"type": "map", "values": "Code"}), namespace="shop")
    assert whole(order, CODE)["fields"][0]["type"]["values"] == {**CODE, "namespace": ""}


def test_a_name_without_a_dot_is_of_the_namespace_around_it_before_it_is_of_none() -> None:
    of_shop = {**CODE, "namespace": "shop", "symbols": ["USD"]}
    order = record("Order", ("code", "Code"), namespace="shop")
    assert whole(order, CODE, of_shop)["fields"][0]["type"] == of_shop
    nested = record("shop.Order", ("code", "Code"))
    assert whole(nested, CODE, of_shop)["fields"][0]["type"] == of_shop


def test_a_type_that_is_defined_inside_of_a_referenced_one_can_be_named_too() -> None:
    price = record("Price", ("money", MONEY), namespace="shop")
    order = record("Order", ("money", "shop.Money"), ("price", "shop.Price"))
    money, of_price = whole(order, price)["fields"]
    assert money["type"] == MONEY
    assert of_price["type"]["fields"][0]["type"] == "shop.Money"


def test_attributes_of_a_plain_type_stay() -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    order = record("Order", ("at", at), ("money", {"type": "shop.Money"}))
    assert [field["type"] for field in whole(order, MONEY)["fields"]] == [at, MONEY]


def test_one_schema_that_two_ways_lead_to_is_one() -> None:
    assert whole("shop.Money", MONEY, MONEY) == MONEY


@pytest.mark.parametrize(
    ("schema", "referenced", "said"),
    [
        ("hello", [], "names the type 'hello', which neither it nor"),
        (3, [], "3 is no type"),
        ({"type": "record", "name": "A"}, [], "'A' has no list of fields"),
        ({"type": "record", "fields": []}, [], "None is not text"),
        (record("A", ("b", {"type": "array"})), [], "names the type 'array'"),
        (record("A", ("m", "shop.Money")), [CODE], "names the type 'shop.Money'"),
        ("shop.Money", [MONEY, record("Money", ("euros", "int"), namespace="shop")], "'shop.Money' has two different"),
    ],
)
def test_what_cannot_stand_alone_is_refused(schema: Any, referenced: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        whole(schema, *referenced)


@pytest.mark.parametrize(("text", "said"), [("no json", "Expecting value"), ("[" * 10_000, "nested too deep")])
def test_what_is_no_json_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        standalone(text)
