"""Spark reads from the replica in its rack, where its source is told that rack: the brokers' metrics say who sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import planned_batch, read_batch
from testbed.broker import KafkaBroker
from testbed.three_brokers import rack_of
from tests.builders import job_arguments
from tests.failing.site import Site

RACK = "spark.kafka_offsets.source.kafka.client.rack"
RECORDS, BYTES = 300, 1_000


@pytest.fixture(scope="module")
def spark(spark_environment: Mapping[str, str], spark_settings: Mapping[str, str]) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment.items():
            patch.setenv(name, value)
        session = SparkSession.builder.appName("racks").config(map=dict(spark_settings)).getOrCreate()
        yield session
        session.stop()


class Jvm:
    """Java's reflection by public classes: those that do the work are hidden in modules."""

    def __init__(self, spark: SparkSession) -> None:
        self.gateway: Any = spark.sparkContext._gateway
        self.java = self.gateway.jvm

    def call(self, kind: str, method: str, target: Any, *values: Any) -> Any:
        found = [
            m
            for m in self.java.java.lang.Class.forName(kind).getMethods()
            if (m.getName(), m.getParameterCount()) == (method, len(values))
        ]
        words = self.gateway.new_array(self.java.java.lang.Object, len(values))
        for at, value in enumerate(values):
            words[at] = value
        return found[0].invoke(target, words)

    def bytes_sent(self, broker: KafkaBroker, topic: str) -> int:
        """To consumers, not to replicas, of the topic."""
        attach, management = "com.sun.tools.attach.VirtualMachine", "javax.management.MBeanServerConnection"
        machine = self.java.com.sun.tools.attach.VirtualMachine.attach(str(broker.pid))
        url = self.call(attach, "startLocalManagementAgent", machine)
        self.call(attach, "detach", machine)
        address = self.java.javax.management.remote.JMXServiceURL(url)
        connector = self.java.javax.management.remote.JMXConnectorFactory.connect(address)
        try:
            server = self.call("javax.management.remote.JMXConnector", "getMBeanServerConnection", connector)
            name = f"kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic={topic}"
            metric = self.java.javax.management.ObjectName(name)
            if not self.call(management, "isRegistered", server, metric):
                return 0  # nothing yet
            return int(self.call(management, "getAttribute", server, metric, "Count"))
        finally:
            self.call("javax.management.remote.JMXConnector", "close", connector)


@pytest.mark.parametrize("told", [True, False], ids=["told its rack", "not told"])
def test_spark_reads_from_the_replica_in_its_rack(
    new_site: Callable[..., Site], spark: SparkSession, request: pytest.FixtureRequest, told: bool
) -> None:
    site = new_site()
    leader = site.kafka.leader(site.topic)
    near = next(node for node in site.kafka.nodes if node != leader)
    site.kafka.produce(site.topic, [(0, None, "x" * BYTES, None)] * RECORDS)
    run = site.pipeline.resolve("one")
    words = [
        *(run.batch.plan_object, run.plan.plan_id, 0, run.pipeline.store.uri),
        site.kafka.client_config["bootstrap.servers"],
    ]
    batch, jvm = planned_batch(["--output", "unused", *job_arguments(*words)]), Jvm(spark)
    if told:
        spark.conf.set(RACK, rack_of(near))
        request.addfinalizer(lambda: spark.conf.unset(RACK))

    before = {node: jvm.bytes_sent(broker, site.topic) for node, broker in site.kafka.nodes.items()}
    assert read_batch(spark, batch).select("offset").distinct().count() == RECORDS
    sent = {node: jvm.bytes_sent(broker, site.topic) - before[node] for node, broker in site.kafka.nodes.items()}

    by = near if told else leader
    assert sent[by] >= RECORDS * BYTES
    assert {node for node, count in sent.items() if count} == {by}, "the others sent nothing"
