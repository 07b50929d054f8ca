"""Three brokers of this folder's own, whole again after each test, and a pipeline on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.cache import Say
from testbed.java import Java
from testbed.three_brokers import ThreeBrokers
from tests.failing.site import Site

# A client that says its rack is sent to the replica there.
NEAREST = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
# Members that are gone are waited for until their session is over: 45 s by default.
SHORT_SESSIONS = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}


@pytest.fixture(scope="session")
def brokers(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path_factory.mktemp("three"), java=java, say=say, config=NEAREST | SHORT_SESSIONS) as kafka:
        yield kafka


@pytest.fixture
def kafka(brokers: ThreeBrokers) -> ThreeBrokers:
    """All three, in sync, before each test."""
    brokers.heal()
    return brokers


@pytest.fixture
def new_site(kafka: ThreeBrokers, tmp_path: Path, group: str) -> Iterator[Callable[..., Site]]:
    """A pipeline over a topic whose three partitions are led by three brokers; ended with the test."""
    sites: list[Site] = []

    def new(**deadlines: float) -> Site:
        sites.append(Site.new(kafka, tmp_path / f"store-{len(sites)}", f"{group}-{len(sites)}", **deadlines))
        return sites[-1]

    yield new
    for site in sites:
        site.close()
