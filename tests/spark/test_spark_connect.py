"""The same driver over Spark Connect: its session has no JVM, so the checkpoint location is handed in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_kafka_offsets.rows.config import BadRecords, Delta, Iceberg, Json, Rows
from airflow_kafka_offsets.rows.job import job_object
from benchmarks.outputs import TABLES
from testbed import jars
from testbed.broker import KafkaBroker
from testbed.java import Java
from testbed.spark import SMALL_QUERIES
from testbed.spark_connect import SparkConnectServer
from tests.spark.plans import Plans

pytestmark = pytest.mark.long

FOLDER = """
from pathlib import Path

class Folder:
    def __init__(self, root):
        self.root = Path(root)
    def get(self, name):
        return (self.root / name).read_bytes() if (self.root / name).exists() else None
    def put(self, name, data):
        (self.root / name).write_bytes(data)
    def list(self, folder):
        return [file.name for file in (self.root / folder).iterdir()]
"""
PROGRAM = (
    FOLDER
    + """
import logging
import sys
from pyspark.sql import SparkSession
from airflow_kafka_offsets.spark import for_each_batch

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
)


COUNTING = (
    FOLDER
    + """
import os
import sys
from collections import Counter
import grpc
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.client.core import DefaultChannelBuilder
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch

class Counting(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    calls = Counter()
    def intercept_unary_unary(self, proceed, details, request):
        self.calls[details.method.rpartition("/")[2]] += 1
        return proceed(details, request)
    intercept_unary_stream = intercept_unary_unary

os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # else pyspark.sql.functions look for a JVM
remote, root, *batches = sys.argv[1:]
channel = DefaultChannelBuilder(remote)
channel.add_interceptor(Counting())
spark = SparkSession.builder.channelBuilder(channel).create()
for number in range(0, len(batches), 6):
    Counting.calls.clear()
    write_batch(spark, batches[number:number + 6], Folder(root))
    asked = Counting.calls.total() - Counting.calls["ReleaseExecute"]  # it only says that an answer has come
    print(asked, dict(Counting.calls), flush=True)
spark.stop()
"""
)
MOST_CALLS = {"delta": 19, "iceberg": 28}
"""They were 43 and 56."""


@pytest.fixture(scope="module")
def server(
    java: Java, spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SparkConnectServer, Path]]:
    """A server with both formats, and where it writes its events."""
    events = tmp_path_factory.mktemp("events")
    log = {"enabled": "true", "compress": "false", "dir": str(events)}
    settings = {**SMALL_QUERIES, **TABLES, **{f"spark.eventLog.{name}": value for name, value in log.items()}}
    settings["spark.sql.catalog.lake.warehouse"] = str(tmp_path_factory.mktemp("lake"))
    with SparkConnectServer(java, [*spark_jars, *jars.delta_jars(java), *jars.iceberg_jars(java)], settings) as running:
        yield running, events


def run(program: str, server: SparkConnectServer, *words: object) -> subprocess.CompletedProcess[str]:
    """In a process that has no Java."""
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    command = [sys.executable, "-c", program, server.remote, *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_a_batch_is_read_written_and_reported_without_a_jvm_and_the_server_shows_no_secret(
    server: tuple[SparkConnectServer, Path], plans: Plans, with_transactions: str, tmp_path: Path
) -> None:
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    empty = plans.batch({(with_transactions, 0): (0, 0)}, number=2)
    arguments = ["--bootstrap-servers", plans.servers, *batch.arguments()[:2], *empty.arguments()[:2]]
    properties = tmp_path / "client.properties"
    properties.write_text("sasl.jaas.config=hunter2")
    said = run(PROGRAM, server[0], plans.root, tmp_path / "out", properties, *arguments).stderr
    assert (batch.problems(), empty.problems()) == ([], [])
    assert batch.counts((with_transactions, 0))["gaps"] == 5
    assert "rows 7, bad 0, filtered 0, gaps 5" in said
    assert "Kafka is read once more" not in said
    events = "".join(file.read_text() for file in server[1].rglob("events*"))
    assert "kafka.bootstrap.servers" in events
    assert "(redacted)" in events
    assert "hunter2" not in events


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_batch_of_typed_rows_asks_the_server_few_times(
    server: tuple[SparkConnectServer, Path],
    plans: Plans,
    broker: KafkaBroker,
    topic: Callable[..., str],
    tmp_path: Path,
    kind: str,
) -> None:
    """The first batch makes both tables; the second is as each later one, in a session that goes on."""
    names = [Delta(str(tmp_path / n)) if kind == "delta" else Iceberg(f"lake.db.{n}") for n in ("rows", "bad")]
    rows = Rows(Json("id BIGINT, note STRING"), where="value IS NULL OR value.id > 0", bad=BadRecords(names[1]))
    name, words, producer = topic(), list[str](), Producer(broker.client_config)
    for number in range(30):
        producer.produce(name, value=b'{"id": %d, "note": "x"}' % number, partition=0)
    assert producer.flush(30) == 0
    batches = [plans.batch({(name, 0): (10 * n, 10 * n + 10)}, number=n + 1) for n in range(3)]
    for batch in batches:
        words += batch.arguments(batch.job(job_object(names[0], rows)))
    printed = run(COUNTING, server[0], plans.root, *words).stdout.splitlines()
    assert [batch.problems() for batch in batches] == [[], [], []]
    assert int(printed[-1].split()[0]) <= MOST_CALLS[kind], printed
