"""``spark/`` needs PySpark and nothing else: what loads it, and where nothing of the package's dependencies is."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from importlib.metadata import packages_distributions

class OnlyPySpark:
    others = packages_distributions().keys() - {"airflow_kafka_offsets", "pyspark", "py4j"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.others:
            raise ImportError(f"{name} is not installed here")

def loaded():
    return sorted(name for name in sys.modules if name.startswith("airflow_kafka_offsets"))

sys.meta_path.insert(0, OnlyPySpark())
import airflow_kafka_offsets.spark
assert loaded() == ["airflow_kafka_offsets", "airflow_kafka_offsets.spark"], loaded()
assert not {"pyspark", "py4j"} & set(sys.modules)
from airflow_kafka_offsets.spark import Batch, for_each_batch, read_batch, report_batch
from airflow_kafka_offsets.spark.jobs import write_batch
outside = [name for name in loaded()[1:] if not name.startswith("airflow_kafka_offsets.spark")]
assert not outside, outside
"""


@pytest.mark.starts_processes
def test_the_room_is_loaded_where_only_pyspark_is_installed() -> None:
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
