"""The packaged job: what the job object says, from Kafka into the output, and the report of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from testbed.broker import KafkaBroker
from tests.spark.plans import Plans

TEXT = {"format": "json", "schema": "id BIGINT", "options": {}}


def sink(kind: str, folder: Path) -> dict[str, Any]:
    form = "parquet" if kind == "files" else None
    place = {"format": kind, "path": str(folder), "table": None, "file_format": form}
    return {**place, "partition_by": [], "evolve": None}


@pytest.mark.parametrize("kind", ["files", "delta"])
def test_records_become_rows_bad_and_filtered_ones_and_the_report_adds_up(
    spark: SparkSession,
    plans: Plans,
    broker: KafkaBroker,
    topic: Callable[..., str],
    tmp_path: Path,
    kind: str,
) -> None:
    name = topic()
    broker.produce(name, [(0, None, value, None) for value in (b'{"id": 1}', b"{", b'{"id": 3}', b'{"id": 4}')])
    rows = {"key": {"format": "bytes"}, "value": TEXT, "select": ["value.id"], "where": "value.id > 1", "expect": {}}
    job = {
        "output": f"{kind}:{tmp_path}/out",
        "sink": sink(kind, tmp_path / "out"),
        "rows": {**rows, "bad": {"sink": sink(kind, tmp_path / "bad"), "limit": None}},
    }
    first, empty = plans.batch({(name, 0): (0, 4)}), plans.batch({(name, 0): (4, 4)}, number=2)
    for batch in (first, empty):
        write_batch(spark, batch.arguments(job=batch.job(job)))
        assert batch.problems() == []
    counts = first.counts((name, 0))
    assert [counts[fate] for fate in ("rows", "bad", "filtered", "offsets", "gaps")] == [2, 1, 1, 4, 0]
    assert first.report()["output"] == job["output"]


def test_a_job_without_a_job_object_is_refused(spark: SparkSession, plans: Plans) -> None:
    batch = plans.batch({("nowhere", 0): (0, 0)})
    with pytest.raises(InvalidJob, match="have no --job"):
        write_batch(spark, batch.arguments())
    assert batch.attempts == []
