"""A broker with many partitions, and a way to it with the delay of a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from confluent_kafka.admin import NewTopic

from benchmarks.floor import Floor
from benchmarks.measured import say
from testbed.broker import KafkaBroker
from testbed.java import Java
from testbed.kafka_proxy import KafkaProxy
from testbed.ports import free_ports
from testbed.topics import wait_for

PATTERN, PER_TOPIC = "t[0-9]+", 100
RECORDS = 3  # in each partition


@dataclass(frozen=True)
class Cluster:
    """
    :ivar near: ``host:port`` on loopback.
    :ivar far: the same through a network that takes half a millisecond each way, or through the proxy.
    :ivar proxy: counts requests.
    """

    near: str
    far: str
    proxy: KafkaProxy


@contextmanager
def many_partitions(java: Java, partitions: int, *, counts: bool = False) -> Iterator[Cluster]:
    """A broker with topics of 100 partitions.

    :param counts: requests are counted, in place of the network's delay.
    """
    with ExitStack() as stack:
        (port,) = free_ports(1)
        broker = stack.enter_context(
            KafkaBroker(proxy_port=port, java=java, jvm=("-Xmx1500m",), loaded_groups=False, say=say)
        )
        proxy = KafkaProxy(port, lambda: broker.proxied_address)
        stack.enter_context(proxy if counts else _network(port, *broker.proxied_address))
        _create(broker, partitions)
        yield Cluster(broker.bootstrap_servers, f"127.0.0.1:{port}", proxy)


@contextmanager
def _network(port: int, host: str, upstream: int) -> Iterator[None]:
    command = [sys.executable, "-m", "testbed.delay_proxy", str(port), f"{host}:{upstream}", "0.5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


def _create(broker: KafkaBroker, partitions: int) -> None:
    admin = broker.admin()
    names = [f"t{number:03}" for number in range(partitions // PER_TOPIC)]
    for name in names:
        admin.create_topics([NewTopic(name, PER_TOPIC, 1)], operation_timeout=120.0)[name].result(180.0)

    def knows_all() -> bool:
        with suppress(OSError), Floor(broker.bootstrap_servers) as floor:  # no leader is an error
            return sum(name in names for name, _ in floor.metadata()) == partitions
        return False

    wait_for("the broker knows the leader of each partition", knows_all, deadline_s=300.0)
    for name in names:
        broker.produce_many(name, RECORDS * PER_TOPIC, partitions=PER_TOPIC)
    say(f"{partitions:,} partitions have {RECORDS} records each")
