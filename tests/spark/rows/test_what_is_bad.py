"""What is bad, and what passes: the table of docs/typed-rows.md. No Kafka: the records are made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.driver_jvm import query_execution, with_settings
from airflow_kafka_offsets.spark.kafka_source import KAFKA_COLUMNS
from airflow_kafka_offsets.spark.row_frames import MEANING, REASON, RowFrames, check_definition, row_frames
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition, parse_limit
from airflow_kafka_offsets.values.sql_text import expression_problems
from testbed.spark import SMALL_QUERIES
from tests.spark.rows.conftest import json_rows

NOT_JSON = "the value is not JSON of this schema"
NOT_UTF8 = "the value is no valid UTF-8"
NOT_AVRO = "the value is not Avro of this schema"
NO_HEADER = "the value does not begin with the five bytes of a schema registry"
RAISES = " raises an error on this record"


@pytest.fixture(autouse=True)
def compiled(spark: SparkSession) -> Iterator[None]:
    """What becomes of a value is shown as Spark computes it everywhere: by compiled code."""
    kept = {name: spark.conf.get(name) for name in SMALL_QUERIES}
    for name in SMALL_QUERIES:
        spark.conf.unset(name)
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"
    yield
    for name, value in kept.items():
        spark.conf.set(name, value)


class Bad(str):
    """A reason."""


def frames_of(
    spark: SparkSession,
    values: Sequence[bytes | None],
    definition: RowDefinition,
    keys: Sequence[bytes | None] | None = None,
) -> RowFrames:
    """Of records with the offsets 0, 1, …"""
    at = datetime(2026, 11, 20, tzinfo=UTC)
    records = [
        ((keys or [None] * len(values))[offset], value, "orders", 0, offset, at, 0)
        for offset, value in enumerate(values)
    ]
    check_definition(spark, definition)
    return row_frames(spark.createDataFrame(records, KAFKA_COLUMNS), definition)


def became(
    spark: SparkSession,
    values: Sequence[bytes | None],
    definition: RowDefinition,
    keys: Sequence[bytes | None] | None = None,
) -> list[Any]:
    """Of each record its reason, or the columns that are not the source's. Each is in one frame."""
    frames = frames_of(spark, values, definition, keys)
    names = frames.source_names
    columns = [name for name in frames.rows.columns if name not in names.values()]
    rows = {row[names["offset"]]: tuple(row[column] for column in columns) for row in frames.rows.toLocalIterator()}
    rest = {row["offset"]: Bad(row[REASON]) for row in frames.rest.toLocalIterator()}
    assert sorted([*rows, *rest]) == list(range(len(values)))
    found = {**rows, **rest}
    return [
        found[offset][0] if len(found[offset]) == 1 and not isinstance(found[offset], Bad) else found[offset]
        for offset in range(len(values))
    ]


