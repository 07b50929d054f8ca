"""The same driver over Spark Connect: its session has no JVM, so the checkpoint location is handed in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from testbed.java import Java
from testbed.spark_connect import SparkConnectServer
from tests.spark.plans import Plans

PROGRAM = """
import logging
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from airflow_kafka_offsets.spark import for_each_batch

class Folder:
    def __init__(self, root):
        self.root = Path(root)
    def get(self, name):
        return (self.root / name).read_bytes() if (self.root / name).exists() else None
    def put(self, name, data):
        (self.root / name).write_bytes(data)
    def list(self, folder):
        return [file.name for file in (self.root / folder).iterdir()]

logging.basicConfig()
logging.getLogger("airflow_kafka_offsets").setLevel(logging.INFO)
remote, root, output, properties, *argv = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
spark.conf.set("spark.kafka_offsets.client_properties", properties)

def write(records, batch):
    records.write.mode("overwrite").parquet(f"{output}/{batch.key}")
    return spark.read.parquet(f"{output}/{batch.key}")

for number in (1, 2):
    for_each_batch(spark, write, argv[:2] + argv[2 * number : 2 * number + 2], Folder(root))
"""


def test_a_batch_is_read_written_and_reported_without_a_jvm_and_the_server_shows_no_secret(
    java: Java, spark_jars: list[Path], plans: Plans, with_transactions: str, tmp_path: Path
) -> None:
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    empty = plans.batch({(with_transactions, 0): (0, 0)}, number=2)
    arguments = ["--bootstrap-servers", plans.servers, *batch.arguments()[:2], *empty.arguments()[:2]]
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    (tmp_path / "events").mkdir()
    properties, shown = tmp_path / "client.properties", {"enabled": "true", "compress": "false"}
    properties.write_text("sasl.jaas.config=hunter2")
    settings = {"dir": str(tmp_path / "events"), **shown}
    with SparkConnectServer(java, spark_jars, {f"spark.eventLog.{name}": v for name, v in settings.items()}) as server:
        paths = map(str, (plans.root, tmp_path / "out", properties))
        command = [sys.executable, "-c", PROGRAM, server.remote, *paths, *arguments]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert (batch.problems(), empty.problems()) == ([], [])
    assert batch.counts((with_transactions, 0))["gaps"] == 5
    assert "rows 7, bad 0, filtered 0, gaps 5" in run.stderr
    assert "Kafka is read once more" not in run.stderr
    events = "".join(file.read_text() for file in (tmp_path / "events").rglob("events*"))
    assert "kafka.bootstrap.servers" in events
    assert "(redacted)" in events
    assert "hunter2" not in events
