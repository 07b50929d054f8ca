"""A Spark image without Airflow: PySpark, the built wheel by the pages' command, nothing else, and a real batch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from airflow_kafka_offsets.spark.sinks.sink_arguments import sink_arguments
from testbed.jars import SPARK
from testbed.java import Java
from testbed.spark import spark_env
from tests.spark.conftest import Plans, filled, plans, proofs, require_read

__all__ = ["filled", "plans"]  # fixtures

ROOT = Path(__file__).resolve().parents[2]
JOB = "airflow_kafka_offsets/spark/jobs/write_batch.py"
UV = [sys.executable, "-m", "uv"]


def page_s_command() -> list[str]:
    """How the package gets into such an image; both pages that say so say the same."""
    pages = [(ROOT / "docs" / name).read_text() for name in ("submitting.md", "foreachbatch.md")]
    (command,) = {" ".join(re.findall(r"`(pip install --no-deps [^`]*)`", page)) for page in pages}
    return command.split()


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """The Python of an environment that has PySpark alone."""
    python = tmp_path / "image/bin/python"
    run(*UV, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "image"))
    run(*UV, "pip", "install", "--quiet", "--python", str(python), f"pyspark=={SPARK}")
    yield python
    shutil.rmtree(tmp_path / "image")  # some hundred MB


def test_a_spark_image_needs_the_wheel_and_pyspark_and_nothing_else(
    image: Path,
    java: Java,
    spark_settings: Mapping[str, str],
    plans: Plans,
    filled: Callable[..., str],
    tmp_path: Path,
) -> None:
    pip, *install, package = page_s_command()
    assert (pip, package) == ("pip", "airflow-kafka-offsets")
    run(*UV, "build", "--quiet", "--out-dir", str(tmp_path / "dist"), str(ROOT))
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    pip_of_the_image = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(image))
    run(*pip_of_the_image, *install, "--quiet", str(wheel))
    there = run(*UV, "pip", "freeze", "--python", str(image)).split("\n")
    assert {re.split(" @ |==", line)[0] for line in there if line} == {package, "pyspark", "py4j"}

    batch = plans.batch({(filled(300), 0): (10, 300)})
    (job,) = image.parents[1].glob(f"lib/python3*/site-packages/{JOB}")
    sink = sink_arguments({"format": "parquet", "path": str(tmp_path / "out")})
    settings = [word for name, value in spark_settings.items() for word in ("--conf", f"{name}={value}")]
    run("spark-submit", *settings, str(job), *sink, *plans.arguments(batch), env=spark_env(java, image), cwd=tmp_path)

    require_read(batch)
    assert proofs(batch) == ["rows"]
    table = ds.dataset(str(tmp_path / "out"), partitioning="hive").to_table()
    assert sorted(table["offset"].to_pylist()) == list(range(10, 300))


def run(*command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    of_the_machine = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it has this checkout
    done = subprocess.run(command, capture_output=True, text=True, env={**of_the_machine, **(env or {})}, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
