"""The output against the log: what is missing, there twice, or of no batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.log.audit import BatchRecord
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.output_audit import (
    ExpectedRows,
    FoundRows,
    Place,
    compare,
    expected_of,
    missing_ranges,
)
from airflow_kafka_offsets.log.verify_reads import Attempt, PartitionRead
from tests.builders import tp
from tests.laws.examples import of_examples
from tests.log.test_audit import batch
from tests.stores.builders import key_of, plan_of, report_of

SEVEN = key_of(7)
HERE = Place(SEVEN, 0, "orders", 0)
KNOWN = {key_of(6): True, SEVEN: True, key_of(8): False}
ALL = ExpectedRows(60, 70, 10)
MERGED = ExpectedRows(60, 70, None, merged=True)


def found(rows: int, offsets: int, first: int = 60, last: int = 69) -> FoundRows:
    return FoundRows(rows, offsets, first, last)


@pytest.mark.parametrize(
    ("expected", "there", "kinds"),
    [
        pytest.param(ALL, found(10, 10), [], id="all, once"),
        pytest.param(ALL, None, [("missing", 10)], id="nothing"),
        pytest.param(ALL, found(9, 9), [("missing", 1)], id="one is missing"),
        pytest.param(ALL, found(12, 10), [("twice", 2)], id="two rows are there twice"),
        pytest.param(ALL, found(10, 9), [("twice", 1), ("missing", 1)], id="one instead of another"),
        pytest.param(ALL, found(10, 10, last=70), [("of no batch", 10)], id="an offset of another batch"),
        pytest.param(replace(ALL, rows=7), found(7, 7), [], id="three are no rows, by the report"),
        pytest.param(replace(ALL, rows=7), found(8, 8), [("of no batch", 1)], id="more than the report has counted"),
        pytest.param(replace(ALL, rows=0), None, [], id="all were left out"),
        pytest.param(replace(ALL, rows=None), found(9, 9), [("not judged", 1)], id="nobody has reported"),
        pytest.param(replace(ALL, rows=None), found(11, 10), [("twice", 1)], id="twice, without a report"),
        pytest.param(MERGED, found(2, 2), [], id="merged: later records have taken the other rows' place"),
        pytest.param(MERGED, None, [], id="merged: all of them"),
        pytest.param(MERGED, found(3, 2), [("twice", 1)], id="merged: a record has two rows"),
        pytest.param(MERGED, found(2, 2, last=70), [("of no batch", 2)], id="merged: an offset of another batch"),
    ],
)  # fmt: skip
def test_a_place_is_held_against_its_report(
    expected: ExpectedRows, there: FoundRows | None, kinds: list[tuple[str, int]]
) -> None:
    findings = compare({HERE: expected}, {} if there is None else {HERE: there}, KNOWN)
    assert [(one.kind, one.count) for one in findings] == kinds


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        pytest.param(Place(key_of(99), 0, "orders", 0), "of no batch", id="no such batch"),
        pytest.param(Place(SEVEN, 1, "orders", 0), "of no batch", id="no such split"),
        pytest.param(Place(SEVEN, 0, "orders", 5), "of no batch", id="no such partition"),
        pytest.param(Place("20261120T100000Z--x", 0, "orders", 0), "of no batch", id="a window of nobody"),
        pytest.param(Place(key_of(8), 0, "orders", 0), "not judged", id="not committed yet"),
        pytest.param(Place(key_of(5), 0, "orders", 0), "not judged", id="cleaned away"),
    ],
)
def test_rows_that_the_log_does_not_expect(place: Place, kind: str) -> None:
    [finding] = compare({}, {place: found(3, 3)}, KNOWN)
    assert (finding.kind, finding.count, finding.is_wrong) == (kind, 3, kind != "not judged")


def test_what_must_be_there_is_what_the_report_has_counted() -> None:
    record, plan = batch(7), plan_of(7)
    assert expected_of(record) == {HERE: ALL}

    def reported(*attempts: Attempt) -> Any:
        return expected_of(replace(record, attempts={0: list(attempts)}))[HERE].rows

    typed = PartitionRead(10, 10, 60, 69, set_aside=2, left_out=1)
    assert reported(Attempt(1, report_of(plan, 0, 1, partitions={tp(): typed}))) == 9, "with the bad records"
    assert reported(Attempt(1, report_of(plan, 0, 1, partitions={}))) == 0, "compaction has left nothing"
    assert reported() is None
    assert reported(Attempt(2)) is None, "it may be half written"
    merged = replace(record, attempts={0: [Attempt(1, report_of(plan, 0, 1, proof="merged"))]})
    assert expected_of(merged) == {HERE: MERGED}
    assert expected_of(BatchRecord((Planned(plan),), {})) == {}, "nothing of a batch that is not committed"


@of_examples(200)
@given(st.integers(0, 200), st.integers(0, 150), st.data())
def test_the_missing_ranges_and_what_is_there_make_the_whole(start: int, size: int, data: Any) -> None:
    end = start + size
    there = data.draw(st.sets(st.integers(max(0, start - 70), end + 70)))
    words: dict[int, int] = {}
    for offset in there:
        words[offset // 64] = words.get(offset // 64, 0) | 1 << offset % 64
    ranges = missing_ranges(words.items(), start, end)
    missing = [offset for first, last in ranges for offset in range(first, last)]
    assert missing == sorted(set(range(start, end)) - there)
    assert all(first < last for first, last in ranges)