JSON: dict[str, dict[bytes, Any]] = {
    # no record of the schema
    "id BIGINT": {
        b"": Bad(NOT_JSON),
        b"  ": Bad(NOT_JSON),
        b"null": Bad(NOT_JSON),
        b"5": Bad(NOT_JSON),
        b'""': Bad(NOT_JSON),
        b"[]": Bad(NOT_JSON),
        b'[{"id":1}]': Bad(NOT_JSON),
        b'{"id":1': Bad(NOT_JSON),
        b'{"id":1,}': Bad(NOT_JSON),
        b"{id:1}": Bad(NOT_JSON),
        b'{"id":"1"}': Bad(NOT_JSON),
        b'{"id":1.0}': Bad(NOT_JSON),
        b'{"id":true}': Bad(NOT_JSON),
        b'{"id":{"a":1}}': Bad(NOT_JSON),
        b'{"id":9223372036854775808}': Bad(NOT_JSON),
        # more than one record
        b'{"id":1}x': Bad(NOT_JSON),
        b'{"id":1}{"id":2}': Bad(NOT_JSON),
        b'{"id":1},{"id":2}': Bad(NOT_JSON),
        b'{"id":1}} x': Bad(NOT_JSON),
        b'{"id":1}\x00': Bad(NOT_JSON),
        b'{"id":1}}': Bad(NOT_JSON),
        # ends as an object does, and is none: decoding writes its own field before the last brace
        b"}": Bad(NOT_JSON),
        b'{"a":{"id":1}': Bad(NOT_JSON),
        b'{"a":"b}': Bad(NOT_JSON),
        b'{"a":"b\\}': Bad(NOT_JSON),
        b'{"a}': Bad(NOT_JSON),
        b'{"a":}': Bad(NOT_JSON),
        b"{'a':'b}": Bad(NOT_JSON),
        b'[{"id":1},{"id":2}': Bad(NOT_JSON),
        b'{"id":1},"e":"!"': Bad(NOT_JSON),
        b'{"id":1,"e":"!"} x}': Bad(NOT_JSON),
        b"{} {}": Bad(NOT_JSON),
        # other letters
        b'{"id":1,"text":"\xff"}': Bad(NOT_UTF8),
        b'\xef\xbb\xbf{"id":1}': Bad(NOT_JSON),  # a byte order mark
        '{"id":1}'.encode("utf-16-le"): Bad(NOT_JSON),
        # these pass
        b' {"id":1}\r\n': 1,
        b"{'id':1}": 1,
        b'{"id":1,"unknown":"is passed over"}': 1,
        b'{"id":1,"id":2}': 2,
        b"{}": None,
        b"\t{ \n} \r\n": None,
        b'{"id":null}': None,
        b'{"id":1,"e":"u"}': 1,  # as the field is called that decoding writes
        b'{"id":1,"e":{"a":[1]}}': 1,
        b'{"ID":1}': None,
    },
    "text STRING": {
        b'{"text":5}': "5",
        b'{"text":{"a":[1]}}': '{"a":[1]}',
        b'{"text":"a\nb"}': Bad(NOT_JSON),  # JSON has control characters escaped
    },
    "price DECIMAL(10,2)": {
        b'{"price":99999999.99}': Decimal("99999999.99"),
        b'{"price":"1.25"}': Decimal("1.25"),
        b'{"price":1.239}': Decimal("1.24"),  # rounded
        b'{"price":99999999.999}': Bad(NOT_JSON),
        b'{"price":123456789}': Bad(NOT_JSON),
        b'{"price":"dear"}': Bad(NOT_JSON),
    },
    "price DOUBLE": {
        b'{"price":1e400}': float("inf"),
        b'{"price":"Infinity"}': float("inf"),
        b'{"price":1,"more":%s}' % (b"9" * 1_001): Bad(NOT_JSON),
        b'{"price":1,"more":%s}' % (b"[" * 1_001 + b"]" * 1_001): Bad(NOT_JSON),
    },
    "at TIMESTAMP": {
        b'{"at":"2026-01-01T00:00:00+02:00"}': datetime(2025, 12, 31, 22),
        b'{"at":"2026-01-01 00:00:00"}': datetime(2026, 1, 1),  # UTC
        b'{"at":"2026-01-01"}': datetime(2026, 1, 1),
        b'{"at":1700000000}': datetime(2023, 11, 14, 22, 13, 20),  # seconds
        b'{"at":"2026-01-01T25:00:00"}': Bad(NOT_JSON),
        b'{"at":"2026-02-30"}': Bad(NOT_JSON),
        b'{"at":"31/12/2026"}': Bad(NOT_JSON),
        b'{"at":"now"}': Bad(NOT_JSON),
    },
    "day DATE": {
        b'{"day":"2026-01-01T10:00:00Z"}': date(2026, 1, 1),
        b'{"day":"2026-13-01"}': Bad(NOT_JSON),
        b'{"day":20000}': Bad(NOT_JSON),
    },
    "a STRUCT<b: INT NOT NULL>": {
        b'{"a":{"b":1}}': (1,),
        b'{"a":null}': None,
        b'{"a":{}}': Bad("value.a.b is null, and the schema has it as NOT NULL"),
        b'{"a":{"b":"x"}}': Bad(NOT_JSON),
    },
    "a ARRAY<STRUCT<b: INT NOT NULL>>": {
        b'{"a":[{"b":1},null]}': [(1,), None],
        b'{"a":[{"b":1},{}]}': Bad("value.a[].b is null, and the schema has it as NOT NULL"),
        b'{"a":["x"]}': Bad(NOT_JSON),
        b'{"a":{"b":1}}': Bad(NOT_JSON),
    },
    "a MAP<STRING, STRUCT<b: INT NOT NULL>> NOT NULL": {
        b'{"a":{"k":{"b":1}}}': {"k": (1,)},
        b'{"a":{"k":{}}}': Bad("value.a[].b is null, and the schema has it as NOT NULL"),
        b"{}": Bad("value.a is null, and the schema has it as NOT NULL"),
    },
    "`a.b` INT, `my column` INT NOT NULL": {
        b'{"a.b":1,"my column":2}': (1, 2),
        b'{"a.b":1}': Bad("value.my column is null, and the schema has it as NOT NULL"),
    },
    # names that decoding itself uses
    "E INT, e_ INT, kafka_corrupt INT, reason INT, kafka_reason INT, topic INT": {
        b'{"E":1,"e_":2,"kafka_corrupt":3,"reason":4,"kafka_reason":5,"topic":6}': (1, 2, 3, 4, 5, 6),
        b'{"e_":"x"}': Bad(NOT_JSON),
    },
}


