"""Values → columns, a table; and what is said of each guess."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.values.json_sample import JsonSample


def seen(*values: str | bytes | None) -> JsonSample:
    sample = JsonSample()
    for number, value in enumerate(values):
        sample.add(value.encode() if isinstance(value, str) else value, f"orders[0]: offset {number}")
    return sample


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-9223372036854775808"], "BIGINT"),
        (["1.5", "1e3"], "DOUBLE"),
        (["1", "1.5"], "DOUBLE"),
        (["true", "false"], "BOOLEAN"),
        (['"x"', '""'], "STRING"),
        (['"2026-11-20T10:00:00Z"', '"2026-11-20 10:00:00.123456+01:00"', '"2026-11-20T10:00:00"'], "TIMESTAMP"),
        (['"2026-11-20T10:00:00Z"', '"soon"'], "STRING"),
        (['"2026-11-20"'], "STRING"),
        (['"2026-13-45T10:00:00Z"'], "STRING"),
        (["null", "1"], "BIGINT"),
        (['{"a": 1}', '{"b": [true]}'], "STRUCT<a: BIGINT, b: ARRAY<BOOLEAN>>"),
        (['[{"sku": "a", "n": 1}, {"n": 2.5}]', "[]"], "ARRAY<STRUCT<sku: STRING, n: DOUBLE>>"),
        (['[[1], [], [null]]'], "ARRAY<ARRAY<BIGINT>>"),
        (['{"a b": 1, "c`d": 2}'], "STRUCT<`a b`: BIGINT, `c``d`: BIGINT>"),
    ],
)  # fmt: skip
def test_a_type_reads_all_that_was_seen_and_then_nothing_is_said(values: list[str], kind: str) -> None:
    sample = seen(*(f'{{"it": {value}}}' for value in values))
    assert (sample.ddl, sample.notes) == (f"it {kind}", [])


@pytest.mark.parametrize(
    ("values", "kind", "note"),
    [
        (["1", "1", '"x"'], "STRING", "it has several types (BIGINT in 2, STRING in 1)"),
        (["true", "1.5"], "STRING", "it has several types"),
        (['{"a": 1}', "[1]"], "STRING", "it has several types"),
        (['{"a": 1}', '{"a": "x"}'], "STRUCT<a: STRING>", "it.a has several types"),
        (['[1, "x"]'], "ARRAY<STRING>", "it[] has several types"),
        (["9223372036854775808"], "STRING", "it is a number beyond BIGINT"),
        (["1", "9223372036854775808"], "STRING", "it has several types"),
        (["null"], "STRING", "it is always null"),
        (["[]"], "ARRAY<STRING>", "it[] is always null or has no element"),
        (["{}"], "STRING", "it has no field"),
        (['{"a": 1, "A": 2}'], "STRUCT<a: BIGINT>", "'it.A' is left out"),
        (['{"a": 1, "": 2}'], "STRUCT<a: BIGINT>", "'it.' is left out"),
    ],
)
def test_where_a_type_is_a_guess_it_says_so(values: list[str], kind: str, note: str) -> None:
    sample = seen(*(f'{{"it": {value}}}' for value in values))
    assert sample.ddl == f"it {kind}"
    assert len(sample.notes) == 1
    assert sample.notes[0].startswith(note)


def test_a_field_that_some_values_lack_is_a_plain_column_and_says_in_how_many_it_is() -> None:
    sample = seen('{"id": 1}', '{"id": 2, "discount": 3}', '{"id": null}')
    assert sample.columns == [("id", "BIGINT", 2), ("discount", "BIGINT", 1)]
    assert (sample.ddl, sample.notes) == ("id BIGINT,\ndiscount BIGINT", [])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"no json", "is no JSON"),
        (b"", "is no JSON"),
        (b"\xff", "is no UTF-8"),
        (b"17", "is JSON, and no object"),
        (b'{"id": NaN}', "is no JSON"),
        (b'{"id": 1, "id": 2}', "is no JSON: names 'id' twice"),
        (b"[" * 100_000, "is no JSON: it is nested too deep"),
        (b"\0\0", "is no JSON"),
    ],
)
def test_a_value_that_is_no_json_object_is_counted_and_the_first_is_shown(value: bytes, why: str) -> None:
    sample = seen('{"id": 1}', None, value, b"another")
    assert (sample.objects, sample.tombstones, sample.others) == (1, 1, 2)
    assert sample.first_other is not None
    where, shown, reason = sample.first_other
    assert (where, shown) == ("orders[0]: offset 2", value)
    assert reason.startswith(why)
    assert sample.ddl == "id BIGINT"


def test_values_of_a_schema_registry_are_counted_by_id_and_json_behind_them_is_read() -> None:
    sample = seen(b'\0\0\0\0\7{"id": 1}', b"\0\0\0\1\0\2\4avro", b'\0\0\0\0\7{"at": "x"}')
    assert dict(sample.schema_ids) == {7: 2, 256: 1}
    assert (sample.objects, sample.others) == (2, 0)
    assert sample.ddl == "id BIGINT,\nat STRING"


def test_json_that_is_nested_very_deep_ends_as_text() -> None:
    depth = 400
    sample = seen('{"a":' * depth + "1" + "}" * depth)
    assert sample.ddl.count("STRUCT<") < 100
    assert "a: STRING>" in sample.ddl
