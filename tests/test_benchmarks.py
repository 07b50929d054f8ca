"""The requests to a checkpoint location on S3 stay what they are, and do not grow with a pipeline's history."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.java import Java


@pytest.mark.slow
@pytest.mark.starts_processes
def test_a_run_asks_as_little_of_its_checkpoint_location_at_batch_300_as_at_batch_10(
    java: Java, s3a_jars: list[Path], spark_jars: list[Path]
) -> None:
    """In a process of its own, because it has a Spark session of its own. It fails where a limit is passed."""
    command = [sys.executable, "-m", "benchmarks.store_requests", "--quick"]
    root = Path(__file__).parents[1]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=root, check=False)
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]
    for task in ("in sequence | resolve", "in sequence | driver", "by window | commit", "into Delta | merge"):
        assert task in run.stdout
