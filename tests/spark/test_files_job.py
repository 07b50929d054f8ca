"""docs/examples/files_job.py under `spark-submit`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from testbed.spark import SMALL_QUERIES
from tests.spark.plans import PlannedBatch, Plans

JOB = Path(__file__).parents[2] / "docs" / "examples" / "files_job.py"


@pytest.mark.slow
def test_a_batch_replaces_its_folder_and_no_other(
    plans: Plans,
    filled: Callable[..., str],
    spark_environment: Mapping[str, str],
    spark_settings: Mapping[str, str],
    tmp_path: Path,
) -> None:
    topic, output = filled(10), tmp_path / "orders"
    conf = {**spark_settings, **SMALL_QUERIES, "spark.log.level": "ERROR"}
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]

    def submit(batch: PlannedBatch) -> None:
        command = ["spark-submit", *options, str(JOB), "--output", str(output), *batch.arguments()]
        environment = {**os.environ, **spark_environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]

    first, second = plans.batch({(topic, 0): (0, 6)}), plans.batch({(topic, 0): (6, 10)}, number=2)
    for batch in (first, second):
        submit(batch)
    first.plan({(topic, 0): (2, 6)})
    submit(first)

    assert [batch.problems() for batch in (first, second)] == [[], []]
    assert first.report()["output"] == f"files:{output}"
    found = ds.dataset(output, partitioning="hive").to_table().to_pylist()  # without folders that begin with _
    keyed = [(first.key, n) for n in range(2, 6)] + [(second.key, n) for n in range(6, 10)]
    assert sorted((row["kafka_batch"], row["offset"]) for row in found) == sorted(keyed)
    assert {row["value"] for row in found} == {str(n) for n in range(2, 10)}
    assert list((output / "_staged").iterdir()) == []
