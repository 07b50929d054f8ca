"""Soft deletes and the history of docs/entity-tables.md, over what a real connector has sent."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.docs.pages import DOCS, blocks_of
from tests.spark.merge.test_debezium import NEW, ConnectorLog, recorded, replay

pytestmark = pytest.mark.slow


class SoftLog(ConnectorLog):
    @property
    def job(self) -> dict[str, Any]:
        job = super().job
        return {**job, "merge": {**job["merge"], "delete_when": "false"}}


def test_with_soft_deletes_the_row_of_a_delete_stays(spark: SparkSession, tmp_path: Path) -> None:
    log, (records, rows) = SoftLog(spark, tmp_path, "delta"), recorded("notes")
    replay(log, records, 40, change_at=0)
    found = log.entity_rows.select("id", "kafka_op").collect()
    assert {row["id"] for row in found if row["kafka_op"] in (None, "d")} == {2, 20}
    assert {row["id"] for row in found if row["kafka_op"] not in (None, "d")} == {row["id"] for row in rows}


def test_the_history_of_a_row_has_no_gap_but_where_it_was_deleted(spark: SparkSession, tmp_path: Path) -> None:
    log, (records, rows) = ConnectorLog(spark, tmp_path, "delta", schema=NEW), recorded("notes")
    log.commit(1, log.rows_of(records[:15], 0))
    log.commit(2, log.rows_of(records[15:], 15))
    (block,) = (block for block in blocks_of(DOCS / "entity-tables.md") if "AS valid_to" in block.code)
    text = block.code.replace("CREATE VIEW lake.", "CREATE OR REPLACE TEMPORARY VIEW ")
    spark.sql(text.replace("lake.customer_changes", log.sink.name))
    history = spark.table("customers_history").orderBy("id", "valid_from").collect()
    now = {row["id"]: row["name"] for row in history if row["valid_to"] is None}
    assert now == {row["id"]: row["name"] for row in rows}
    versions = {id: [*group] for id, group in groupby(history, lambda row: row["id"])}
    gaps = {
        id for id, of_id in versions.items()
        for one, other in pairwise(of_id) if one["valid_to"] != other["valid_from"]
    }  # fmt: skip
    assert gaps == {3}  # deleted, and inserted again
    assert [row["name"] for row in versions[1]][:2] == ["Ann", "Anna"]
    assert all(row["valid_to"] is not None for id in (2, 20) for row in versions[id])
