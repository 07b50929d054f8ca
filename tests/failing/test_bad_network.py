"""A network that is slow, and one that cuts connections, between the client and the broker."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.stores.local import LocalStore
from testbed import kafka_proxy
from testbed.broker import KafkaBroker
from testbed.kafka_proxy import KafkaProxy, Moment
from tests.contract.pipeline import Pipeline
from tests.failing.site import repeated
from tests.failing.timed import Timed

ALWAYS = 10**6
SLOW_S, SEED = 0.2, 20_261_122
ASKED = (
    kafka_proxy.LIST_OFFSETS,
    kafka_proxy.METADATA,
    kafka_proxy.OFFSET_COMMIT,
    kafka_proxy.OFFSET_FETCH,
    kafka_proxy.FIND_COORDINATOR,
)


@pytest.mark.parametrize("network", ["slow", "cut"])
def test_runs_go_on_and_are_exact(
    broker: KafkaBroker,
    proxy: KafkaProxy,
    topic: Callable[..., str],
    group: str,
    tmp_path: Path,
    network: str,
) -> None:
    """Each request waits; or one of five is cut off, before the broker has it or before its answer comes."""
    orders = topic(3)
    client = {"bootstrap.servers": proxy.bootstrap_servers, "client.id": network}
    seen, chance = [0], random.Random(SEED)

    def bad(exchange: kafka_proxy.Exchange) -> bytes | None:
        seen[0] += 1
        if network == "slow":
            time.sleep(SLOW_S)  # the fault itself
            return exchange.forward()
        fate = chance.random()
        if fate > 0.2:
            return exchange.forward()
        return kafka_proxy.cut(exchange) if fate < 0.1 else kafka_proxy.cut_after(exchange)

    for key in ASKED:
        proxy.arm(network, Moment(network, key), bad, times=ALWAYS)
    with KafkaCluster(client, deadline_s=15.0, attempt_s=3.0) as cluster:
        timed = Timed(cluster)
        pipeline = Pipeline(timed, LocalStore(tmp_path), orders, group)
        for number in range(2):
            broker.produce_many(orders, 30, partitions=3)
            run, _ = repeated(lambda number=number: pipeline.resolve(f"run-{number}"))
            repeated(run.spark)
            repeated(run.commit)
        assert seen[0] > 6
        proxy.disarm()
        timed.require_deadlines(15.0)
        assert pipeline.lake.offsets() == {p: list(range(20)) for p in range(3)}
        assert pipeline.at() == pipeline.held() == dict.fromkeys(range(3), 20)
