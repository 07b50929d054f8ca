"""What proves a batch: the receipt in the table's own commit, the rows that are read back, or nothing but the job."""

from __future__ import annotations

from collections.abc import Callable

from airflow_kafka_offsets.rows.config import Rows
from airflow_kafka_offsets.spark import for_each_batch
from tests.spark.plans import Plans
from tests.spark.rows.conftest import Lake

Filled = Callable[..., str]


def test_a_report_says_what_has_proved_the_batch(lake: Lake, plans: Plans, filled: Filled) -> None:
    """The table's own commit where every offset became a row; else the rows are counted; or the job is trusted."""
    topic = filled(10)
    whole, partly, own = (plans.batch({(topic, 0): (0, 10)}, number=number) for number in (1, 2, 3))
    lake.run(whole, Rows())
    lake.run(partly, Rows(where="offset != 3"))
    for_each_batch(lake.spark, lambda records, _: records.persist().count() and None, own.arguments())
    reports = [batch.report() for batch in (whole, partly, own)]
    assert [batch.problems() for batch in (whole, partly, own)] == [[], [], []]
    assert [report["proof"] for report in reports] == ["receipt", "read back", "trusted"]
    assert [report["snapshot"] for report in reports] == ["1", "2", None]


def test_a_row_that_is_there_twice_for_another_is_not_proved_by_the_receipt(
    lake: Lake, plans: Plans, filled: Filled
) -> None:
    """As many rows as offsets: one record makes two rows, and one makes none."""
    batch = plans.batch({(filled(4), 0): (0, 4)})
    lake.run(batch, Rows(select=["explode(IF(offset = 1, array(1, 2), IF(offset = 2, array(), array(1)))) AS n"]))
    assert batch.problems() != []
    assert batch.report()["proof"] == "read back"
