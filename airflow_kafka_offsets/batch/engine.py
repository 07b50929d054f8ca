"""Observe, decide, carry out: one loop serves every order.

::

    order ─► observe ─► decide ─► carry out ─► outcome
                ▲         │ ▲          │
                │     Ask ▼ │ answer   │ somebody was faster
                └─────────────────────-┘

A dry run is the same way, over a log and a cluster that stay as they are (``preview``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from airflow_kafka_offsets.batch import carry_out
from airflow_kafka_offsets.batch.carry_out import Assignment, CommitOutcome
from airflow_kafka_offsets.batch.decide import decide
from airflow_kafka_offsets.batch.follow_group import Followed, follow
from airflow_kafka_offsets.batch.look_ups import World, log_alone
from airflow_kafka_offsets.batch.orders import (
    Commit,
    Decision,
    Do,
    LeaveOut,
    Order,
    PlanReference,
    Redo,
    Replace,
    Reset,
    RunsBatch,
    SetPosition,
    TakeOver,
)
from airflow_kafka_offsets.batch.situation import (
    BatchIn,
    Lacking,
    NewestBatch,
    OffsetsOfGroup,
    Question,
    Situation,
    TopicsOf,
)
from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.position import Move, Target
from airflow_kafka_offsets.request.parse_request import PlanRequest

log = logging.getLogger(__name__)
T = TypeVar("T")
_MOST_TRIES = 100  # each is lost to a writer that was faster; so many in a row are no race any more


@dataclass(frozen=True, slots=True)
class ResetOutcome:
    """What a reset did, or would do.

    :ivar batch: ``None``: every partition is there already, and only the group is renewed.
    :ivar stays: partitions that the target has no offset for: they stay where they are.
    """

    batch: StoredBatch | None
    target: Target
    moves: tuple[Move, ...]
    stays: tuple[TopicPartition, ...]
    group: Followed


def decided(order: Order, world: World) -> tuple[Decision, Situation]:
    """What is to be done, and by which answers; nothing is written.

    :raises KafkaOffsetsError: why it cannot be.
    """
    return ask_until_decided(partial(decide, order), observe(order, world), world)


def assign_batch(order: RunsBatch, world: World) -> Assignment:
    """Decide what a run does, and put it on record before anything is read.

    :raises OverlappingRun: another run that is running has the batch; waiting helps.
    :raises WindowOverlaps: another window of the pipeline has records of this one.
    :raises RefusedError: to go on would lose records or read them twice; nothing was written.
    """
    return _until_done(order, world, lambda decision, s: carry_out.assign(decision, order, s, world))


def commit_batch(order: Commit, world: World) -> CommitOutcome:
    """Verify the batch's reads, commit it, and let the group follow.

    :raises ReadNotVerified: the reports do not show that the batch was read.
    :raises PlanReplaced: the batch was planned anew since Spark was given its plan.
    :raises GroupMoved: somebody else wrote to the group; nothing was committed.
    :raises StoreUnavailable: this is not the store that the run was planned in.
    """
    return _until_done(order, world, lambda decision, _: carry_out.commit(decision, order, world))


def set_position(order: Reset, world: World) -> ResetOutcome:
    """Set the position, and let the group follow.

    :raises ResetRefused: a batch is unfinished; or records would be read again, and nobody has said that this is meant.
    :raises GroupMoved: somebody else wrote to the group.
    :raises GroupActive: the group has live members.
    """

    def carry(decision: Decision, _: Situation) -> ResetOutcome | None:
        if not isinstance(decision, SetPosition):
            return None  # the log went on while it was looked at
        found = (decision.target, decision.moves, decision.stays)
        if decision.draft is None:
            return ResetOutcome(None, *found, follow(world, order.me))
        batch = carry_out.begin_position(decision, decision.draft, order, world)
        if batch is None:
            return None
        done = commit_batch(Commit(PlanReference(batch.name, batch.log.plan.plan_id), order.me, order.now_ms), world)
        return ResetOutcome(done.batch, *found, done.group)

    return _until_done(order, world, carry)


def leave_out(order: LeaveOut, pipeline: PipelineLog) -> tuple[Plan, Plan]:
    """Before and after: the batch's plan, and the one that leaves out what the order says.

    :raises BatchClosed: it names another batch than the unfinished one.
    :raises NoPosition: there is no such batch or window.
    """

    world = log_alone(pipeline)

    def carry(decision: Decision, s: Situation) -> tuple[Plan, Plan] | None:
        if not isinstance(decision, Replace):
            return None
        done = carry_out.put_in_place(decision.batch, decision.plan, s, world)
        return None if done is None else (decision.batch.log.plan, decision.plan)

    return _until_done(order, world, carry)


def redo_batch(order: Redo, world: World) -> StoredBatch:
    """Put on record that a person does a committed batch again.

    :raises BatchClosed: it is not committed, so that the pipeline's next run does it anyway.
    :raises DataLoss: its records are gone; nothing was written.
    """

    def carry(decision: Decision, _: Situation) -> StoredBatch | None:
        return decision.batch.append(decision.taken) if isinstance(decision, Do) and decision.taken else None

    return _until_done(order, world, carry)


def take_pipeline_over(order: TakeOver, world: World) -> tuple[StoredBatch, Followed]:
    """Put on record whose the pipeline is, on its newest batch, and mark the group's offsets with it.

    :raises BatchClosed: it is this Airflow's already; nothing was written.
    :raises GroupMoved: somebody else wrote to the group; the log says who has the pipeline by then.
    """

    def carry(decision: Decision, _: Situation) -> tuple[StoredBatch, Followed] | None:
        taken = decision.batch.append(decision.taken) if isinstance(decision, Do) and decision.taken else None
        return None if taken is None else (taken, follow(world, order.me))

    return _until_done(order, world, carry)


def _until_done(order: Order, world: World, carry: Callable[[Decision, Situation], T | None]) -> T:
    for _ in range(_MOST_TRIES):
        with world.around.timed("decide"):
            found = decided(order, world)
        with world.around.timed("carry out"):
            outcome = carry(*found)
        if outcome is not None:
            return outcome
        log.info("Somebody was faster in pipeline %s: looking again", world.pipeline.pipeline_id)
    raise StoreUnavailable(
        f"Cannot write to pipeline {world.pipeline.pipeline_id!r}",
        f"other writers were faster {_MOST_TRIES} times in a row",
        "See which runs work on this pipeline (kafka-offsets show), and try again.",
        retriable=True,
    )


# ── the looks that an order always needs, in the order that the rules need ────────────────────────────────────────────
# The group is looked at before the log: the key of a batch that the log does not know then means that the log is old.
# What only some decisions need is asked later, one question after the other.


_MOST_QUESTIONS = 50  # no decision needs half as many


def observe(order: Order, world: World) -> Situation:
    """:raises KafkaOffsetsError: the store or the cluster does not answer."""
    s = Situation(world.pipeline.pipeline_id, world.pipeline.store.uri)
    match order:
        case RunsBatch(request) if request.window:
            s = answered(s, TopicsOf(request.scope.subscription), world)
        case RunsBatch(request, me):
            s = answered(topics_and_group(request, s, world), NewestBatch(me.run), world)
        case Commit(reference) if reference.folder is not None:
            s = answered(s, BatchIn(reference.folder), world)
        case Reset():
            s = answered(s, NewestBatch(None), world)
    return s


def ask_until_decided(decide: Callable[[Situation], T], s: Situation, world: World) -> tuple[T, Situation]:
    """The decision, and the situation that it was made in: what it lacks is asked, one question after the other."""
    for _ in range(_MOST_QUESTIONS):
        try:
            return decide(s), s
        except Lacking as lacking:
            question = lacking.question
        s = answered(s, question, world)
    raise RuntimeError(f"a decision asked {_MOST_QUESTIONS} questions, the last of them {question}")


def topics_and_group(request: PlanRequest, s: Situation, world: World) -> Situation:
    topics = TopicsOf(request.scope.subscription)
    s = answered(s, topics, world)
    return answered(s, OffsetsOfGroup(request, tuple(s.need(topics).partitions())), world)


def answered(s: Situation, question: Question[Any], world: World) -> Situation:
    return s.with_answer(question, world.answer(question))
