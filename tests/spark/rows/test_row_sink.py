"""Records → rows, bad records, and records that are left out: each offset is in exactly one of the three."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from airflow_kafka_offsets.errors import BadRecords, InvalidRequest, ReadNotVerified
from airflow_kafka_offsets.log.read_reports import deciding_attempts
from airflow_kafka_offsets.log.verify_reads import fates_of
from airflow_kafka_offsets.spark import Batch, decode, for_each_batch
from airflow_kafka_offsets.spark.sinks.sink_arguments import sink_of
from airflow_kafka_offsets.spark.sinks.sink_contract import Merged
from airflow_kafka_offsets.stores.objects import create_object
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition
from tests.spark.conftest import Plans, require_read
from tests.spark.rows.conftest import Rows, json_rows, order
from tests.stores.builders import as_it_is_now

GOOD_AND_BAD = [order(0), b"no json", order(2, "12.50"), b'{"id": "x"}', None, order(5, 7)]


def test_json_becomes_columns_of_its_schema(rows: Rows, plans: Plans, produced: Any) -> None:
    topic = produced([order(0, "1.25"), order(1, 3, more="is passed over")])
    batch = plans.batch({(topic, 0): (0, 2)})
    rows.do(batch, json_rows())
    require_read(batch)
    assert rows.table(rows.good, "id", "amount", "kind", "offset") == [
        (0, Decimal("1.25"), "order", 0),
        (1, Decimal("3.00"), "order", 1),
    ]
    assert rows.report(batch).proof == "rows"


def test_each_record_is_a_row_or_set_aside_and_the_report_counts_both(rows: Rows, plans: Plans, produced: Any) -> None:
    batch = plans.batch({(produced(GOOD_AND_BAD), 0): (0, 6)})
    rows.do(batch, json_rows(), rows.bad)
    require_read(batch)
    assert rows.offsets(rows.good) == [0, 2, 4, 5]
    assert rows.table(rows.bad, "offset", "key", "value", "reason", "kafka_batch") == [
        (1, b"1", b"no json", "the value is not JSON of this schema", batch.log.plan.batch.key),
        (3, b"3", b'{"id": "x"}', "the value is not JSON of this schema", batch.log.plan.batch.key),
    ]
    report = rows.report(batch)
    [read] = report.partitions.values()
    assert (read.row_count, read.offset_count, read.set_aside, read.left_out) == (6, 6, 2, 0)
    own = {"topic": "string", "partition": "int", "offset": "bigint", "kafka_batch": "string", "kafka_split": "int"}
    good, bad = (report.columns[words["path"]] for words in (rows.good, rows.bad))
    assert good == {**own, "id": "bigint", "amount": "decimal(10,2)", "kind": "string"}
    assert bad.items() >= {**own, "reason": "string", "value": "binary"}.items()


def test_a_bad_record_has_its_headers_and_its_time(rows: Rows, plans: Plans, produced: Any) -> None:
    batch = plans.batch({(produced([b"no json"]), 0): (0, 1)})
    rows.do(batch, json_rows(), rows.bad)
    [(headers, timestamp)] = rows.table(rows.bad, "headers", "timestamp")
    assert [(header.key, bytes(header.value)) for header in headers] == [("n", b"0")]
    assert timestamp is not None


def test_one_bad_record_fails_the_batch_by_default_and_the_error_shows_it(
    rows: Rows, plans: Plans, produced: Any
) -> None:
    topic = produced(GOOD_AND_BAD)
    batch = plans.batch({(topic, 0): (0, 6)})
    with pytest.raises(BadRecords) as refused:
        rows.do(batch, json_rows())
    message = str(refused.value)
    assert "2 records of batch" in message
    assert message.count("Nothing is committed") == 1
    assert f"{topic}[0]: offset 1: the value is not JSON of this schema: 'no json'" in message
    assert f"{topic}[0]: offset 3" in message
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    assert rows.offsets(rows.good) == []  # files are counted before they are published


@pytest.mark.parametrize(("limit", "is_refused"), [(1, True), (2, False), ("30%", True), ("34%", False)], ids=str)
def test_the_limit_is_a_number_of_records_or_a_share_of_the_batch(
    rows: Rows, plans: Plans, produced: Any, limit: object, is_refused: bool
) -> None:
    batch = plans.batch({(produced(GOOD_AND_BAD), 0): (0, 6)})
    if is_refused:
        with pytest.raises(BadRecords):
            rows.do(batch, json_rows(), rows.bad, limit)
        assert rows.offsets(rows.bad) == []
    else:
        rows.do(batch, json_rows(), rows.bad, limit)
        require_read(batch)


def test_a_mended_schema_moves_the_bad_records_to_where_they_belong(rows: Rows, plans: Plans, produced: Any) -> None:
    batch = plans.batch({(produced([order(0), b'{"id": "7"}', order(2)]), 0): (0, 3)})
    rows.do(batch, json_rows(), rows.bad)
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0, 2], [1])
    rows.do(batch, json_rows("id STRING"), rows.bad)
    require_read(batch)
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0, 1, 2], [])


def test_bad_records_leave_the_place_where_an_earlier_attempt_has_put_them(
    rows: Rows, plans: Plans, produced: Any
) -> None:
    """Whatever the DAG says now: another place, or none."""
    elsewhere = {"format": "parquet", "path": f"{rows.folder}/elsewhere"}
    batch = plans.batch({(produced([order(0), b"no json", order(2)]), 0): (0, 3)})
    rows.do(batch, json_rows(), elsewhere)
    assert rows.offsets(elsewhere) == [1]
    rows.do(batch, json_rows(), rows.bad)
    assert (rows.offsets(elsewhere), rows.offsets(rows.bad)) == ([], [1])
    rows.do(batch, RowDefinition(value=FieldFormat("string")))
    require_read(batch)
    assert (rows.offsets(rows.good), rows.offsets(elsewhere), rows.offsets(rows.bad)) == ([0, 1, 2], [], [])


def test_where_leaves_records_out_and_counts_them(rows: Rows, plans: Plans, produced: Any) -> None:
    batch = plans.batch({(produced([order(0), order(1, kind="refund"), b"no json", None]), 0): (0, 4)})
    rows.do(batch, json_rows(where="value.kind = 'order'"), rows.bad)
    require_read(batch)
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0], [2])
    [read] = rows.report(batch).partitions.values()
    assert (read.set_aside, read.left_out) == (1, 2)  # of a tombstone the condition is null
    fates = fates_of(deciding_attempts(as_it_is_now(batch)))
    assert (fates.set_aside, fates.left_out) == (1, 2)


def test_tombstones_are_rows_or_left_out(rows: Rows, plans: Plans, produced: Any) -> None:
    batch = plans.batch({(produced([order(0), None]), 0): (0, 2)})
    rows.do(batch, json_rows("id BIGINT NOT NULL"))
    assert rows.table(rows.good, "offset", "id") == [(0, 0), (1, None)]
    rows.do(batch, json_rows("id BIGINT NOT NULL", tombstones="leave-out"))
    require_read(batch)
    assert rows.offsets(rows.good) == [0]


def test_an_expectation_fails_on_false_and_passes_on_null(rows: Rows, plans: Plans, produced: Any) -> None:
    batch = plans.batch({(produced([order(0, 5), order(1, -5), order(2, None)]), 0): (0, 3)})
    rows.do(batch, json_rows(expect={"amount is positive": "value.amount > 0"}), rows.bad)
    require_read(batch)
    assert rows.offsets(rows.good) == [0, 2]
    assert rows.table(rows.bad, "offset", "reason") == [(1, "the expectation 'amount is positive' is not met")]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"select": ["id2 + 0 AS one", "CAST(value.kind AS INT) AS number"]}, None),
        ({"select": ["value.id", "CAST(value.kind AS INT) AS number"]}, "CAST(value.kind AS INT) AS number raises"),
        ({"where": "CAST(value.kind AS INT) > 0"}, "where raises"),
        ({"expect": {"kind is a number": "CAST(value.kind AS INT) > 0"}}, "'kind is a number' raises"),
    ],
    ids=["no such column", "select", "where", "expect"],
)
def test_a_record_on_which_an_expression_raises_is_bad(
    rows: Rows, plans: Plans, produced: Any, more: dict[str, Any], reason: str | None
) -> None:
    batch = plans.batch({(produced([order(0, kind="1"), order(1, kind="x"), order(2, kind="3")]), 0): (0, 3)})
    if reason is None:
        with pytest.raises(InvalidRequest, match="id2"):
            rows.do(batch, json_rows(**more), rows.bad)
        return
    rows.do(batch, json_rows(**more), rows.bad)
    require_read(batch)
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0, 2], [1])
    [(found,)] = rows.table(rows.bad, "reason")
    assert reason in found


def test_select_names_the_columns_and_the_source_keeps_its_own(rows: Rows, plans: Plans, produced: Any) -> None:
    batch = plans.batch({(produced([b'{"id": 1, "offset": 9}']), 0): (0, 1)})
    definition = json_rows(
        "id BIGINT, offset BIGINT", select=["value.*", "CAST(key AS STRING) AS order_key", "timestamp AS kafka_time"]
    )
    rows.do(batch, definition)
    require_read(batch)
    frame = rows.spark.read.parquet(rows.good["path"])
    assert set(frame.columns) == {
        *("id", "offset", "order_key", "kafka_time", "topic", "partition", "kafka_offset", "kafka_batch", "kafka_split")
    }
    assert [(row["offset"], row["kafka_offset"]) for row in frame.collect()] == [(9, 0)]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"select": ["explode(array(1, 2)) AS n"]}, "more than one record, or makes several rows"),
        ({"select": ["count(1) AS n"]}, "more than one record"),
        ({"select": ["rand() AS n"]}, "another value each time"),
        ({"where": "value.id"}, "is of the type bigint; give a condition"),
        ({"select": ["value.id", "value.id"]}, "the column id more than once"),
        ({"value": FieldFormat("json", "id BIGNUMBER")}, "has a schema that Spark does not read"),
    ],
    ids=str,
)
def test_what_spark_refuses_is_refused_before_an_attempt_begins(
    rows: Rows, plans: Plans, produced: Any, more: dict[str, Any], problem: str
) -> None:
    batch = plans.batch({(produced([order(0)]), 0): (0, 1)})
    definition = RowDefinition(**{"value": FieldFormat("json", "id BIGINT"), **more})
    with pytest.raises(InvalidRequest, match=problem):
        rows.do(batch, definition)
    assert [name for name in batch.store.list(batch.folder) if "begun" in name] == []


def test_gaps_of_transactions_are_no_missing_records(rows: Rows, plans: Plans, with_transactions: str) -> None:
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    rows.do(batch, RowDefinition(value=FieldFormat("json", "id BIGINT")), rows.bad)  # the values are numbers
    require_read(batch)
    assert rows.offsets(rows.bad) == [0, 1, 2, 3, 4, 10, 11]
    assert rows.report(batch).proof == "compared"


# ── in a job of one's own ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_of_ones_own_decodes_by_the_same_definition_and_has_the_same_proof(
    rows: Rows, plans: Plans, produced: Any
) -> None:
    values = [order(0), b"no json", order(2, kind="refund"), order(3)]
    batch = plans.batch({(produced(values), 0): (0, 4)})
    definition = json_rows(where="value.kind = 'order'")
    create_object(plans.store, definition.object_name, definition.to_dict())
    good, bad = sink_of(rows.good), sink_of(rows.bad)

    def write(records: Any, batch: Batch) -> Any:
        decoded = decode(records, batch)
        return decoded.divided(good(decoded.rows, batch), bad(decoded.bad, batch))

    for_each_batch(rows.spark, write, [*plans.arguments(batch), "--rows", definition.digest])
    require_read(batch)
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0, 3], [1])
    [read] = rows.report(batch).partitions.values()
    assert (read.row_count, read.set_aside, read.left_out) == (4, 1, 1)


def test_a_job_that_drops_its_bad_records_is_not_committed(rows: Rows, plans: Plans, produced: Any) -> None:
    batch = plans.batch({(produced([order(0), b"no json"]), 0): (0, 2)})
    definition = json_rows()
    create_object(plans.store, definition.object_name, definition.to_dict())

    def write(records: Any, batch: Batch) -> Any:
        decoded = decode(records, batch)
        return decoded.divided(sink_of(rows.good)(decoded.rows, batch))

    for_each_batch(rows.spark, write, [*plans.arguments(batch), "--rows", definition.digest])
    with pytest.raises(ReadNotVerified, match="short: 1 of 2 offsets"):
        require_read(batch)


@pytest.mark.parametrize("is_persisted", [False, True])
def test_rows_that_were_not_read_back_show_nothing_of_the_output(
    is_persisted: bool, rows: Rows, plans: Plans, produced: Any
) -> None:
    """The job's write loses rows, and the frames that it returns have them all."""
    batch = plans.batch({(produced([order(0), b"no json", order(2)]), 0): (0, 3)})
    definition = json_rows()
    create_object(plans.store, definition.object_name, definition.to_dict())

    def write(records: Any, batch: Batch) -> Any:
        decoded = decode(records.persist() if is_persisted else records, batch)
        sink_of(rows.good)(decoded.rows.limit(1), batch)
        return decoded.divided(decoded.rows, sink_of(rows.bad)(decoded.bad, batch))

    arguments = [*plans.arguments(batch), "--rows", definition.digest]
    if is_persisted:
        for_each_batch(rows.spark, write, arguments)
        assert rows.report(batch).proof == "scan", "and not rows"
    else:
        with pytest.raises(InvalidRequest, match="made from the records, not read back"):
            for_each_batch(rows.spark, write, arguments)
        with pytest.raises(ReadNotVerified, match="has not reported"):
            require_read(batch)


def test_rows_that_a_job_of_ones_own_has_merged_are_counted_by_the_scan(
    rows: Rows, plans: Plans, produced: Any
) -> None:
    batch = plans.batch({(produced([order(0), b"no json", order(2)]), 0): (0, 3)})
    definition = json_rows()
    create_object(plans.store, definition.object_name, definition.to_dict())

    def write(records: Any, batch: Batch) -> Any:
        decoded = decode(records.persist(), batch)
        return decoded.divided(Merged(decoded.rows), sink_of(rows.bad)(decoded.bad, batch))

    for_each_batch(rows.spark, write, [*plans.arguments(batch), "--rows", definition.digest])
    require_read(batch)
    assert (rows.report(batch).proof, rows.offsets(rows.bad)) == ("merged", [1])
