"""The sensor in a real Airflow: what it waits for, what it returns, what it does not wait for."""

import threading
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets import PartitionDiscoverySensor
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters
from airflow_kafka_offsets.request.policies import parse_policies
from airflow_kafka_offsets.triggers.sensor_waits import PartitionDiscoveryTrigger
from testbed.broker import KafkaBroker
from testbed.dag_runs import RunResult
from testbed.topics import wait_for
from tests.airflow.conftest import Orders
from tests.airflow.fixtures import plan_in_store


def test_waits_for_a_topic_that_does_not_exist_yet(
    run: Callable[..., RunResult],
    xcom: Callable[..., Any],
    broker: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"late-{uuid.uuid4().hex[:8]}"
    looked = threading.Event()
    real_look = PartitionDiscoveryTrigger.look

    def look(self: PartitionDiscoveryTrigger) -> Any:
        found = real_look(self)
        looked.set()  # only now is the topic made: the sensor has seen that it is not there
        return found

    monkeypatch.setattr(PartitionDiscoveryTrigger, "look", look)
    creator = threading.Thread(target=lambda: looked.wait(60) and broker.create_topic(name, 3))
    creator.start()
    try:
        result = run("partitions_awaited", {"topic": name})
    finally:
        creator.join()

    assert result.states("wait") == ["success"]
    assert xcom("partitions_awaited", result, "wait") == {name: [0, 1, 2]}


def test_a_pattern_returns_every_topic_that_matches(
    run: Callable[..., RunResult], xcom: Callable[..., Any], topic: Any
) -> None:
    prefix = f"p{uuid.uuid4().hex[:8]}"
    names = sorted(topic(1, prefix=prefix) for _ in range(2))

    result = run("pattern_awaited", {"topic": prefix})

    assert xcom("pattern_awaited", result, "wait") == {name: [0] for name in names}


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_work_store_that_is_none_fails_at_once(airflow: Any, topic: Any, deferrable: bool) -> None:
    """It is asked for the pipeline's position once the partitions are there."""
    from airflow.sdk.exceptions import AirflowFailException

    name = topic(1)
    sensor = PartitionDiscoverySensor(task_id="wait", topics=name, pipeline_id="p", deferrable=deferrable)
    sensor.work_store = "ftp://lake"  # as a template has rendered it
    with pytest.raises(AirflowFailException, match="work_store ftp://lake cannot be used"):
        sensor.execute({})
    with pytest.raises(AirflowFailException, match="work_store ftp://lake cannot be used"):
        sensor.execute_complete({}, {"topics": {name: [0]}})


@pytest.mark.parametrize("conf", [None, {"kafka_offsets": {"hold": "orders-7", "policies": {"unavailable": "hold"}}}])
def test_the_sensor_does_not_wait_for_what_its_run_may_hold(conf: Any) -> None:
    sensor = PartitionDiscoverySensor(
        task_id="wait", topics="orders", hold=["orders-3"], policies={"data_loss": "advance"}
    )
    trigger = sensor._trigger({"dag_run": SimpleNamespace(conf=conf)})
    found = parse_policies(RequestParameters(policies=trigger.policies, hold=trigger.hold))
    by_run = conf is not None
    assert [found.may_hold(TopicPartition("orders", number)) for number in (3, 7, 8)] == [True, by_run, by_run]


def test_what_a_sensor_may_hold_is_checked_when_its_dag_is_parsed() -> None:
    with pytest.raises(InvalidRequest) as refused:
        PartitionDiscoverySensor(task_id="wait", topics="orders", hold="orders", policies={"unavailable": "wait"})
    assert [problem.split()[:3] for problem in refused.value.problems] == [
        ["policies", "has", "unavailable='wait';"],
        ["hold", "has", "'orders';"],
    ]


def test_the_trigger_survives_its_serialization() -> None:
    from airflow.sdk._shared.module_loading import import_string

    trigger = PartitionDiscoveryTrigger(
        kafka_config_id="k",
        scope=ScopeParameters(topics=["a"], group_id="g").to_dict(),
        min_partitions=2,
        policies={"unavailable": "hold"},
        hold=["a-1"],
        poke_interval=1.5,
    )
    path, arguments = trigger.serialize()
    assert import_string(path)(**arguments).serialize() == (path, arguments)


def test_partitions_that_the_position_lacks_are_reported_as_new(orders: Orders, xcom: Callable[..., Any]) -> None:
    from confluent_kafka.admin import NewPartitions

    orders.produce(1)
    first = orders.run()
    admin = orders.broker.admin()
    admin.create_partitions([NewPartitions(orders.topic, 2)])[orders.topic].result(30)
    wait_for("the second partition is there", lambda: len(orders.broker.offset_bounds(orders.topic)) == 2)
    orders.broker.produce(orders.topic, [(1, None, b"1", None)])
    orders.produced += 1

    second, third = orders.run(), orders.run()

    pushed = [xcom("batch", run, "orders.wait_for_partitions", "new_partitions") for run in (first, second, third)]
    assert pushed == [{}, {orders.topic: [1]}, {}]
    columns = plan_in_store(xcom("batch", second, "orders.resolve", "plan"))["topics"][orders.topic]
    assert (columns["continuity"], columns["start_offset"]) == (["contiguous", "new"], [1, 0])
    assert orders.is_exact()
