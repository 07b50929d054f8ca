"""A broker whose oldest segments lie in a second tier (KIP-405): plans are those of a log that has one tier.

The tier is Kafka's own for tests, a folder. Where the local part of a log begins no client of librdkafka can ask.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.jars import tiered_storage_jars
from testbed.java import Java
from testbed.topics import wait_for
from tests.contract.pipeline import Pipeline

DAY = 86_400_000
BEGIN_MS, KEPT_MS, RECORDS = now_ms() - DAY, 30 * DAY, 3000
BROKER = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}
TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "retention.ms": str(KEPT_MS),
    "file.delete.delay.ms": "100",
}


@pytest.fixture(scope="module")
def tiered(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Topic ``orders``, whose first segments are in the tier alone."""
    folder = tmp_path_factory.mktemp("tiered")
    config = {**BROKER, "rsm.config.dir": str(folder / "tier")}
    jars = tiered_storage_jars(java, say)
    with KafkaBroker(folder / "broker", config=config, more_jars=jars, java=java, say=say) as broker:
        broker.create_topic("orders", config=TOPIC)
        broker.produce("orders", [(0, None, "x" * 1000, BEGIN_MS + 1000 * n) for n in range(RECORDS)])
        first = f"orders-0/{0:020}.log"
        wait_for("the first segment is in the tier alone", lambda: not list((folder / "broker").rglob(first)))
        assert list((folder / "tier").rglob("*.log"))
        yield broker


@pytest.fixture
def pipeline(tiered: KafkaBroker, group: str, tmp_path: Path) -> Iterator[Pipeline]:
    with KafkaCluster(tiered.client_config) as cluster:
        yield Pipeline(cluster, LocalStore(tmp_path / "store"), "orders", group)


@pytest.fixture
def lag(tiered: KafkaBroker, group: str, capfd: pytest.CaptureFixture[str]) -> Callable[[], dict[str, Any]]:
    """What `kafka-offsets lag` says of the partition."""

    def asked() -> dict[str, Any]:
        capfd.readouterr()
        at = ("--bootstrap-servers", tiered.bootstrap_servers, "--group-id", group)
        assert main(("lag", *at, "--output", "json")) == 0
        [row] = json.loads(capfd.readouterr().out)["partitions"]
        return dict(row)

    return asked


def test_a_plan_begins_with_the_oldest_record_of_the_tier(pipeline: Pipeline) -> None:
    assert pipeline.resolve("one").ranges == [(0, RECORDS)]


def test_a_time_is_found_in_the_tier(pipeline: Pipeline) -> None:
    pipeline.parameters = {"startup_mode": "timestamp", "startup_timestamp": BEGIN_MS + 10_000}
    assert pipeline.resolve("one", bounded_mode="timestamp", bounded_timestamp=BEGIN_MS + 20_000).ranges == [(10, 20)]


def test_offsets_after_the_log_start_are_counted_from_the_tier(pipeline: Pipeline) -> None:
    pipeline.parameters = {"startup_mode": "specific-offsets", "specific_offsets": {"orders": "earliest+7"}}
    assert pipeline.resolve("one").ranges == [(7, RECORDS)]


@pytest.mark.parametrize("asked", [-4, -5], ids=["earliest local", "latest tiered"])
def test_where_the_tiers_meet_no_client_of_librdkafka_asks(asked: int, tiered: KafkaBroker) -> None:
    """A named limit. Once a client takes this, the log start of the local part can be said beside the tier's."""
    with pytest.raises(KafkaException, match="_INVALID_ARG"):
        tiered.admin().list_offsets({KafkaTopicPartition("orders", 0): OffsetSpec.for_timestamp(asked)})[
            KafkaTopicPartition("orders", 0)
        ].result(10)


def test_E14_lag_and_margin_of_an_offset_are_counted_from_the_tier(
    pipeline: Pipeline, lag: Callable[[], dict[str, Any]]
) -> None:
    """Not from where the broker's own part of the log begins, and not by how long records stay in that part."""
    pipeline.run("one", max_records=10)
    before, found, after = now_ms(), lag(), now_ms()
    assert (found["log_start"], found["lag"], found["margin"]) == (0, RECORDS - 10, 10)
    written = BEGIN_MS + 10_000
    assert before <= written + found["behind_ms"] <= after
    assert before <= written + KEPT_MS - found["margin_ms"] <= after


def test_E12_a_run_says_which_records_of_the_tier_retention_comes_near_to(pipeline: Pipeline) -> None:
    until_ms = BEGIN_MS + 20_500 + KEPT_MS
    [warning] = pipeline.preview(min_retention_margin=(until_ms - pipeline.now_ms) / 1000).warnings
    assert warning.endswith("orders[0]: up to 21 of the records that it reads, 0 of those that it leaves.")


def test_what_goes_from_the_tier_is_data_loss(tiered: KafkaBroker, pipeline: Pipeline) -> None:
    """It deletes, as the next one does: they are the last."""
    pipeline.run("one", max_records=10)
    assert pipeline.at() == {0: 10}
    tiered.delete_records({("orders", 0): 25})
    with pytest.raises(DataLoss, match=r"start offset 10 .* is below log start offset 25 .15 offsets are gone"):
        pipeline.resolve("two")
    [left] = pipeline.resolve("two", data_loss="advance").plan.partitions
    assert (left.start_offset, left.end_offset, left.lost) == (25, RECORDS, 15)


def test_E14_retention_takes_from_the_tier_no_record_before_its_margin_is_over(
    tiered: KafkaBroker, pipeline: Pipeline, lag: Callable[[], dict[str, Any]]
) -> None:
    """It deletes whole segments of the tier: the first, and not the one in which a record is younger."""
    pipeline.run("one", max_records=10)
    before, margin_over = lag(), 1500  # of the records up to this offset
    kept_ms = now_ms() - BEGIN_MS - 1000 * margin_over
    less = ConfigEntry("retention.ms", str(kept_ms), incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[less])
    admin = tiered.admin()
    admin.incremental_alter_configs([topic])[topic].result(30)
    wait_for("retention", lambda: tiered.offset_bounds("orders")[0][0] > before["log_start"])

    found = lag()
    assert before["log_start"] < found["log_start"] <= (now_ms() - kept_ms - BEGIN_MS) // 1000 + 1
    assert (found["margin"], found["margin_ms"]) == (found["committed"] - found["log_start"], 0)
    assert found["margin"] < 0
