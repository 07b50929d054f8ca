"""Decide, observe, carry out: one loop serves every order.

::

    order ─► decide ─► carry out ─► outcome
              │ ▲ ▲        │
     question ▼ │ └────────┘ somebody was faster: nothing is known any more
           observe

A decision says what it lacks, one question after the other, and is made anew with the answer. So the order of the looks
stands where they are needed. A dry run is the same way, over a log and a cluster that stay as they are (``preview``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from airflow_kafka_offsets.batch import carry_out
from airflow_kafka_offsets.batch.carry_out import Assignment, CommitOutcome
from airflow_kafka_offsets.batch.decide import decide_commit, decide_run
from airflow_kafka_offsets.batch.decide_by_hand import decide_leave_out, decide_redo, decide_reset, decide_take_over
from airflow_kafka_offsets.batch.follow_group import Followed, follow, hand_over
from airflow_kafka_offsets.batch.look_ups import World, log_alone
from airflow_kafka_offsets.batch.orders import (
    Commit,
    Do,
    LeaveOut,
    PlanReference,
    Redo,
    Replace,
    Reset,
    RunsBatch,
    SetPosition,
    TakeOver,
)
from airflow_kafka_offsets.batch.situation import Lacking, Situation
from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.position import Move

log = logging.getLogger(__name__)
D = TypeVar("D")
T = TypeVar("T")
_MOST_TRIES = 100  # each is lost to a writer that was faster; so many in a row are no race any more
_MOST_QUESTIONS = 50  # no decision needs half as many


@dataclass(frozen=True, slots=True)
class ResetOutcome:
    """What a reset did, or would do.

    :ivar batch: ``None``: every partition is there already, and only the group is renewed.
    :ivar stays: partitions that the target has no offset for: they stay where they are.
    """

    batch: StoredBatch | None
    moves: tuple[Move, ...]
    stays: tuple[TopicPartition, ...]
    group: Followed


def decided(decide: Callable[[Situation], D], world: World, s: Situation | None = None) -> tuple[D, Situation]:
    """What is to be done, and by which answers: what the decision lacks is asked. Nothing is written.

    :raises KafkaOffsetsError: why it cannot be; or the store or the cluster does not answer.
    """
    s = s or Situation(world.pipeline.pipeline_id, world.pipeline.store.uri)
    for _ in range(_MOST_QUESTIONS):
        try:
            return decide(s), s
        except Lacking as lacking:
            question = lacking.question
        s = s.with_answer(question, world.answer(question))
    raise RuntimeError(f"a decision asked {_MOST_QUESTIONS} questions, the last of them {question}")


def assign_batch(order: RunsBatch, world: World) -> Assignment:
    """Decide what a run does, and put it on record before anything is read.

    :raises OverlappingRun: another run that is running has the batch; waiting helps.
    :raises WindowOverlaps: another window of the pipeline has records of this one.
    :raises RefusedError: to go on would lose records or read them twice; nothing was written.
    """
    return _until_done(
        partial(decide_run, order), lambda decision, s: carry_out.assign(decision, order, s, world), world
    )


def commit_batch(order: Commit, world: World) -> CommitOutcome:
    """Verify the batch's reads, commit it, and let the group follow.

    :raises ReadNotVerified: the reports do not show that the batch was read.
    :raises PlanReplaced: the batch was planned anew since Spark was given its plan.
    :raises GroupMoved: somebody else wrote to the group; nothing was committed.
    :raises StoreUnavailable: this is not the store that the run was planned in.
    """
    return _until_done(partial(decide_commit, order), lambda found, _: carry_out.commit(found, order, world), world)


def set_position(order: Reset, world: World) -> ResetOutcome:
    """Set the position, and let the group follow.

    :raises ResetRefused: a batch is unfinished; or records would be read again, and nobody has said that this is meant.
    :raises GroupMoved: somebody else wrote to the group.
    :raises GroupActive: the group has live members.
    """

    def carry(decision: SetPosition | None, _: Situation) -> ResetOutcome | None:
        if decision is None:
            return None
        found = (decision.moves, decision.stays)
        if decision.create is None:
            return ResetOutcome(None, *found, follow(world, order.me))
        batch = carry_out.begin(decision.create, decision.by, order.now_ms, world.pipeline)
        if batch is None:
            return None
        done = commit_batch(Commit(PlanReference(batch.name, batch.log.plan.plan_id), order.me, order.now_ms), world)
        return ResetOutcome(done.batch, *found, done.group)

    return _until_done(partial(decide_reset, order), carry, world)


def leave_out(order: LeaveOut, pipeline: PipelineLog) -> tuple[Plan, Plan]:
    """Before and after: the batch's plan, and the one that leaves out what the order says.

    :raises BatchClosed: it names another batch than the unfinished one.
    :raises NoPosition: there is no such batch or window.
    """

    world = log_alone(pipeline)

    def carry(decision: Replace, s: Situation) -> tuple[Plan, Plan] | None:
        done = carry_out.put_in_place(decision.batch, decision.plan, s, world)
        return None if done is None else (decision.batch.log.plan, decision.plan)

    return _until_done(partial(decide_leave_out, order), carry, world)


def redo_batch(order: Redo, world: World) -> StoredBatch:
    """Put on record that a person does a committed batch again.

    :raises BatchClosed: it is not committed, so that the pipeline's next run does it anyway.
    :raises DataLoss: its records are gone; nothing was written.
    """
    return _until_done(partial(decide_redo, order), lambda decision, _: carry_out.taken(decision), world)


def take_pipeline_over(order: TakeOver, world: World) -> tuple[StoredBatch, Followed]:
    """Mark the group's offsets with whose the pipeline is, and put that on record, on its newest batch.

    :raises BatchClosed: it is this Airflow's already; nothing was written.
    :raises GroupActive: the group has live members; nothing was written.
    """

    def carry(decision: Do, _: Situation) -> tuple[StoredBatch, Followed] | None:
        group = hand_over(world, order.me, decision.batch)
        taken = carry_out.taken(decision)
        return None if taken is None else (taken, group)

    return _until_done(partial(decide_take_over, order), carry, world)


def _until_done(decide: Callable[[Situation], D], carry: Callable[[D, Situation], T | None], world: World) -> T:
    for _ in range(_MOST_TRIES):
        with world.around.timed("decide"):
            found = decided(decide, world)
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
