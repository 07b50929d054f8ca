"""The work store on S3 and HDFS as a driver sees it: through Spark's own file systems, with Hadoop's jars alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.spark import planned_batch
from airflow_kafka_offsets.spark.batch_job import for_each_batch
from airflow_kafka_offsets.spark.hadoop_store import HadoopStore, open_driver_store
from airflow_kafka_offsets.spark.sinks import files
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.objects import safe_name
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import Store
from testbed.ports import free_ports
from testbed.s3_server import SECRET
from testbed.spark import s3a_conf
from tests.builders import job_arguments
from tests.reads import is_read
from tests.spark.conftest import Plans
from tests.stores.guarded import FOLDER, NEEDED, guarded_server
from tests.stores.kinds import BUCKET, hdfs_server, s3_server

Filled = Callable[..., str]


@pytest.fixture
def s3(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, which has the server's address and credentials, as people configure them."""
    settings = {name.removeprefix("spark.hadoop."): v for name, v in s3a_conf(s3_server().endpoint).items()}
    settings |= {"fs.s3a.attempts.maximum": "1", "fs.s3a.impl.disable.cache": "true"}  # each test has its own settings
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


@pytest.fixture(params=["s3", "hdfs", "webhdfs"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[HadoopStore, Store]:
    """One store, as the driver sees it and as Airflow does."""
    if request.param == "s3":
        uri = driver_uri = f"s3://{BUCKET}/{tmp_path.name}"
        spark = request.getfixturevalue("s3")
    else:
        server, spark = hdfs_server(), request.getfixturevalue("spark")
        folder = f"{server.folder}/{tmp_path.name}"
        uri = f"webhdfs://{server.addresses[0]}{folder}"
        driver_uri = uri if request.param == "webhdfs" else f"{server.uri}{folder}"
    return HadoopStore(spark, location_of(driver_uri)), open_store(uri)


def test_a_driver_reads_no_more_of_an_object_than_shows_that_it_is_too_large(
    both: tuple[HadoopStore, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_kafka_offsets.spark.hadoop_store.LARGEST_OBJECT", 1_000)
    driver, airflow = both
    assert airflow.create("a/1.json", b"x" * 100_000)
    assert driver.get("a/1.json") == b"x" * 1_001


def test_a_driver_refuses_a_folder_with_too_many_names(
    both: tuple[HadoopStore, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_kafka_offsets.stores.store.MOST_NAMES", 2)
    driver, airflow = both
    for number in range(3):
        airflow.create(f"many/{number}", b"")
    with pytest.raises(StoreUnavailable, match="more than 2 names"):
        driver.list("many")


def test_what_airflow_writes_the_driver_reads_and_the_other_way_round(both: tuple[HadoopStore, Store]) -> None:
    driver, airflow = both
    name = f"pipelines/{safe_name('g/dag@x/é ?#%')}/1.json"
    assert driver.get(name) is None
    assert driver.list("pipelines") == []
    assert airflow.create(name, bytes(range(256)))
    assert driver.get(name) == bytes(range(256))
    assert driver.list("pipelines") == airflow.list("pipelines") == [f"{safe_name('g/dag@x/é ?#%')}/"]
    assert driver.create("a/2.json", b"") is True
    assert driver.create("a/10.json", b"x" * 300_000) is True
    assert airflow.get("a/10.json") == b"x" * 300_000
    assert driver.list("a") == airflow.list("a") == ["10.json", "2.json"]


def test_a_name_of_its_own_is_written_without_a_look(both: tuple[HadoopStore, Store]) -> None:
    driver, airflow = both
    assert driver.create("1.json", b"first")
    assert driver.create("1.json", b"second")
    assert airflow.get("1.json") == b"second"
    driver.delete("1.json")
    driver.delete("1.json")
    assert driver.get("1.json") is None


def test_airflow_sees_all_that_a_driver_has_written_or_nothing(both: tuple[HadoopStore, Store]) -> None:
    driver, airflow = both
    large = b"x" * 3_000_000
    with ThreadPoolExecutor(1) as writer:
        for number in range(8):
            written = writer.submit(driver.create, f"a/{number}.json", large)
            while (found := airflow.get(f"a/{number}.json")) is None:
                assert set(airflow.list("a")) <= {f"{n}.json" for n in range(8)}
            assert found == large
            assert written.result() is True
    assert driver.list("a") == airflow.list("a") == [f"{n}.json" for n in range(8)]


def test_what_was_lost_before_its_rename_is_not_said_to_be_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where `clean` takes a draft for one that a dead process has left."""
    store = HadoopStore(spark, location_of(f"file://{tmp_path}"))
    store._renames = store._fs.FileContext.getFileContext(spark._jsparkSession.sessionState().newHadoopConf())
    monkeypatch.setattr(HadoopStore, "_write_file", lambda *_: None)
    with pytest.raises(StoreUnavailable, match="Cannot write"):
        store.create("batches/1.json", b"{}")


def test_a_name_node_that_is_not_there_is_unavailable(spark: SparkSession) -> None:
    (port,) = free_ports(1)
    spark.conf.set("ipc.client.connect.max.retries", "0")
    try:
        with pytest.raises(StoreUnavailable, match=r"Cannot list batches .*\n?.*ConnectException") as refused:
            HadoopStore(spark, location_of(f"hdfs://127.0.0.1:{port}/x")).list("batches")
    finally:
        spark.conf.unset("ipc.client.connect.max.retries")
    assert refused.value.retriable


def test_a_bucket_that_is_not_there_is_unavailable(s3: SparkSession) -> None:
    with pytest.raises(StoreUnavailable, match="tpying-mistake"):
        HadoopStore(s3, location_of("s3://tpying-mistake/x")).list("batches")


def test_three_rights_are_enough_for_a_driver(s3: SparkSession) -> None:
    """As docs/stores.md tells; what the output needs comes on top."""
    with guarded_server() as server:
        key, secret = server.new_user(*NEEDED)
        given = {"endpoint": server.endpoint, "access.key": key, "secret.key": secret}
        before = {name: s3.conf.get(f"fs.s3a.{name}") for name in given}
        for name, value in given.items():
            s3.conf.set(f"fs.s3a.{name}", value)
        try:
            store = HadoopStore(s3, location_of(f"s3://{FOLDER}"))
            assert store.list("a") == []
            assert store.create("a/1.json", b"x")
            assert (store.get("a/1.json"), store.get("a/2.json"), store.list("a")) == (b"x", None, ["1.json"])
        finally:
            for name, value in before.items():
                s3.conf.set(f"fs.s3a.{name}", str(value))


def test_wrong_credentials_are_said_without_them(s3: SparkSession) -> None:
    s3.conf.set("fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider")
    try:
        with pytest.raises(StoreUnavailable, match=r"(?i)credential") as refused:
            HadoopStore(s3, location_of(f"s3://{BUCKET}/x")).get("1.json")
    finally:
        s3.conf.unset("fs.s3a.aws.credentials.provider")
    assert SECRET not in str(refused.value)


def test_a_file_system_that_spark_lacks_is_named_with_what_brings_it(spark: SparkSession) -> None:
    with pytest.raises(StoreUnavailable, match="Spark has no file system for it"):
        HadoopStore(spark, location_of("gs://bucket/x")).get("1.json")


def test_without_a_session_an_object_store_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(InvalidRequest, match="make the SparkSession before planned_batch"):
        open_driver_store("s3://bucket/x", None)


def test_a_batch_is_read_reported_and_verified_with_store_and_output_on_s3(
    s3: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    """Airflow's side through s3fs, the driver's through s3a."""
    store = open_store(f"s3://{BUCKET}/{tmp_path.name}/store")
    on_s3 = Plans(store, plans.broker)  # type: ignore[arg-type]
    topic = filled(20, partitions=2)
    stored = on_s3.batch({(topic, 0): (0, 10), (topic, 1): (0, 10)}, splits=2)
    sink: Any = files(f"s3a://{BUCKET}/{tmp_path.name}/lake")
    for split in (0, 1):
        for _ in ("first", "again"):
            arguments = job_arguments(
                stored.plan_object, stored.log.plan.plan_id, split, store.driver_uri, plans.broker.bootstrap_servers
            )
            for_each_batch(s3, sink, arguments)
    found = PipelineLog(store, stored.folder.split("/")[1]).read(stored.name)
    assert found is not None
    assert is_read(found)
    rows = s3.read.parquet(f"s3a://{BUCKET}/{tmp_path.name}/lake")
    assert rows.count() == rows.select("partition", "offset").distinct().count() == 20
    assert isinstance(planned_batch(arguments).store, HadoopStore)