@pytest.mark.parametrize("schema", JSON)
def test_json(spark: SparkSession, schema: str) -> None:
    assert became(spark, list(JSON[schema]), json_rows(schema)) == list(JSON[schema].values())


def test_text(spark: SparkSession) -> None:
    values = [b"", b"caf\xc3\xa9", b"caf\xe9", None]
    assert became(spark, values, RowDefinition(FieldFormat("string"))) == ["", "café", Bad(NOT_UTF8), None]


def test_a_key_is_decoded_as_a_value_is_and_a_bad_one_makes_the_record_bad(spark: SparkSession) -> None:
    definition = RowDefinition(FieldFormat("string"), FieldFormat("json", "id INT"))
    keys = [b'{"id":1}', b"x", b"", None, b'{"id":5}']
    bad = Bad("the key is not JSON of this schema")
    found = became(spark, [b"a", b"b", b"c", b"d", None], definition, keys)
    assert found == [((1,), "a"), bad, bad, (None, "d"), ((5,), None)]


def whole(number: int) -> bytes:
    """Avro's int and long."""
    number, out = (number << 1) ^ (number >> 63), b""
    while number & ~0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def order(number: int, name: bytes | None = None) -> bytes:
    return whole(number) + (b"" if name is None else whole(len(name)) + name)


def avro(*fields: dict[str, Any], namespace: str = "shop") -> str:
    return json.dumps({"type": "record", "name": "order", "namespace": namespace, "fields": fields})


ID, NAME = {"name": "id", "type": "long"}, {"name": "name", "type": "string"}
STATE = {"name": "state", "type": {"type": "enum", "name": "states", "symbols": ["open", "closed"]}}
MAYBE = {"name": "maybe", "type": ["null", "long"], "default": None}
AVRO: list[tuple[str, dict[bytes | None, Any]]] = [
    (
        avro(ID, NAME),
        {
            order(1, b"ab"): (1, "ab"),
            order(1): Bad(NOT_AVRO),  # cut off
            order(1) + whole(100) + b"a": Bad(NOT_AVRO),
            order(1) + whole(-5): Bad(NOT_AVRO),
            b"": Bad(NOT_AVRO),
            b"\xff" * 12: Bad(NOT_AVRO),
            order(1, b"ab") + b"x": Bad(NOT_AVRO),  # goes on
            order(1, b"ab") * 2: Bad(NOT_AVRO),
            order(1, b"ab") + bytes(8): Bad(NOT_AVRO),
            None: (None, None),
        },
    ),
    (
        avro(STATE, MAYBE, {"name": "more", "type": {"type": "array", "items": "int"}}),
        {
            whole(1) + whole(1) + whole(7) + whole(2) + whole(5) + whole(6) + whole(0): ("closed", 7, [5, 6]),
            whole(2) + whole(0) + whole(0): Bad(NOT_AVRO),  # no such state
            whole(0) + whole(2) + whole(0): Bad(NOT_AVRO),  # no such branch
            whole(0) + whole(0) + whole(2**40): Bad(NOT_AVRO),
        },
    ),
]


@pytest.mark.parametrize(("schema", "expected"), AVRO, ids=["order", "types"])
def test_avro(spark: SparkSession, schema: str, expected: dict[bytes | None, Any]) -> None:
    assert became(spark, list(expected), RowDefinition(FieldFormat("avro", schema))) == list(expected.values())


