"""What becomes of a value: the tables of docs/typed-rows.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.rows.config import Avro, Delta, Json, Rows, Text
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.rows.registry import RegisteredSchemas
from airflow_kafka_offsets.spark.decode import SETTINGS
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.fates import Fates
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.sinks import sink_of
from testbed.spark import SMALL_QUERIES
from tests.spark.rows.records import FILTERED, Bad, Bytes, became, records

pytestmark = pytest.mark.long

NOT_JSON = Bad("the value is not JSON of the schema")


def not_a(field: str, kind: str) -> Bad:
    return Bad(f"{NOT_JSON}: {field} is not {kind}")


def late(field: str) -> Bad:
    return Bad(f"the value has a time after the year 9999: {field}. JSON numbers are read as seconds")


PLAN = Plan(pipeline="orders", number=1, key="k", plan_id="p")
NOT_UTF8 = Bad("the value is not valid UTF-8")
NOT_AVRO = Bad("the value is not Avro of the schema")
NO_HEADER = Bad("the value does not begin with the five bytes of a schema registry")


@pytest.fixture(autouse=True)
def compiled(spark: SparkSession) -> Iterator[None]:
    """As Spark computes values everywhere: by compiled code."""
    kept = {name: spark.conf.get(name) for name in SMALL_QUERIES}
    for name in SMALL_QUERIES:
        spark.conf.unset(name)
    yield
    for name, value in kept.items():
        spark.conf.set(name, value)


JSON: dict[str, dict[Bytes, Any]] = {
    "id BIGINT": {
        None: None,  # a record without a value is never bad
        b"": NOT_JSON,
        b"null": NOT_JSON,
        b"5": NOT_JSON,
        b'[{"id":1}]': NOT_JSON,
        b'{"id":1': NOT_JSON,
        b'{"id":1,}': NOT_JSON,
        b'{"id":"1"}': not_a("id", "bigint"),
        b'{"id":"x","id":"y","unknown":null}': not_a("id", "bigint"),
        b'{"id":1.0}': not_a("id", "bigint"),
        b'{"id":9223372036854775808}': not_a("id", "bigint"),
        b'{"id":1,"text":"\xff"}': 1,  # nothing of it is read
        b'{"id":1}\xff': 1,
        '{"id":1}'.encode("utf-16-le"): NOT_JSON,
        b' {"id":1}\r\n': 1,
        b'{"id":1,"unknown":2}': 1,
        b'{"ID":1}': None,
        b"{}": None,
        b'{"id":1} and more': 1,  # Spark reads one object and stops
    },
    "text STRING": {
        b'{"text":{"a":[1]}}': '{"a":[1]}',
        b'{"text":"a\nb"}': NOT_JSON,
        b'{"text":"caf\xe9"}': NOT_UTF8,
        b'{"text":{"a":"\xff"}}': NOT_UTF8,
        '{"text":"\ufffd"}'.encode(): "\ufffd",
        b'{"text":"\\ufffd"}': "\ufffd",
    },
    "id INT, `a b` STRUCT<c: ARRAY<STRING>>": {
        b'{"a b":{"c":["\xff"]}}': NOT_UTF8,
        b'{"id":1,"a b":{"c":["x",null]}}': (1, (["x", None],)),
    },
    "price DECIMAL(10,2)": {
        b'{"price":"1.25"}': Decimal("1.25"),
        b'{"price":1.239}': Decimal("1.24"),
        b'{"price":123456789}': not_a("price", "decimal(10,2)"),
        b'{"price":""}': not_a("price", "decimal(10,2)"),
    },
    "at TIMESTAMP": {
        b'{"at":"2026-01-01T00:00:00+02:00"}': datetime(2025, 12, 31, 22),
        b'{"at":"2026-01-01 00:00:00"}': datetime(2026, 1, 1),
        b'{"at":1700000000}': datetime(2023, 11, 14, 22, 13, 20),
        b'{"at":"2026-02-30"}': not_a("at", "timestamp"),
        b'{"at":1700000000000}': late("at"),  # milliseconds
    },
    "a ARRAY<STRUCT<b: TIMESTAMP>>": {
        b'{"a":[{"b":1},null]}': [(datetime(1970, 1, 1, 0, 0, 1),), None],
        b'{"a":[{"b":1},{"b":1700000000000}]}': late("a.b"),
    },
    "day DATE": {b'{"day":"2026-01-01"}': date(2026, 1, 1), b'{"day":"2026-13-01"}': not_a("day", "date")},
    "a STRUCT<b: INT>": {b'{"a":{"b":1}}': (1,), b'{"a":{}}': (None,), b'{"a":{"b":"x"}}': NOT_JSON},
    "a ARRAY<STRUCT<b: INT>>": {b'{"a":[{"b":1},null]}': [(1,), None], b'{"a":[{"b":"x"}]}': NOT_JSON},
    "a MAP<STRING, INT>": {
        b'{"a":{"k":1}}': {"k": 1},
        b'{"a":{"k":"x"}}': not_a("a", "map<string,int>"),
        b'{"a":{"\xff":1}}': NOT_UTF8,
    },
    "a MAP<STRING, STRUCT<b: STRING, at: TIMESTAMP>>": {
        b'{"a":{"k":{"b":"\xff"}}}': NOT_UTF8,
        b'{"a":{"k":{"b":"x"},"l":null}}': {"k": ("x", None), "l": None},
        b'{"a":{"k":{"at":1700000000000}}}': late("a.at"),
    },
}


@pytest.mark.parametrize("schema", JSON)
def test_json(spark: SparkSession, schema: str) -> None:
    assert became(spark, list(JSON[schema]), Rows(value=Json(schema))) == list(JSON[schema].values())


def test_options_of_json(spark: SparkSession) -> None:
    days = Json("day DATE", {"dateFormat": "dd.MM.yyyy"})
    assert became(spark, [b'{"day":"01.02.2026"}'], Rows(value=days)) == [date(2026, 2, 1)]


def test_text_and_bytes(spark: SparkSession) -> None:
    values = [b"", b"caf\xc3\xa9", b"caf\xe9", None]
    assert became(spark, values, Rows(value=Text())) == ["", "café", NOT_UTF8, None]
    assert became(spark, values, Rows()) == values


def test_a_bad_key_makes_the_record_bad(spark: SparkSession) -> None:
    keys = [b'{"id":1}', b"x", None]
    found = became(spark, [b"a", b"b", None], Rows(value=Text(), key=Json("id INT")), keys)
    assert found == [((1,), "a"), Bad("the key is not JSON of the schema"), (None, None)]


# ── Avro ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def whole(number: int) -> bytes:
    """Avro's int and long."""
    number, out = (number << 1) ^ (number >> 63), b""
    while number & ~0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def order(number: int, name: bytes | None = None) -> bytes:
    return whole(number) + (b"" if name is None else whole(len(name)) + name)


