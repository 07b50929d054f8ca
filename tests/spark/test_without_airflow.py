"""The Spark side imports neither Airflow nor a Kafka client; the sinks, which DAG files name, not even PySpark."""

import subprocess
import sys

_SCRIPT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"airflow", "confluent_kafka", "upath", "fsspec"}:
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Blocked())
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.sinks import delta, files, iceberg, jdbc, upsert
from airflow_kafka_offsets.spark.sinks.sink_arguments import output_of
output_of({"format": "delta", "table": "lake.orders"})
assert not {"pyspark", "py4j"} & set(sys.modules)
from airflow_kafka_offsets.spark import for_each_batch, planned_batch, read_batch, report_batch
try:
    planned_batch([])
except InvalidRequest as error:
    print(error)
assert not {"airflow", "confluent_kafka"} & set(sys.modules)
"""


def test_the_spark_side_needs_neither_airflow_nor_a_kafka_client() -> None:
    run = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "--plan, --plan-id, --split, --work-store" in run.stdout
