"""Compares the topics that a subscription finds with those that were asked for, and with those found before.

A sensor waits while something is missing; a plan refuses where a topic that the pipeline has read is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import assert_never

from airflow_kafka_offsets.errors import TopicVanished
from airflow_kafka_offsets.kafka_values import TopicDescription, TopicPartition, by_topic
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.subscription import PartitionSet, Subscription, TopicList, TopicPattern


def missing_for(
    subscription: Subscription,
    topics: Mapping[str, TopicDescription],
    min_partitions: int,
    may_hold: Callable[[TopicPartition], bool] = lambda _: False,
) -> list[str]:
    """One phrase for each thing that is not there yet; empty when the subscription is met.

    :param may_hold: whether a partition needs no leader.
    """
    missing: list[str] = []
    match subscription:
        case TopicList(names):
            missing += [f"topic {name} does not exist" for name in names if name not in topics]
        case TopicPattern(pattern):
            if not topics:
                missing.append(f"no topic that this client may describe matches {pattern!r}")
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
        leaderless = (TopicPartition(name, number) for number in description.leaderless)
        missing += [f"{tp} has no leader" for tp in leaderless if not may_hold(tp)]
    return missing


def new_since(position: Position, topics: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The partitions of each topic that the position does not hold: ``{"orders": [6]}``."""
    found = (TopicPartition(name, number) for name, numbers in topics.items() for number in numbers)
    return by_topic(tp for tp in found if tp not in position.offsets)


def compare_topics(
    request: PlanRequest, topics: Mapping[str, TopicDescription], position: Position | None
) -> tuple[tuple[str, ...], list[str]]:
    """The topics that vanished from a pattern's match, and what the plan should say of missing ones.

    A topic without the right to describe it is absent from the cluster's list like one that was deleted.

    :raises TopicVanished: there is one, and the policy ``topic_vanished`` is ``fail``.
    """
    if position is None:
        return (), []
    known = {tp.topic for tp in position.offsets}
    missing, vanished = sorted(known - set(topics)), vanished_topics(request, topics, known)
    warnings = [f"Topics {', '.join(vanished)} are not matched any more; their offsets stay saved."] if vanished else []
    unsubscribed = [topic for topic in missing if topic not in vanished]
    if unsubscribed and request.policies.filter_restored_partitions:
        warnings.append(
            f"The pipeline's position also has offsets of {', '.join(unsubscribed)}, no longer subscribed to: they are "
            "saved, and not read (filter_restored_partitions=False reads them)."
        )
    return vanished, warnings


def vanished_topics(
    request: PlanRequest, topics: Mapping[str, TopicDescription], known: Collection[str]
) -> tuple[str, ...]:
    """Those of the known topics that the pattern would match, and does not find.

    :raises TopicVanished: there is one, and the policy ``topic_vanished`` is ``fail``.
    """
    subscription = request.scope.subscription
    pattern = subscription if isinstance(subscription, TopicPattern) else None
    vanished = tuple(topic for topic in sorted(set(known) - set(topics)) if pattern and pattern.matches(topic))
    if vanished and request.policies.answers["topic_vanished"] == "fail":
        raise TopicVanished(
            [f"{topic}: the pipeline has read it, and the pattern finds it no more" for topic in vanished],
            "It was deleted, or this client may no longer describe it (ACL Describe on the topic): the two look the "
            'same. Give the right back, or set policies={"topic_vanished": "drop"}'
            f"{'' if request.window else '; its offsets stay saved in either case'}.",
        )
    return vanished
