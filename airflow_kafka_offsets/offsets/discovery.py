"""Whether a subscription is met: what a sensor still waits for, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from airflow_kafka_offsets.offsets.model import TopicDescription, by_topic
from airflow_kafka_offsets.offsets.spec import PartitionSet, Subscription, TopicList, TopicPattern


def missing_for(subscription: Subscription, topics: Mapping[str, TopicDescription], min_partitions: int) -> list[str]:
    """One phrase for each thing that is not there yet; empty when the subscription is met."""
    missing: list[str] = []
    match subscription:
        case TopicList(names):
            missing += [f"topic {name} does not exist" for name in names if name not in topics]
        case TopicPattern(pattern):
            if not topics:
                missing.append(f"no topic matches {pattern!r}")
        case PartitionSet(partitions):
            for name, numbers in by_topic(partitions).items():
                absent = [n for n in numbers if name not in topics or n not in topics[name].leaders]
                missing += [f"{name}[{n}] does not exist" for n in absent]
        case _ as never:
            assert_never(never)
    for name in sorted(topics):
        description = topics[name]
        if len(description.leaders) < min_partitions and not isinstance(subscription, PartitionSet):
            missing.append(f"{name} has {len(description.leaders)} of {min_partitions} partitions")
        missing += [f"{name}[{number}] has no leader" for number in description.leaderless]
    return missing


def discovered(topics: Mapping[str, TopicDescription]) -> dict[str, list[int]]:
    """``{"orders": [0, 1]}``, as the sensor returns it."""
    return {name: sorted(topics[name].leaders) for name in sorted(topics)}