def of_registry(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


def test_avro_of_a_registry(spark: SparkSession) -> None:
    newest = avro(ID, {**NAME, "default": "none"})
    definition = RowDefinition(FieldFormat("avro", newest, {7: avro(ID, namespace="old"), 900: newest}))
    expected = {
        of_registry(7, order(1)): (1, "none"),
        of_registry(900, order(1, b"ab")): (1, "ab"),
        of_registry(8, order(1)): Bad("the value has the schema id 8, which no version of the subjects has"),
        of_registry(2**32 - 1, b""): Bad(
            "the value has the schema id 4294967295, which no version of the subjects has"
        ),
        of_registry(7, order(1) + b"x"): Bad(NOT_AVRO),
        of_registry(7, b""): Bad(NOT_AVRO),
        b"\0\0\0\7": Bad(NO_HEADER),
        b"\1\0\0\0\7" + order(1): Bad(NO_HEADER),
        b"": Bad(NO_HEADER),
        order(1): Bad(NO_HEADER),
    }
    assert became(spark, list(expected), definition) == list(expected.values())


def test_json_of_a_registry(spark: SparkSession) -> None:
    """The header of id 200 has a byte that is no UTF-8; the text behind it is looked at."""
    expected = {
        of_registry(200, b'{"id":1}'): 1,
        of_registry(200, b'{"id":1}x'): Bad(NOT_JSON),
        of_registry(200, b'{"id":1,"text":"\xff"}'): Bad(NOT_UTF8),
        of_registry(200, b""): Bad(NOT_JSON),
        of_registry(7, b'{"id":1}'): Bad("the value has the schema id 7, which no version of the subjects has"),
        b'{"id":1}': Bad(NO_HEADER),
    }
    definition = RowDefinition(FieldFormat("json", "id BIGINT", {200: "{}"}))
    assert became(spark, list(expected), definition) == list(expected.values())


# ── expressions ───────────────────────────────────────────────────────────────────────────────────────────────────────

KIND = "kind STRING, n INT"
KINDS = [b'{"kind":"1","n":1}', b'{"kind":"","n":0}', b'{"kind":"raised","n":2147483647}', None]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # what Spark could say without the value: that it is not null, or as null as its argument
        ("100 DIV length(coalesce(value.kind, '')) AS x", [100, Bad(RAISES), 16, Bad(RAISES)]),
        ("value.n + 1 AS x", [2, 1, Bad(RAISES), None]),
        ("map('a', 1 DIV value.n) AS x", [{"a": 1}, Bad(RAISES), {"a": 0}, {"a": None}]),
        ("array(1 DIV value.n) AS x", [[1], Bad(RAISES), [0], [None]]),
        ("named_struct('a', 1 DIV value.n) AS x", [(1,), Bad(RAISES), (0,), (None,)]),
        ("transform(array(value.n), n -> 1 DIV n) AS x", [[1], Bad(RAISES), [0], [None]]),
        ("CAST(value.kind AS INT) AS x", [1, Bad(RAISES), Bad(RAISES), None]),
        ("raise_error('no') AS x", [Bad(RAISES)] * 4),
        # these raise on no record
        ("lower(value.kind) AS x", ["1", "", "raised", None]),
        ("IF(value.n = 0, 0, 1 DIV value.n) AS x", [1, 0, 0, None]),
        ("try_cast(value.kind AS INT) AS x", [1, None, None, None]),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_record_on_which_a_column_raises_is_bad_and_no_other(
    spark: SparkSession, expression: str, expected: list[Any]
) -> None:
    reasons = [Bad(expression + found) if isinstance(found, Bad) else found for found in expected]
    assert became(spark, KINDS, json_rows(KIND, select=[expression])) == reasons


def test_a_column_that_raises_makes_only_its_own_records_bad_beside_one_that_does_not(spark: SparkSession) -> None:
    found = became(spark, KINDS, json_rows(KIND, select=["1 DIV value.n AS one", "1 DIV value.n + value.n AS two"]))
    assert found == [(1, 2), Bad("1 DIV value.n AS one" + RAISES), (0, 2147483647), (None, None)]


def test_a_condition_that_raises_is_no_condition_that_is_false(spark: SparkSession) -> None:
    found = became(spark, KINDS, json_rows(KIND, where="1 DIV value.n > 0"))
    assert found == [("1", 1), Bad("where" + RAISES), Bad(""), Bad("")]
    found = became(spark, KINDS, json_rows(KIND, expect={"it's": "1 DIV value.n > 0"}))
    assert found[1:] == [Bad('expect "it\'s"' + RAISES), Bad('the expectation "it\'s" is not met'), (None, None)]


def test_an_expression_means_the_same_in_a_session_with_other_settings(spark: SparkSession) -> None:
    """A job of one's own, on a cluster whose ``spark-defaults.conf`` has them; the rest of the job keeps them."""
    select = [
        "CAST(value.kind AS INT) AS x",
        "CAST(value.n + 1 AS INT) AS y",
        "value.at",
        "CAST(value.at AS DATE) AS d",
    ]
    definition = json_rows(f"{KIND}, at TIMESTAMP", select=[*select, "TIMESTAMP '2026-01-01 00:00:00' AS t"])
    values = [*KINDS[:3], b'{"kind":"1","n":1,"at":"2026-11-21T23:30:00Z"}', b'{"kind":"1","n":""}']
    with with_settings(spark, MEANING):
        expected = became(spark, values, definition)
    assert [type(each).__name__ for each in expected] == ["tuple", "Bad", "Bad", "tuple", "Bad"]
    others = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}
    with with_settings(spark, others):
        found = became(spark, values, definition)
        assert {name: spark.conf.get(name) for name in others} == others
    assert found == expected
    with with_settings(spark, {"spark.sql.legacy.json.allowEmptyString.enabled": "true"}):
        assert became(spark, values, definition) == expected


