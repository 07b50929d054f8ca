"""A schema that changes from one batch to the next: its rows' columns and the output's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from tests.spark.conftest import Plans, require_read
from tests.spark.rows.conftest import SCHEMA, Rows, json_rows, order


def test_a_schema_that_gets_a_field_is_refused_or_adds_its_column_and_each_record_is_counted(
    rows: Rows, plans: Plans, produced: Any
) -> None:
    topic = produced([order(0), order(1, discount="five"), b"no json"])
    older = plans.batch({(topic, 0): (0, 1)})
    newer = plans.batch({(topic, 0): (1, 3)}, number=2, after=older.log.plan.batch.key)
    after = json_rows(f"{SCHEMA}, discount STRING")
    rows.do(older, json_rows(), rows.bad)
    with pytest.raises(InvalidRequest, match="has no column discount, and the rows have it as STRING"):
        rows.do(newer, after, rows.bad)
    assert rows.offsets(rows.good) == [0]
    rows.do(newer, after, rows.bad, sink={**rows.good, "evolve": "add"})
    require_read(newer)
    read = rows.spark.read.option("mergeSchema", "true").parquet(rows.good["path"]).orderBy("offset")
    assert [tuple(row) for row in read.select("offset", "discount").collect()] == [(0, None), (1, "five")]
    assert rows.offsets(rows.bad) == [2]
