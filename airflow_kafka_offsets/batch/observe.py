"""The looks that an order always needs, in the order that the rules need.

The group is looked at before the log: the key of a batch that the log does not know then means that the log is old.
What only some decisions need is asked later, one ``Ask`` after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.orders import Commit, NextBatch, Order, Reset, Window
from airflow_kafka_offsets.batch.situation import (
    Ask,
    BatchIn,
    NewestBatch,
    OffsetsOfGroup,
    Question,
    Situation,
    TopicsOf,
)
from airflow_kafka_offsets.request.parse_request import PlanRequest

T = TypeVar("T")
_MOST_QUESTIONS = 50  # no decision needs half as many


def observe(order: Order, world: World) -> Situation:
    """:raises KafkaOffsetsError: the store or the cluster does not answer."""
    s = Situation(world.pipeline.pipeline_id, world.pipeline.store.uri)
    match order:
        case NextBatch(request, me):
            s = answered(topics_and_group(request, s, world), NewestBatch(me.run), world)
        case Window(request):
            s = answered(s, TopicsOf(request.scope.subscription), world)
        case Commit(reference) if reference.folder is not None:
            s = answered(s, BatchIn(reference.folder), world)
        case Reset():
            s = answered(s, NewestBatch(None), world)
    return s


def ask_until_decided(decide: Callable[[Situation], T | Ask], s: Situation, world: World) -> tuple[T, Situation]:
    """The decision, and the situation that it was made in: what it lacks is asked, one question after the other."""
    for _ in range(_MOST_QUESTIONS):
        decision = decide(s)
        if not isinstance(decision, Ask):
            return decision, s
        s = answered(s, decision.question, world)
    raise RuntimeError(f"a decision asked {_MOST_QUESTIONS} questions, the last of them {decision}")


def topics_and_group(request: PlanRequest, s: Situation, world: World) -> Situation:
    topics = TopicsOf(request.scope.subscription)
    s = answered(s, topics, world)
    return answered(s, OffsetsOfGroup(request, tuple(s.need(topics).partitions())), world)


def answered(s: Situation, question: Question[Any], world: World) -> Situation:
    return s.with_answer(question, world.answer(question))