def schema(*fields: dict[str, Any], namespace: str = "shop") -> str:
    return json.dumps({"type": "record", "name": "order", "namespace": namespace, "fields": fields})


def with_header(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


ID, NAME = {"name": "id", "type": "long"}, {"name": "name", "type": "string"}
MAYBE = {"name": "id", "type": ["null", "long"], "default": None}
AVRO: list[tuple[str, dict[Bytes, Any]]] = [
    (
        schema(ID, NAME),
        {
            order(1, b"ab"): (1, "ab"),
            None: (None, None),
            b"": NOT_AVRO,
            order(1): NOT_AVRO,  # cut off
            order(1) + whole(100) + b"a": NOT_AVRO,
            b"\xff" * 12: NOT_AVRO,
            order(1, b"ab") + b"x": NOT_AVRO,  # goes on
            with_header(7, order(1, b"ab")): NOT_AVRO,  # the bytes of a registry, which this schema could read
        },
    ),
    (schema(MAYBE), {whole(0): None, whole(1) + whole(7): 7, whole(2): NOT_AVRO}),  # a row of nulls is no bad record
]


@pytest.mark.parametrize(("text", "expected"), AVRO, ids=["order", "null"])
def test_avro(spark: SparkSession, text: str, expected: dict[Bytes, Any]) -> None:
    assert became(spark, list(expected), Rows(value=Avro(text))) == list(expected.values())


def test_avro_of_a_registry_is_read_with_its_writers_schema(spark: SparkSession) -> None:
    newest = schema(ID, {**NAME, "default": "none"})
    registered = RegisteredSchemas(newest, {7: schema(ID, namespace="old"), 900: newest}, "orders-value version 2")
    expected = {
        with_header(7, order(1)): (1, "none"),
        with_header(900, order(1, b"ab")): (1, "ab"),
        with_header(8, order(1)): Bad("the value has schema id 8, which is no record of its subject"),
        with_header(2**32 - 1, b""): Bad("the value has schema id 4294967295, which is no record of its subject"),
        with_header(7, order(1) + b"x"): NOT_AVRO,
        with_header(7, b""): NOT_AVRO,
        b"\0\0\0\7": NO_HEADER,
        b"\1\0\0\0\7" + order(1): NO_HEADER,
        b"": NO_HEADER,
        None: (None, None),
    }
    rows = Rows(value=Avro(registry="registry"))
    assert became(spark, list(expected), rows, schemas={"value": registered}) == list(expected.values())


# ── expressions ───────────────────────────────────────────────────────────────────────────────────────────────────────

ORDER = Json("id BIGINT, kind STRING, at TIMESTAMP")
ORDERS = [b'{"id":1,"kind":"a"}', b'{"id":2,"kind":"b"}', b'{"id":3}', b"x", b'{"kind":"a"}']
NOT_POSITIVE = Bad('the expectation "it\'s > 1" is not met')


def test_a_record_is_bad_or_filtered_or_a_row_in_this_order(spark: SparkSession) -> None:
    rows = Rows(value=ORDER, where="value.kind IN ('a', 'b')", expect={"it's > 1": "value.id > 1"}, select=["value.id"])
    assert became(spark, ORDERS, rows) == [NOT_POSITIVE, 2, FILTERED, NOT_JSON, None]


def test_expressions_see_a_record_of_kafka(spark: SparkSession) -> None:
    select = ["Value.id + 1 AS next", "upper(value.kind) k", "key", "offset", "topic AS t", "timestamp", "value AS v"]
    found = became(spark, ORDERS[:1], Rows(value=ORDER, key=Text(), select=select), [b"k"])
    assert found == [(2, "A", "k", "orders", datetime(2026, 11, 20), (1, "a", None))]


def test_an_expression_means_the_same_whatever_the_clusters_defaults_are(spark: SparkSession) -> None:
    others = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.legacy.json.allowEmptyString.enabled": "true",
        "spark.sql.json.enablePartialResults": "false",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.caseSensitive": "true",
    }
    assert others.keys() == SETTINGS.keys()
    values = [b'{"id":1,"at":"2026-11-21T23:30:00Z"}', b'{"id":""}', b'{"at":"2026-02-30"}']
    for name, value in others.items():
        spark.conf.set(name, value)
    found = became(spark, values, Rows(value=ORDER, select=["VALUE.id", "CAST(value.at AS DATE) AS day"]))
    assert found == [(1, date(2026, 11, 21)), not_a("id", "bigint"), not_a("at", "timestamp")]