def test_a_zero_byte_that_postgresql_would_not_take_is_bad_by_the_pages_expectation(spark: SparkSession) -> None:
    expect = {"no zero byte": "NOT contains(value.kind, char(0))"}
    definition = json_rows(KIND, expect=expect, select=["replace(value.kind, char(0), '') AS x"])
    found = became(spark, [b'{"kind":"a\\u0000b"}', b'{"kind":"ab"}', b'{"n":1}'], definition)
    assert found == [Bad("the expectation 'no zero byte' is not met"), "ab", None]
    assert became(spark, [b'{"kind":"a\\u0000b"}'], json_rows(KIND, select=definition.select)) == ["ab"]


def test_a_map_without_the_key_and_columns_with_blanks_and_dots_raise_on_no_record(spark: SparkSession) -> None:
    select = ["value.m.absent AS absent", "value.m.a", "`value`.`b c`", "value.`d.e` AS `f g`"]
    definition = json_rows("m MAP<STRING, INT>, `b c` INT, `d.e` INT", select=select)
    assert became(spark, [b'{"m":{"a":1},"b c":2,"d.e":3}', None], definition) == [(None, 1, 2, 3), (None,) * 4]


def test_all_columns_are_those_of_the_source_and_none_of_ours(spark: SparkSession) -> None:
    frames = frames_of(spark, [b'{"kind":"1"}'], json_rows(KIND, select=["*"]))
    ours = {"kafka_topic", "kafka_partition", "kafka_offset"}
    assert set(frames.rows.columns) == {name.split()[0] for name in KAFKA_COLUMNS.split(", ")} | ours


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        (json_rows("BIGINT"), "a type without a column"),
        (json_rows("ARRAY<INT>"), "a type without a column"),
        (json_rows("name VARCHAR(50)"), "a schema that Spark does not read: .*varchar"),
        (json_rows("id INT, ID INT"), "the column id more than once"),
        (json_rows("kafka_batch STRING"), "the column kafka_batch, which is the sink's own"),
        (json_rows("offset INT, kafka_offset INT"), "the column kafka_offset more than once"),
        (json_rows(KIND, where="timestamp > 'today'"), "another value each time"),
        (json_rows(KIND, select=["to_date('yesterday') AS d"]), "another value each time"),
        (json_rows(KIND, select=["kafka_raw_value"]), "kafka_raw_value"),
        (json_rows(KIND, select=["kafka_reason"]), "kafka_reason"),
        (RowDefinition(FieldFormat("avro", avro({"name": "a", "type": "none"}))), "Undefined schema: shop.none"),
        (
            RowDefinition(FieldFormat("avro", avro({"name": "a", "type": ["null", "shop.order"]}))),
            "recursive",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_definition_that_cannot_be_used_is_refused(
    spark: SparkSession, definition: RowDefinition, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        check_definition(spark, definition)


def test_a_word_that_spark_could_take_for_a_day_is_a_word_where_words_are_compared(spark: SparkSession) -> None:
    assert expression_problems("where", "timestamp > DATE 'today'")
    definition = json_rows(KIND, where="value.kind = 'today'")
    assert expression_problems("where", str(definition.where)) == []
    assert became(spark, [b'{"kind":"today"}'], definition) == [("today", None)]


def test_a_record_is_decoded_once_however_often_its_columns_are_used(spark: SparkSession) -> None:
    definition = json_rows(
        KIND,
        key=FieldFormat("json", "id INT"),
        select=["value.*", "upper(value.kind) AS k", "key.id"],
        where="value.n > 0 AND key.id > 0",
        expect={"small": "value.n < 5"},
    )
    frames = frames_of(spark, KINDS[:1], definition)
    for frame in (frames.rows, frames.rest):
        plan = query_execution(frame).executedPlan().toString()
        assert plan.count("from_json(") == 2  # the value and the key
        assert plan.index("Filter") < plan.index("from_json(")  # which reads upwards: the filter comes after


def test_a_share_is_exact() -> None:
    assert [parse_limit("0.7%").allowed(count) for count in (11_000, 21_000, 100)] == [77, 147, 0]
    assert str(parse_limit("0.70 %")) == "0.70%"
