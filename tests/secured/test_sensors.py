"""A sensor whose principal lacks a right: at once it says which, and who lacks it, and waits for no topic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets import OffsetLagSensor, PartitionDiscoverySensor, WindowCompleteSensor
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import NotAuthorized
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.triggers.sensor_waits import PartitionDiscoveryTrigger
from tests.secured.conftest import Pipeline

SENSORS: dict[str, Callable[..., Any]] = {
    "partitions": PartitionDiscoverySensor,
    "lag": OffsetLagSensor,
    "window": WindowCompleteSensor,
}


@pytest.mark.parametrize("wait", [{}, {"mode": "poke"}], ids=["deferred", "poking"])
@pytest.mark.parametrize("kind", SENSORS)
def test_a_sensor_names_the_right_to_describe_at_once(pipeline: Pipeline, kind: str, wait: dict[str, Any]) -> None:
    pipeline.as_principals("scram")
    pipeline.kafka.deny("airflow", *pipeline.rights("airflow"))
    more = {"lag": {"group_id": pipeline.group}, "window": {"end": 1}}.get(kind, {})
    sensor = SENSORS[kind](task_id="wait", topics=pipeline.topic, **more, **wait)
    began = time.monotonic()
    with pytest.raises(NotAuthorized, match="User:airflow") as refused:
        sensor.execute({})
    assert f"the right: Describe on topic {pipeline.topic}" in refused.value.remedy
    assert time.monotonic() - began < 10.0, "the wait is ten minutes"


def test_in_the_triggerer_it_is_the_answer_of_the_one_that_lacks_it(pipeline: Pipeline) -> None:
    """Both look by one client, in one round of questions. Which name does not exist Kafka says to nobody else."""
    pipeline.as_principals("scram")
    hidden = f"{pipeline.topic}-hidden"
    pipeline.kafka.plain.create_topic(hidden)

    def trigger(topic: str) -> PartitionDiscoveryTrigger:
        scope = ScopeParameters(topics=[topic]).to_dict()
        pace = {"poke_interval": 0.5, "until_ms": now_ms() + 60_000}
        return PartitionDiscoveryTrigger(kafka_config_id="kafka_default", scope=scope, min_partitions=1, **pace)

    async def run() -> list[Any]:
        return list(await asyncio.gather(*(anext(trigger(one).run()) for one in (hidden, pipeline.topic))))

    lacks, has = (event.payload for event in asyncio.run(run()))
    assert f"the right: Describe on topic {hidden}" in lacks["error"]
    assert has["topics"] == {pipeline.topic: [0, 1]}
