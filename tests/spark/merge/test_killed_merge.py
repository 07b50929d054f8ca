"""A merge task that is killed at each step: the entity table is as before or as after it, and a retry ends it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.killed_driver import IN_THE_WRITE, run_and_kill
from tests.spark.merge.logs import Log, record

BEFORE = {"a": "1", "b": "1"}
AFTER = {"b": "2", "c": "2"}
SEEN = {"before the merge": BEFORE, IN_THE_WRITE: BEFORE, "before it is published": BEFORE, "merged": AFTER}
MOMENTS = [(kind, moment) for kind in ("delta", "iceberg") for moment in SEEN]
MOMENTS.remove(("delta", "before it is published"))  # it has no such step


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "moment"), MOMENTS)
def test_a_merge_that_is_killed_merges_all_or_nothing_and_its_retry_the_rest(
    spark: SparkSession, session_settings: Mapping[str, str], tmp_path: Path, kind: str, moment: str
) -> None:
    log = Log(spark, tmp_path, kind)
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1")])
    assert log.merge(1) == [1]
    log.commit(2, [record(2, "a", None), record(3, "b", "2"), record(4, "c", "2")])
    folder = Path(session_settings["spark.sql.catalog.lake.warehouse"]) if kind == "iceberg" else tmp_path / "customers"
    arguments = log.batches[2].arguments(log.job_uri, entry=1)
    run_and_kill(moment, session_settings, folder, arguments, merge=True)
    assert log.entities == SEEN[moment]
    assert log.merge(2) == ([] if moment == "merged" else [2])
    assert log.entities == AFTER
