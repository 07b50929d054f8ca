"""The brokers that are measured, with their topics: one broker, or three that share the partitions without copies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.floor import Floor
from testbed.broker import KafkaBroker
from testbed.java import Java
from testbed.ports import free_ports
from testbed.three_brokers import ThreeBrokers
from testbed.topics import wait_for

PER_TOPIC = 100
RECORDS = 3  # in each partition of one broker
_HEAP = ("-Xmx1500m",)


@dataclass(frozen=True)
class Measured:
    """
    :ivar near: ``host:port,…`` on loopback.
    :ivar far: the same through a network with a delay; empty where there is none.
    """

    near: str
    far: str = ""


@contextmanager
def one_broker(java: Java, partitions: int, delay_ms: float, say: Callable[[str], None]) -> Iterator[Measured]:
    """A broker with topics of 100 partitions and three records in each, and a way to it with a delay each way."""
    with ExitStack() as stack:
        (port,) = free_ports(1)
        broker = stack.enter_context(KafkaBroker(proxy_port=port, java=java, jvm=_HEAP, loaded_groups=False))
        host, upstream = broker.proxied_address
        command = [sys.executable, "-m", "testbed.delay_proxy", str(port), f"{host}:{upstream}", str(delay_ms)]
        proxy = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(proxy.kill)
        assert proxy.stdout is not None
        assert proxy.stdout.readline() == "ready\n"
        topics = _create(broker.admin(), [broker.bootstrap_servers], partitions, say)
        for topic in topics:
            broker.produce_many(topic, RECORDS * PER_TOPIC, partitions=PER_TOPIC)
        yield Measured(broker.bootstrap_servers, f"127.0.0.1:{port}")


@contextmanager
def three_brokers(java: Java, partitions: int, say: Callable[[str], None]) -> Iterator[Measured]:
    with ThreeBrokers(java=java, jvm=_HEAP) as brokers:
        servers = [broker.bootstrap_servers for broker in brokers.nodes.values()]
        _create(brokers.admin(), servers, partitions, say)
        yield Measured(",".join(servers))


def _create(admin: AdminClient, servers: Sequence[str], partitions: int, say: Callable[[str], None]) -> list[str]:
    """The topics, once each of the servers knows all their leaders."""
    names = [f"t{number:03}" for number in range(partitions // PER_TOPIC)]
    for name in names:
        (future,) = admin.create_topics([NewTopic(name, PER_TOPIC, 1)], operation_timeout=120.0).values()
        future.result(180.0)
    say(f"{len(names)} topics of {PER_TOPIC} partitions are created")

    def knows_all(server: str) -> bool:
        with suppress(OSError), Floor(server) as floor:  # a partition without a leader is an error of its own
            return sum(name in names for name, _ in floor.metadata()) == partitions
        return False

    for server in servers:
        wait_for(f"{server} knows the leader of each partition", partial(knows_all, server), deadline_s=300.0)
    return names
