"""The checkpoint location as a driver reaches it, and the outputs that earlier attempts name in it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Batch, Sink, for_each_batch
from airflow_kafka_offsets.spark.errors import OtherOutput, StoreUnavailable
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.store import DRAFT, HadoopStore
from testbed.s3_server import S3Server
from testbed.spark import s3a_conf
from tests.spark.plans import Plans

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def on_s3(spark: SparkSession) -> Iterator[HadoopStore]:
    with S3Server() as server:
        server.create_bucket("checkpoints")
        settings = {name.removeprefix("spark.hadoop."): value for name, value in s3a_conf(server.endpoint).items()}
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield HadoopStore(spark, "s3://checkpoints/offsets")
        for name in settings:
            spark.conf.unset(name)


@pytest.fixture
def on_abfss(spark: SparkSession, tmp_path: Path) -> Iterator[HadoopStore]:
    """Azure's scheme over a folder. Hadoop's own client of Azure shows a file while it is written, too."""
    host = f"container@{uuid.uuid4().hex}.dfs.core.windows.net"  # Hadoop keeps one client for each
    settings = {
        "fs.abfss.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.viewfs.overload.scheme.target.abfss.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "fs.file.impl.disable.cache": "true",
        f"fs.viewfs.mounttable.{host}.link./offsets": tmp_path.as_uri(),
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield HadoopStore(spark, f"abfss://{host}/offsets")
    for name in settings:
        spark.conf.unset(name)


@pytest.fixture(params=["folder", "s3", "abfss"])
def store(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> HadoopStore:
    if request.param == "folder":
        return HadoopStore(spark, str(tmp_path))
    elsewhere: HadoopStore = request.getfixturevalue(f"on_{request.param}")
    return elsewhere


def test_objects_are_put_whole_read_and_listed(store: HadoopStore) -> None:
    data = bytes(range(256)) * 300
    store.put("orders%2F0-of-2/a b.json", data)
    store.put("orders%2F0-of-2/a b.json", b"{}")
    store.put("orders%2F0-of-2/2.json", data)
    assert store.list("orders%2F0-of-2") == ["2.json", "a b.json"]
    assert store.get("orders%2F0-of-2/2.json") == data
    assert store.get("orders%2F0-of-2/a b.json") == b"{}"
    assert (store.get("orders%2F0-of-2/3.json"), store.list("nowhere")) == (None, [])


def test_where_a_file_is_seen_while_it_is_written_an_object_is_seen_once_it_is_whole(
    on_abfss: HadoopStore, tmp_path: Path
) -> None:
    """It is written as a draft, which no list has, and renamed. A driver that is killed leaves its draft."""
    folder, data = tmp_path / "orders", bytes(8_000_000)
    folder.mkdir()
    (folder / f".0{DRAFT}").write_bytes(b"{")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(on_abfss.put, "orders/1.json", data)
        sizes = set()
        while not writing.done():
            sizes |= {len(on_abfss.get(f"orders/{name}") or b"") for name in on_abfss.list("orders")}
        writing.result()
    assert sizes <= {len(data)}
    assert (on_abfss.list("orders"), on_abfss.get("orders/1.json")) == (["1.json"], data)
    assert {file.name for file in folder.iterdir()} == {"1.json", f".0{DRAFT}"}


def test_a_location_that_spark_has_no_file_system_for_is_named(spark: SparkSession) -> None:
    with pytest.raises(StoreUnavailable, match="nofs://host/path"):
        HadoopStore(spark, "nofs://host/path")


class Memory:
    """A store that is handed in: what the operator does over Spark Connect."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        file = self.root / name
        return self.objects.get(name) or (file.read_bytes() if file.exists() else None)

    def put(self, name: str, data: bytes) -> None:
        self.objects[name] = data

    def list(self, folder: str) -> list[str]:
        return sorted(
            [*(f.name for f in (self.root / folder).iterdir()), *(n.rpartition("/")[2] for n in self.objects)]
        )


def test_a_store_may_be_handed_in(spark: SparkSession, plans: Plans) -> None:
    planned = plans.batch({("nowhere", 0): (0, 0)})
    store = Memory(planned.root)
    for_each_batch(spark, lambda records, _: records, planned.arguments(), store)
    kinds = [name.split(".", 1)[1] for name in store.objects]
    assert (kinds, planned.attempts) == (["begun.json", "report.json"], [])


WITH_PAGES = """
import json, sys
from urllib.request import urlopen
from pyspark.sql import SparkSession
from airflow_kafka_offsets.spark import for_each_batch

settings = {**json.loads(sys.argv.pop(1)), "spark.ui.enabled": "true", "spark.ui.port": "0"}
spark = SparkSession.builder.config(map=settings).getOrCreate()

def write(records, batch):
    (name,) = [name for name in batch.slot.store.list(batch.slot.folder) if name.endswith(".begun.json")]
    begun = json.loads(batch.slot.store.get(f"{batch.slot.folder}/{name}"))
    print("PAGE:", "Spark Jobs" in urlopen(begun["spark_ui"]).read().decode())
    return records

for_each_batch(spark, write)
"""


def test_an_attempt_says_where_its_driver_shows_its_pages(session_settings: Mapping[str, str], plans: Plans) -> None:
    planned = plans.batch({("nowhere", 0): (0, 0)})
    command = [sys.executable, "-c", WITH_PAGES, json.dumps(session_settings), *planned.arguments()]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "PAGE: True" in said.stdout


class Refused(Sink):
    """A sink whose output carries another pipeline's mark."""

    output = "delta:/lake/orders"

    def check(self, spark: SparkSession, plan: Plan) -> None:
        raise OtherOutput(f"{plan.name} cannot write {self.output}", "It carries another pipeline's mark", "Remove it")

    def write(self, batch: Batch, rows: DataFrame) -> DataFrame:
        raise AssertionError


def test_a_sink_refuses_before_the_attempt_begins(spark: SparkSession, plans: Plans) -> None:
    planned = plans.batch({("nowhere", 0): (0, 0)}, pipeline="orders")
    with pytest.raises(OtherOutput, match="orders cannot write"):
        for_each_batch(spark, Refused(), planned.arguments())
    assert planned.attempts == []
