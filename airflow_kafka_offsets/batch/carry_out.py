"""Executes a decision: the only writer. ``None``: somebody was faster, so that everything is looked at anew.

A step that looks once more gives what it saw to a rule, which may refuse although something is on record: live members
(sign), an output that another has (claim), another window in the way (claim, look, withdraw), a group that was moved
(follow). A plan that takes the place of another is looked for before it is on record. Who dies between two steps leaves
a state that the rules know.
"""

from __future__ import annotations

import logging
import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from airflow_kafka_offsets.batch.follow_group import Followed, follow, sign
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.orders import (
    Commit,
    Create,
    Decision,
    Do,
    Follow,
    Leave,
    Nothing,
    Replace,
    RunsBatch,
    Wait,
)
from airflow_kafka_offsets.batch.pipeline_position import adopted, goes_on, group_now, topics_now
from airflow_kafka_offsets.batch.situation import HasBegun, Reports, Situation
from airflow_kafka_offsets.errors import OverlappingRun, WindowOverlaps
from airflow_kafka_offsets.kafka_values import Actor, TopicPartition, in_same_logs
from airflow_kafka_offsets.log.entries import Committed, Planned
from airflow_kafka_offsets.log.output_claims import Kind, claim_output
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import has_begun
from airflow_kafka_offsets.log.verify_reads import ALL_ROWS, Fates, Proof
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.plan.plan import BatchName, Draft, Plan, new_key, placed
from airflow_kafka_offsets.plan.planned_anew import emptied
from airflow_kafka_offsets.plan.position import SavedOffset
from airflow_kafka_offsets.plan.splits import split_ranges
from airflow_kafka_offsets.plan.topic_outputs import outputs_of
from airflow_kafka_offsets.plan.window_claims import Claim, TimeClaim, batch_name_of, claim_of, time_claim_of_name
from airflow_kafka_offsets.stores.store import together

log = logging.getLogger(__name__)
_CHARACTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a run has to do.

    :ivar batch: ``None``: there is nothing to do.
    :ivar splits: the splits that Spark jobs are started for.
    :ivar sentence: what the run does and why; goes on after "This run".
    :ivar waiting: how many offsets have come since the batch was planned: the next run's.
    :ivar is_new: whether this run has begun the batch just now, so that no Spark job knows it.
    :ivar draft: where there is nothing to do: what the look for it has found; ``None`` where nobody had to look.
    """

    batch: StoredBatch | None
    splits: tuple[int, ...]
    sentence: str
    waiting: int = 0
    warnings: tuple[str, ...] = ()
    is_new: bool = False
    draft: Draft | None = None

    @property
    def plan(self) -> Plan | None:
        return self.batch.log.plan if self.batch else None


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What a commit did.

    :ivar batch: the committed batch; ``None`` where there was nothing to commit.
    :ivar by_this: whether this call made the commit; else it was on record before.
    :ivar proof: of the reads; ``None`` where no report was asked for, or nothing was to be read.
    """

    batch: StoredBatch | None
    by_this: bool
    group: Followed
    proof: Proof | None = None
    fates: Fates = ALL_ROWS

    @property
    def plan(self) -> Plan | None:
        return self.batch.log.plan if self.batch else None

    @property
    def written(self) -> Mapping[TopicPartition, tuple[int | None, int]]:
        return self.group.written


def named(draft: Draft, batch: BatchName, by: Actor, reason: str | None = None) -> Plan:
    """The first plan of a batch."""
    splits = split_ranges(draft.partitions, draft.split_count, draft.asked.split_by)
    return placed(draft, batch, by, splits, reason=reason)


def begin(decision: Create, by: Actor, now_ms: int, pipeline: PipelineLog) -> StoredBatch | None:
    """The window, or the next batch of the log, on record."""
    claim, number = decision.claim, decision.number
    if claim is not None:
        plan = named(decision.draft, batch_name_of(claim, pipeline.pipeline_id), by)
        return pipeline.begin_window(claim.name, number, Planned(plan, history=decision.history))
    key = new_key(number, now_ms, "".join(secrets.choice(_CHARACTERS) for _ in range(4)))
    plan = named(decision.draft, BatchName(key, number, decision.after), by, decision.reason)
    batch = pipeline.begin(number, Planned(plan, decision.position, decision.history))
    return batch if batch is not None and pipeline.is_newest(batch) else None