def test_a_record_is_decoded_once_however_often_its_columns_are_used(spark: SparkSession) -> None:
    rows = Rows(value=ORDER, key=Json("id INT"), select=["value.*", "value.id + key.id AS s"], where="value.id > 0")
    fates = Fates(records(spark, ORDERS), job_object(Delta("lake.orders"), rows)["rows"])
    for frame in (fates.rows(), fates.bad(), fates.scan()):
        plan: Any = frame._jdf.queryExecution()  # type: ignore[operator]
        assert plan.executedPlan().toString().count("from_json(StructField(") == 2


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (Rows(value=Json("id BIGINTX")), "BIGINTX"),
        (Rows(value=ORDER, select=["value.idd"]), "value.idd|idd"),
        (Rows(value=ORDER, where="value.id +"), "Syntax error"),
        (Rows(value=ORDER, where="value.id"), "BOOLEAN"),
        (Rows(value=ORDER, ensure={"a": "count(*)"}), "'count\\(\\*\\)' is bigint|'a' is bigint"),
        (Rows(value=ORDER, ensure={"a": "id > 0"}), "MISSING_GROUP_BY"),
        (Rows(value=Json("offset INT, id INT")), "the column offset twice"),
        (Rows(value=ORDER, select=["value.id", "1 AS ID"]), "the column id twice"),
        (Rows(value=ORDER, select=["1 AS kafka_batch"]), "the column kafka_batch twice"),
        (Rows(value=Avro(schema({"name": "a", "type": "none"}))), "shop.none|none"),
        (Rows(value=Avro(schema({"name": "a", "type": ["null", "shop.order"]}))), "recursive|Recursive"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_rows_that_spark_does_not_take_are_refused_before_the_attempt_begins(
    spark: SparkSession, rows: Rows, problem: str
) -> None:
    with pytest.raises(InvalidJob, match=problem):
        sink_of(job_object(Delta("/nowhere/orders"), rows)).check(spark, PLAN)
