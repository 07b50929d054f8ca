"""What people do instead: a loop, one call of the admin client, kafka-python, and Kafka's own command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from benchmarks.floor import Partition
from testbed.jars import broker_jars, kafka_tools_jars
from testbed.java import Java
from testbed.topics import quiet


class Confluent:
    """confluent-kafka, as its examples use it."""

    def __init__(self, bootstrap_servers: str, partitions: Sequence[Partition]) -> None:
        config: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
        self._admin = AdminClient(config, logger=quiet)
        self._consumer = Consumer({**config, "group.id": "rival", "enable.auto.commit": False}, logger=quiet)
        self._partitions = [ConfluentPartition(name, number) for name, number in partitions]
        self._admin.list_topics(timeout=60.0)

    def watermark_loop(self) -> int:
        """Both ends of each partition, one after the other."""
        return sum(self._consumer.get_watermark_offsets(tp, timeout=60.0)[1] for tp in self._partitions)

    def list_offsets(self) -> int:
        """The ends, by one call."""
        futures = self._admin.list_offsets(dict.fromkeys(self._partitions, OffsetSpec.latest()), request_timeout=60.0)
        return sum(future.result().offset for future in futures.values())

    def committed(self) -> int:
        return sum(tp.offset for tp in self._consumer.committed(self._partitions, timeout=60.0))


class KafkaPython:
    def __init__(self, bootstrap_servers: str, partitions: Sequence[Partition]) -> None:
        import kafka

        self._consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False)
        self._partitions = [kafka.TopicPartition(name, number) for name, number in partitions]

    def close(self) -> None:
        self._consumer.close()

    def ends(self) -> int:
        return sum(self._consumer.end_offsets(self._partitions).values())

    def log_starts(self) -> int:
        return sum(self._consumer.beginning_offsets(self._partitions).values())

    def at(self, time_ms: int) -> int:
        return len(self._consumer.offsets_for_times(dict.fromkeys(self._partitions, time_ms)))


class CommandLine:
    """Kafka's tools, each in a JVM of its own."""

    def __init__(self, java: Java, bootstrap_servers: str, log: Path) -> None:
        jars = [*kafka_tools_jars(java), *broker_jars(java)]
        self._java = [str(java.executable), "-Xmx1g", "-cp", os.pathsep.join(map(str, jars))]
        self._servers, self._log = bootstrap_servers, log

    def jvm(self) -> None:
        """What is not its work: a tool that says its version."""
        self._run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--version")

    def get_offsets(self) -> None:
        self._run("org.apache.kafka.tools.GetOffsetShell", "--topic", "t[0-9]+")

    def reset_offsets(self, group: str, topics: Sequence[str]) -> None:
        """To the log starts, as a dry run."""
        named = [word for topic in topics for word in ("--topic", topic)]
        command = ["--group", group, "--reset-offsets", "--to-earliest", "--dry-run", *named]
        self._run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *command)

    def _run(self, tool: str, *arguments: str) -> None:
        command = [*self._java, tool, "--bootstrap-server", self._servers, *arguments]
        if "--version" in arguments:
            command = [*self._java, tool, *arguments]
        with self._log.open("ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log)