# ── a run's batch or window ───────────────────────────────────────────────────────────────────────────────────────────


def assign(decision: Decision, order: RunsBatch, s: Situation, world: World) -> Assignment | None:
    """:raises OverlappingRun: another run that is running has the batch; waiting helps.

    :raises WindowOverlaps: another window of the pipeline has records of this one.
    :raises OutputTaken: the output is another's; the run has its batch.
    :raises GroupActive: the group has live members; the run has its batch.
    """
    steps = _Steps(order, s, world)
    match decision:
        case Nothing(sentence, draft):
            world.pipeline.bind(order.me.run, None)
            return Assignment(None, (), sentence, warnings=draft.warnings if draft else (), draft=draft)
        case Create():
            return steps.create(decision)
        case Replace(batch, plan):
            again = put_in_place(batch, plan, s, world)
            if again is None:
                return None
            # No job was given a window that was withdrawn.
            return steps.settle(again, plan.splits_to_start(), decision.sentence, is_new=batch.log.plan.withdrawn)
        case Do(_, splits, _, sentence, waiting, warnings):
            mine = taken(decision)
            return None if mine is None else steps.settle(mine, splits, sentence, waiting, warnings)
        case Leave(_, _, sentence, warnings):
            left = taken(decision)
            return None if left is None else Assignment(left, (), sentence, warnings=warnings)
        case Wait(batch):
            holder, name = batch.log.holder, str(batch.log.plan.batch)
            dag_run = (holder.run.dag_id, holder.run.run_id) if holder.run else ("", "")  # nobody waits for a person
            raise OverlappingRun(str(holder), name, *dag_run, batch.next_object)


def taken(decision: Do | Leave) -> StoredBatch | None:
    """The batch, once it is on record who does it, where the decision has an entry that says so."""
    return decision.batch.append(decision.taken) if decision.taken else decision.batch


