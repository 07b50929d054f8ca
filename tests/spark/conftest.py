"""One Spark for the session, with the jars of every format, and topics with and without gaps."""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType
from pyspark import SparkContext
from pyspark.sql import SparkSession

from testbed import jars
from testbed.broker import KafkaBroker
from testbed.java import Java
from testbed.spark import SMALL_QUERIES
from testbed.spark_connect import SparkConnectServer
from testbed.topics import wait_for
from tests.conftest import SPARK_MINOR
from tests.spark.plans import Plans

TopicFactory = Callable[..., str]
EXTENSIONS = "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@pytest.fixture(scope="session")
def session_settings(
    java: Java, spark_settings: Mapping[str, str], s3a_jars: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Of every session of these tests."""
    lake = tmp_path_factory.mktemp("lake")
    more = jars.iceberg_jars(java, minor=SPARK_MINOR)
    if SPARK_MINOR == "4.0":  # these are pinned for no other one
        more += [*s3a_jars, *jars.avro_jars(java)]
    return {
        **spark_settings,
        **SMALL_QUERIES,
        "spark.jars": ",".join([spark_settings["spark.jars"], *map(str, more)]),
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(lake / "iceberg"),
        "spark.sql.warehouse.dir": str(lake / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",  # it lives for many tests, and keeps something of each of their tables
        "spark.log.level": "OFF",
    }


@pytest.fixture(scope="session")
def spark(
    java: Java, spark_environment: Mapping[str, str], session_settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """With ``TESTS_SPARK=connect``, a session of a server: for the contract's tests, which need no JVM of their own."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        builder = SparkSession.builder.appName("tests").config(map=dict(session_settings))
        if os.environ.get("TESTS_SPARK") == "connect":
            server = stack.enter_context(SparkConnectServer(java, [], session_settings))
            patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
            builder = SparkSession.builder.remote(server.remote)
        for name, value in spark_environment.items():
            patch.setenv(name, value)
        session = builder.getOrCreate()
        yield session
        if (jvm := getattr(SparkContext._gateway, "proc", None)) is not None:
            assert jvm.poll() is None, f"Spark's JVM has ended by itself, with {jvm.poll()}: 52 is for want of memory"
        session.stop()


@pytest.fixture
def plans(tmp_path: Path, broker: KafkaBroker) -> Plans:
    return Plans(tmp_path / "checkpoint", broker.bootstrap_servers)


@pytest.fixture
def filled(broker: KafkaBroker, topic: TopicFactory) -> TopicFactory:
    """`filled(count, partitions=1)`: a topic with records 0 … count-1, record n in partition n % partitions."""

    def make(count: int, partitions: int = 1) -> str:
        name = topic(partitions)
        broker.produce_many(name, count, partitions=partitions)
        return name

    return make


# Topics whose offsets have gaps


@pytest.fixture
def with_transactions(broker: KafkaBroker, topic: TopicFactory) -> Iterator[str]:
    """0-4 committed, 5 their marker, 6-8 aborted, 9 their marker, 10-11 plain, 12-13 in a transaction still open."""
    name = topic()
    committed, aborted, still_open = (_in_transaction(broker) for _ in range(3))
    _produce(committed, name, 5)
    committed.commit_transaction(30)
    _wait_for_end(broker, name, 6)  # the call returns before the marker is in the log
    _produce(aborted, name, 3)
    aborted.abort_transaction(30)
    _wait_for_end(broker, name, 10)
    broker.produce_many(name, 2)
    _produce(still_open, name, 2)
    wait_for("the markers are written", lambda: _last_stable_offset(broker, name) == 12)
    yield name
    still_open.abort_transaction(30)


def _in_transaction(broker: KafkaBroker) -> Producer:
    producer = Producer({**broker.client_config, "transactional.id": f"tx-{uuid.uuid4().hex}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def _produce(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, value=b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def _wait_for_end(broker: KafkaBroker, topic: str, end: int) -> None:
    wait_for(f"{topic} ends at {end}", lambda: broker.offset_bounds(topic) == {0: (0, end)})


def _last_stable_offset(broker: KafkaBroker, topic: str) -> int:
    partition, admin = Partition(topic, 0), broker.admin()
    futures = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
    return int(futures[partition].result(30).offset)


@pytest.fixture
def compacted(broker: KafkaBroker, topic: TopicFactory) -> str:
    """A topic that has lost its first records to compaction."""
    name = topic(config={"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"})
    for _ in range(4):
        broker.produce(name, [(0, b"same", b"%d" % n, n) for n in range(20)])
    hurry = [ConfigEntry("log.cleaner.backoff.ms", "50", incremental_operation=AlterConfigOpType.SET)]
    admin = broker.admin()  # kept until it has answered
    changed = ConfigResource(ResourceType.BROKER, "1", incremental_configs=hurry)
    admin.incremental_alter_configs([changed])[changed].result(30)

    def first_offset() -> int:
        broker.produce(name, [(0, b"other", b"x", None)])  # a segment is closed by what comes after it
        consumer = Consumer({**broker.client_config, "group.id": "none", "enable.auto.commit": False})
        try:
            consumer.assign([Partition(name, 0, 0)])
            message = consumer.poll(10)
            return int(message.offset()) if message is not None and message.error() is None else 0
        finally:
            consumer.close()

    wait_for("the first records are compacted away", lambda: first_offset() > 0)
    return name
