"""The contract of a sink, on Delta and Iceberg."""

import pytest
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.errors import LateAttempt, OtherOutput
from tests.spark.sinks.outputs import A, B, Output, rows

NEXT_DAY = "2026-11-23"


def test_a_batch_is_replaced_and_no_other_one_is_touched(output: Output) -> None:
    output.write(A, rows(0, 1) + rows(2, day=NEXT_DAY))
    output.write(B, rows(3, 4))
    assert output.view() == {A: rows(0, 1) + rows(2, day=NEXT_DAY), B: rows(3, 4)}
    output.write(A, rows(1, value="w"), attempt=2)
    assert output.view() == {A: rows(1, value="w"), B: rows(3, 4)}
    assert (output.offsets(A), output.offsets(B)) == ([1], [3, 4])
    output.write(A, [], attempt=3)
    assert output.view() == {B: rows(3, 4)}
    assert output.offsets(A) == []


def test_a_batch_without_rows_makes_an_output_that_can_be_read_back(output: Output) -> None:
    assert output.offsets(A) == []
    output.write(A, [])
    assert output.offsets(A) == []
    output.write(B, rows(1))
    assert output.view() == {B: rows(1)}


def test_a_write_that_fails_leaves_all_old_rows(output: Output) -> None:
    output.write(A, rows(0, 1))
    broken = output.frame(rows(2, 3)).withColumn("value", f.expr("IF(offset = 3, raise_error('no'), 'new')"))
    with pytest.raises(Exception, match="no"):
        output.write(A, broken, attempt=2)
    assert output.view() == {A: rows(0, 1)}
    output.write(A, rows(2), attempt=3)
    assert output.view() == {A: rows(2)}


def test_a_driver_that_has_lost_its_place_changes_nothing(output: Output) -> None:
    output.write(A, rows(0))

    def lost() -> None:
        raise LateAttempt("This driver", "is late", "…")

    with pytest.raises(LateAttempt):
        output.write(A, rows(1), attempt=2, on_look=lost)
    assert output.view() == {A: rows(0)}


def test_the_rows_of_a_newer_attempt_stay(output: Output) -> None:
    """Between a late driver's look and its commit: Delta skips it in silence, Iceberg refuses it."""
    output.write(A, rows(0))
    late = 0

    def newer() -> None:
        nonlocal late
        late += 1
        output.write(A, rows(5, 6), attempt=3)

    try:
        output.write(A, rows(1), attempt=2, on_look=newer)
    except LateAttempt:
        assert output.sink.format == "iceberg"
    assert late == 1
    assert output.view() == {A: rows(5, 6)}


def test_another_pipelines_output_is_refused_and_the_error_removes_the_mark(output: Output) -> None:
    output.write(A, rows(0))
    with pytest.raises(OtherOutput, match=r"'orders'.*'payments'") as raised:
        output.sink.check(output.spark, "payments")
    with pytest.raises(OtherOutput):
        output.sink.write(output.batch(B, pipeline="payments"), output.frame(rows(1)))
    output.write(B, rows(1), pipeline="orders/0-of-4")  # a shard has the pipeline's name
    assert output.view() == {A: rows(0), B: rows(1)}
    output.spark.sql(raised.value.remedy.rpartition("remove the mark: ")[2])
    output.write(A, rows(2), attempt=2, pipeline="payments")
    with pytest.raises(OtherOutput, match=r"'payments'.*'orders'"):
        output.write(B, rows(3), attempt=2)


def test_rows_with_the_sinks_own_column_are_refused(output: Output) -> None:
    with pytest.raises(Exception, match="column KAFKA_BATCH, which sinks add"):
        output.write(A, output.frame(rows(0)).withColumn("KAFKA_BATCH", f.lit("x")))