def put_in_place(batch: StoredBatch, plan: Plan, s: Situation, world: World) -> StoredBatch | None:
    """``plan`` in the place of the batch's current one, if Spark drivers have done no more than the decision knows.

    Before the second look the current plan is put on record once more: a driver that was given it before stops there.
    Who dies after that leaves the batch as it was.
    """
    seen = [(question, answer) for question, answer in s.answers if isinstance(question, HasBegun | Reports)]
    fenced = batch.append(batch.log.planned) if seen else batch
    if fenced is None or any(world.answer(question) != answer for question, answer in seen):
        return None
    return fenced.append(replace(batch.log.planned, plan=plan))


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps that follow once a plan is on record, for one order."""

    order: RunsBatch
    s: Situation
    world: World

    def create(self, decision: Create) -> Assignment | None:
        begun = begin(decision, self.order.me, self.order.request.run_context.now_ms, self.world.pipeline)
        if begun is None:
            return None
        return self.settle(begun, begun.log.plan.splits_to_start(), decision.sentence, is_new=True)

    def settle(
        self,
        batch: StoredBatch,
        splits: Sequence[int],
        sentence: str,
        waiting: int = 0,
        warnings: tuple[str, ...] = (),
        *,
        is_new: bool = False,
    ) -> Assignment:
        """Sign the group or claim the window; then write down which batch this run does, and claim its output."""
        if not self.order.request.window:
            self._sign(batch.log.plan)
            self._put_on_record(batch, "log")
        else:
            claim = claim_of(batch.log.plan)
            if batch.log.committed is None:  # a committed window that is done again stands where it stood
                self._claim(batch, claim, is_new=is_new)
            # Windows by time and by offsets do not see whether they overlap each other: each kind has its own outputs.
            self._put_on_record(batch, "windows" if isinstance(claim, TimeClaim) else "windows by offsets")
        return Assignment(batch, tuple(splits), sentence, waiting, warnings, is_new=is_new)

    def _sign(self, plan: Plan) -> None:
        """Not on another cluster than the plan's: what is in a group there is not this pipeline's to sign."""
        order = self.order
        held, group_id = group_now(order, self.s), order.request.scope.group_id
        here = plan.found.cluster_id == topics_now(order, self.s).cluster_id
        if not order.request.group_follows or held is None or group_id is None or not here:
            return
        signature = CommitMetadata.by(self.world.pipeline.pipeline_id, order.me.instance or "")
        on = goes_on(order, self.s)
        sign(self.world.cluster, group_id, signature, held, self._saved_now(), on.after)

    def _saved_now(self) -> dict[TopicPartition, SavedOffset]:
        """Where the pipeline goes on in the logs that are there now, and where the run adopts the group, there."""
        on = goes_on(self.order, self.s)
        saved = in_same_logs(on.position.offsets, on.position, topics_now(self.order, self.s)) if on.position else {}
        return saved | {tp: SavedOffset(c.offset, c.leader_epoch) for tp, c in adopted(self.order, on).items()}

    def _put_on_record(self, batch: StoredBatch, kind: Kind) -> None:
        pipeline = self.world.pipeline
        records: list[Callable[[], None]] = [partial(pipeline.bind, self.order.me.run, batch)]
        plan = batch.log.plan
        output = (
            plan.asked.output or f"(not named, of pipeline {pipeline.pipeline_id})"
        )  # log and windows may be in one
        outputs = outputs_of(output, plan.topics, self.order.request.set_aside_output)
        records += [partial(claim_output, pipeline.store, output, pipeline.pipeline_id, kind) for output in outputs]
        list(together(pipeline.store, *records))

    def _claim(self, batch: StoredBatch, claim: Claim, *, is_new: bool) -> None:
        """Claim the window's name in each place that it lies in, and give way to one that was there first.

        Of two windows that overlap at least one finds the other; two that plan in the same moment may both be refused.
        """
        pipeline = self.world.pipeline
        name = batch.name.removeprefix("windows/")  # a plan that lost records claims less than its name says
        pipeline.claim(name, claim.places, batch.log.plan_number)
        if batch.log.plan.empty and batch.log.plan.reason is not None:
            return  # given up: else two that have begun would block each other
        others = self._in_the_way(name, claim)
        if others:
            would_be_known = is_new or self.order.request.jobs_tell  # whether a job has begun
            withdrawn = would_be_known and self._withdraw(batch)
            raise WindowOverlaps(str(claim), pipeline.pipeline_id, others, withdrawn)

    def _in_the_way(self, name: str, claim: Claim) -> list[str]:
        """A line for each other window that has, or may have, records of this one."""
        pipeline = self.world.pipeline
        names = {other for place in claim.places for other in pipeline.windows_in(place)} - {name}
        found = []
        for other_name in sorted(names):
            by_time = time_claim_of_name(other_name)
            if by_time is not None and isinstance(claim, TimeClaim) and not claim.overlaps(by_time):
                continue  # its name says enough: no need to read it
            other = pipeline.window(other_name)
            if other is None or (other.log.plan.empty and other.log.committed):
                continue
            if claim.overlaps(claim_of(other.log.plan)):
                found.append(f"{claim_of(other.log.plan)}, by {other.log.by}")
        return found

    def _withdraw(self, batch: StoredBatch) -> bool:
        """Plan the window anew as empty, and commit that at once, if no driver has begun it: so it blocks nobody."""
        if batch.log.committed or has_begun(batch.store, batch.plan_object):
            return False
        # It says which splits to overwrite, for a driver that begins at this moment.
        plan = emptied(batch.log.plan, self.order.me, "withdrawn: it overlaps another window", withdrawn=True)
        withdrawn = batch.append(replace(batch.log.planned, plan=plan))
        if withdrawn is None or has_begun(batch.store, batch.plan_object):
            return False
        entry = Committed(self.order.me, self.order.request.run_context.now_ms, plan.plan_id, position=None)
        return withdrawn.append(entry) is not None


# ── a commit, and what a person orders ────────────────────────────────────────────────────────────────────────────────


def commit(decision: Follow, order: Commit, world: World) -> CommitOutcome | None:
    """Append the commit: that creation *is* the commit. Then the group follows; who dies in between leaves that to the
    retry, or to the next run.
    """
    batch, group = decision.batch, Followed(left_alone="a window moves no group")
    if batch is not None and decision.entry is not None:
        batch = batch.append(decision.entry)
        if batch is None:
            return None
    if batch is None or not batch.log.plan.asked.window:
        group = follow(world, order.me, batch)
    return CommitOutcome(batch, decision.entry is not None, group, decision.proof, decision.fates)
