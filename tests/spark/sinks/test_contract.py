"""The contract of a sink, on Delta and Iceberg."""

import json
from collections.abc import Callable

import pytest
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.errors import LateAttempt, OtherOutput
from tests.spark.plans import LOG
from tests.spark.sinks.outputs import A, B, C, Output, rows

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
    """Between a late driver's look and its commit: Delta skips it in silence, and Iceberg refuses it."""
    output.write(A, rows(0))
    looks = 0

    def newer() -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            raise LateAttempt("This driver", "is late", "…")
        output.write(A, rows(5, 6), attempt=3)

    with pytest.raises(LateAttempt):
        output.write(A, rows(1), attempt=2, on_look=newer)
    assert output.view() == {A: rows(5, 6)}


@pytest.mark.parametrize("newer", [[], [5, 6]], ids=["empty", "rows"])
def test_a_first_attempt_that_is_late_writes_nothing(output: Output, newer: list[int]) -> None:
    """It has looked, and is about to commit; a newer attempt has written meanwhile, and was perhaps planned empty."""
    output.write(B, rows(9))
    late: Callable[[], object] = lambda: output.write(A, rows(0, 1))  # noqa: E731
    if output.sink.format == "iceberg" and (publish := output.stage(A, rows(0, 1)).publish) is not None:
        late = publish
    output.write(A, rows(*newer), attempt=2)
    with pytest.raises(Exception, match=r"has skipped the write|already been (published|picked)|Duplicate"):
        late()
    assert output.offsets(A) == newer


def test_another_pipelines_table_is_refused_until_a_person_takes_it_over(output: Output) -> None:
    output.write(A, rows(0))
    with pytest.raises(OtherOutput, match=r"of pipeline 'orders', and this is pipeline 'payments'") as raised:
        output.sink.check(output.spark, output.batch(B, pipeline="payments").plan)
    with pytest.raises(OtherOutput):
        output.sink.write(output.batch(B, pipeline="payments"), output.frame(rows(1)))
    output.write(B, rows(1), pipeline="orders/0-of-4")  # a shard has the pipeline's name
    assert output.view() == {A: rows(0), B: rows(1)}
    act = json.loads(raised.value.remedy.partition(" with the conf ")[2])["kafka_offsets"]
    assert (act["pipeline"], act["acknowledge"]) == ("payments", {"log": {LOG: A}})
    output.write(C, rows(2), pipeline="payments", log="0the0other01", adopted={LOG: A})
    with pytest.raises(OtherOutput, match=r"'payments'.*'orders'"):
        output.write(B, rows(3), attempt=2)


def test_a_copy_of_the_pipeline_in_another_environment_is_refused(output: Output) -> None:
    output.write(A, rows(0))
    with pytest.raises(OtherOutput, match=f"the table of the log {LOG}, and this is 0copy0000000") as raised:
        output.write(B, rows(0), log="0copy0000000")
    assert f'"log": {{"{LOG}": "{A}"}}' in raised.value.remedy
    assert output.view() == {A: rows(0)}


def test_the_receipt_counts_just_the_rows_of_its_commit(output: Output) -> None:
    """Also where files have the rows of other batches."""
    assert [output.stage(key, rows(0, 1)).added for key in (A, B)] == [2, 2]
    output.write(C, [])
    assert output.stage(C, rows(3), attempt=2).added == 1


def test_a_commit_says_which_attempt_at_which_plan_it_is(output: Output) -> None:
    output.write(A, rows(0), digest="4f2a")
    output.write(A, rows(0, 1), attempt=2, digest="4f2a")
    if output.sink.format == "delta":
        commits = output.spark.sql(f"DESCRIBE HISTORY {output.sink.name}").orderBy("version").collect()
        said = [json.loads(commit.userMetadata) for commit in commits if commit.userMetadata]
    else:
        snapshots = output.spark.sql(f"SELECT summary FROM {output.sink.name}.snapshots ORDER BY committed_at")
        said = [
            {name.removeprefix("kafka-offsets."): value for name, value in row[0].items()}
            for row in snapshots.collect()
        ]
    plan = {"pipeline": "orders", "log": LOG, "plan_id": "p", "job": None, "offsets": 0, "ranges": "4f2a"}
    for attempt, receipt in enumerate(said, 1):
        key = receipt.get("kafka_batch", receipt.get("batch"))
        assert (key, str(receipt["attempt"])) == (A, str(attempt))
        assert {name: str(receipt[name]) for name in plan} == {name: str(value) for name, value in plan.items()}
    assert len(said) == 2


def test_rows_with_the_sinks_own_column_are_refused(output: Output) -> None:
    with pytest.raises(Exception, match="column KAFKA_BATCH, which sinks add"):
        output.write(A, output.frame(rows(0)).withColumn("KAFKA_BATCH", f.lit("x")))
