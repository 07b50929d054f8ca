"""What proves a batch: the receipt in the table's own commit, the rows that are read back, or nothing but the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from airflow_kafka_offsets.rows.config import BadRecords, Rows
from airflow_kafka_offsets.spark import Batch, for_each_batch
from airflow_kafka_offsets.spark.batch import Written
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.receipts import HASH
from tests.spark.plans import Plans
from tests.spark.rows.conftest import Lake

pytestmark = pytest.mark.long

Filled = Callable[..., str]


def test_a_report_says_what_has_proved_the_batch(lake: Lake, plans: Plans, filled: Filled) -> None:
    """The table's own commit where no record is filtered; else the rows are counted; or the job is trusted."""
    topic = filled(10)
    whole, partly, own, bad = (plans.batch({(topic, 0): (0, 10)}, number=number) for number in (1, 2, 3, 4))
    lake.run(whole, Rows())
    lake.run(partly, Rows(where="offset != 3"))
    lake.run(bad, Rows(expect={"not 3": "offset != 3"}, bad=BadRecords(lake.sink("bad"))))
    for_each_batch(lake.spark, lambda records, _: records.persist().count() and None, own.arguments())
    reports = [batch.report() for batch in (whole, partly, own, bad)]
    assert [batch.problems() for batch in (whole, partly, own, bad)] == [[], [], [], []]
    assert [report["proof"] for report in reports] == ["receipt", "read back", "trusted", "receipt"]
    assert [report["snapshot"] for report in reports] == ["1", "2", None, "3"]
    counts = bad.counts((topic, 0))
    assert [counts[name] for name in ("rows", "bad", "filtered", "offsets", "gaps")] == [9, 1, 0, 10, 0]


@pytest.mark.parametrize(("found", "proof"), [(3, "receipt"), (4, "read back"), (None, "read back")])
def test_a_receipt_is_no_proof_if_other_records_are_in_the_table_of_bad_ones(
    lake: Lake, plans: Plans, filled: Filled, found: int | None, proof: str
) -> None:
    """Offset 3 was seen to be bad. ``found`` is what the table for bad records has."""
    batch = plans.batch({(filled(10), 0): (0, 10)})

    def write(records: DataFrame, _: Batch) -> Any:
        records = records.select("topic", "partition", "offset").localCheckpoint()
        seen = records.selectExpr("count(1) AS records", f"{HASH} AS hash", "1 AS bad").collect()[0].asDict()
        seen["bad_hash"] = records.where("offset = 3").selectExpr(HASH).collect()[0][0]
        rows = records.where("offset != 3").withColumn("kafka_fate", f.lit("row"))
        bad = records.where(f.col("offset") == f.lit(found)).withColumn("kafka_fate", f.lit("bad"))
        return Written(rows.union(bad), records, bad=bad, seen=seen, added=9)

    for_each_batch(lake.spark, write, batch.arguments())
    assert batch.report()["proof"] == proof
    assert (batch.problems() == []) is (found == 3)


def test_an_expression_that_makes_several_rows_of_a_record_is_refused_before_the_attempt(
    lake: Lake, plans: Plans, filled: Filled
) -> None:
    """As many rows as offsets would prove nothing: one record makes two rows, and one makes none."""
    batch = plans.batch({(filled(4), 0): (0, 4)})
    with pytest.raises(InvalidJob, match="several rows of one record"):
        lake.run(batch, Rows(select=["explode(IF(offset = 1, array(1, 2), IF(offset = 2, array(), array(1)))) AS n"]))
    with pytest.raises(InvalidJob, match="several rows of one record"):
        lake.run(batch, Rows(select=["inline(array(struct(offset AS n), struct(offset AS n)))"]))
    with pytest.raises(InvalidJob, match=r"Spark rejects|several rows"):
        lake.run(batch, Rows(select=["stack(2, offset, offset) AS (n)"]))
    assert batch.attempts == []
