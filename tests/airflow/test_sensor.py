"""The sensor in a real Airflow: what it waits for, what it returns, what it does not wait for."""

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets import PartitionDiscoverySensor
from airflow_kafka_offsets.triggers.partition_discovery import PartitionDiscoveryTrigger
from testbed.broker import KafkaBroker
from testbed.dag_runs import RunResult
from testbed.topics import wait_for


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


def test_both_topics_and_a_pattern_fail_at_once(airflow: Any) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    sensor = PartitionDiscoverySensor(task_id="wait", topics=["a"], topic_pattern="a.*", deferrable=True)
    with pytest.raises(AirflowFailException, match="exactly one of topics, topic_pattern and partitions"):
        sensor.execute({})


def test_the_trigger_survives_its_serialization() -> None:
    from airflow.sdk._shared.module_loading import import_string

    trigger = PartitionDiscoveryTrigger(
        kafka_config_id="k",
        topics=["a"],
        topic_pattern=None,
        partitions=None,
        include_internal_topics=False,
        min_partitions=2,
        poke_interval=1.5,
    )
    path, arguments = trigger.serialize()
    assert import_string(path)(**arguments).serialize() == (path, arguments)


def test_partitions_that_the_last_checkpoint_lacks_are_reported_as_new(
    run: Callable[..., RunResult], xcom: Callable[..., Any], broker: KafkaBroker, topic: Any, group: str
) -> None:
    from confluent_kafka.admin import NewPartitions

    name = topic(2)
    conf = {"topic": name, "group": group}
    first = run("job_of_bad_manners", conf)
    admin = broker.admin()
    admin.create_partitions([NewPartitions(name, 3)])[name].result(30)
    wait_for("the third partition is there", lambda: len(broker.offset_bounds(name)) == 3)

    second = run("job_of_bad_manners", conf)

    pushed = [xcom("job_of_bad_manners", r, "orders.wait_for_partitions", "new_partitions") for r in (first, second)]
    assert pushed == [{}, {name: [2]}]
    plan = xcom("job_of_bad_manners", second, "orders.resolve", "plan")
    assert plan["topics"][name]["continuity"] == ["contiguous", "contiguous", "new"]
    assert plan["topics"][name]["start_reason"][2] == "new partition → log start"
