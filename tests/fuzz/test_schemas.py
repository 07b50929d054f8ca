"""What a registry has as a schema: whatever it is, it becomes columns or a text that stands alone, or is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.values.avro_references import standalone
from airflow_kafka_offsets.values.json_schema import ddl_of
from tests.fuzz.strange import changed, changed_text, fuzzed
from tests.values.test_avro_references import CODE, MONEY, record
from tests.values.test_json_schema import ORDER

AVRO = (
    record("Order", ("price", "Money"), ("tax", ["null", "shop.Money"]), ("all", {"type": "array", "items": "Code"})),
    record("shop.Order", ("code", {"type": "map", "values": "Code"}), ("own", MONEY), aliases=["Old"]),
)
JSON = (
    ORDER,
    {
        "type": "object",
        "properties": {"a": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/A"}]}},
        "$defs": {"A": {"type": "object", "properties": {"b": {"type": "string"}}}},
    },
)


@fuzzed()
@given(changed(JSON))
def test_a_json_schema_is_columns_or_a_wrong_request(schema: Any) -> None:
    with suppress(InvalidRequest):
        assert ddl_of(json.dumps(schema), "the schema").startswith("`")


@fuzzed()
@given(changed(AVRO))
def test_an_avro_schema_stands_alone_once_it_was_made_to(schema: Any) -> None:
    with suppress(ValueError):
        whole = standalone(json.dumps(schema), [json.dumps(CODE), json.dumps(MONEY)])
        assert standalone(whole) == whole


@fuzzed()
@given(changed_text([json.dumps(schema) for schema in (*AVRO, *JSON)]))
def test_a_text_that_may_be_no_json_is_a_schema_or_refused(text: str) -> None:
    with suppress(InvalidRequest):
        ddl_of(text, "the schema")
    with suppress(ValueError):
        standalone(text, [json.dumps(MONEY)])
