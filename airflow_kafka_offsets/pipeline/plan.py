"""What a run does: the batch that is unfinished, its own once more, or a new one (docs/log.md, rules 1 to 3).

::

    look at the topics ─► at the group ─► at the log ─► next step ─┬─► plan the next batch ─┐
                                                                   ├─► do, or do again ─────┼─► sign ─► bind ─► claim
                                                                   ├─► plan anew in place ──┘
                                                                   └─► nothing to do

The group is looked at before the log: a mark of a batch that the log does not know then means that the log is old.
Whatever an exclusive creation refuses, somebody else was faster: look again, decide again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from airflow_kafka_offsets.collector import only_new_garbage
from airflow_kafka_offsets.errors import (
    BatchClosed,
    BatchGone,
    DataLoss,
    InvalidRequest,
    OverlappingRun,
    StoreBehindGroup,
    WorkStoreLost,
)
from airflow_kafka_offsets.offsets.batch.anew import planned_anew, skipped
from airflow_kafka_offsets.offsets.batch.key import number_of
from airflow_kafka_offsets.offsets.batch.log import (
    Actor,
    Do,
    DoAgain,
    Leave,
    Planned,
    PlanNext,
    Step,
    Taken,
    Wait,
    next_step,
)
from airflow_kafka_offsets.offsets.batch.mark import Held, Mark, Signature, newest_batch, position_of_marks
from airflow_kafka_offsets.offsets.model import ClusterDescription, RunKey, TopicPartition
from airflow_kafka_offsets.offsets.plan.plan import BatchName, OffsetPlan
from airflow_kafka_offsets.offsets.plan.position import KeptOffset, Position, position_after, position_within
from airflow_kafka_offsets.offsets.plan.splits import splits_to_start
from airflow_kafka_offsets.offsets.request.parse import PlanRequest
from airflow_kafka_offsets.pipeline.draft import Start, draft
from airflow_kafka_offsets.pipeline.group import (
    Cluster,
    group_moved,
    look_at_group,
    refuse_another_airflow,
    refuse_another_pipeline,
    sign,
)
from airflow_kafka_offsets.pipeline.keys import draw_key
from airflow_kafka_offsets.pipeline.records import look_for_records
from airflow_kafka_offsets.pipeline.said import (
    NOTHING_AT_FIRST,
    does,
    does_once_more,
    has_nothing,
    leaves,
    leaves_for_good,
    plans_next,
)
from airflow_kafka_offsets.pipeline.surroundings import Surroundings
from airflow_kafka_offsets.stores.outputs import Kind, claim_output
from airflow_kafka_offsets.stores.pipeline_log import BatchOfRun, PipelineLog, StoredBatch
from airflow_kafka_offsets.stores.reads import has_begun, highest_attempts, is_read
from airflow_kafka_offsets.stores.store import together

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a run has to do.

    :ivar batch: ``None``: there is nothing to do.
    :ivar splits: the splits that Spark jobs are started for.
    :ivar said: what the run does and why; goes on after "This run".
    :ivar waiting: how many offsets have come since the batch was planned: the next run's.
    """

    batch: StoredBatch | None
    splits: tuple[int, ...]
    said: str
    waiting: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def plan(self) -> OffsetPlan | None:
        return self.batch.log.plan if self.batch else None


@dataclass(frozen=True, slots=True)
class Asker:
    """A request, the run that it is for, and the log of its pipeline.

    :ivar run: ``None`` for somebody who only wants to see what a run would do.
    """

    request: PlanRequest
    run: RunKey | None
    pipeline: PipelineLog
    cluster: Cluster
    around: Surroundings

    @property
    def me(self) -> Actor:
        return Actor(self.run, self.around.instance)

    @property
    def signature(self) -> Signature:
        return Signature.of(self.pipeline.pipeline_id, self.around.instance)

    def signed(self, plan: OffsetPlan) -> OffsetPlan:
        """``plan`` as this run makes it."""
        return replace(plan, run=self.run, instance=self.around.instance)


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of topics, group and log, before anything is decided.

    :ivar held: of the group; ``None`` where it was not asked.
    :ivar newest: the newest batch of the log.
    :ivar own: which batch this run took before.
    :ivar position: where the pipeline goes on; ``None`` where it has no position yet.
    :ivar after: the key of the batch that the position is after.
    :ivar marked: the key of the newest batch that the group knows of.
    :ivar foreign: what somebody else wrote to the group, where a policy says what then.
    :ivar told_by_group: the position is the one of the group's marks: the log is lost, or behind them.
    :ivar restart: the restart word that is to be applied.
    """

    description: ClusterDescription
    held: Held | None
    newest: StoredBatch | None
    own: BatchOfRun | None
    position: Position | None
    after: str | None
    marked: str | None
    foreign: Held = field(default_factory=dict)
    told_by_group: bool = False
    restart: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def next_number(self) -> int:
        """Above the newest batch and above the group's mark, so that no number comes back, whatever was lost."""
        newest = self.newest.log.plan.batch if self.newest else None
        return max(newest.number or 0 if newest else 0, number_of(self.marked)) + 1


@only_new_garbage()
def plan_batch(asker: Asker) -> Assignment:
    """Decide what the run does, and put it on record before anything is read.

    :raises OverlappingRun: another run that is running has the batch; waiting helps.
    :raises RefusedError: to go on would lose records or read them twice; nothing was written.
    """
    while True:
        assignment = _decide(asker, _look(asker))
        if assignment is not None:
            return assignment
        log.info("Somebody was faster in pipeline %s: looking again", asker.pipeline.pipeline_id)


def foresee(asker: Asker) -> OffsetPlan:
    """What a new run would do now. Nothing is written.

    :raises RefusedError: as the run would be refused.
    """
    seen = _look(asker)
    batch = seen.newest
    if batch is None or batch.log.committed or seen.told_by_group:
        return _draft_next(asker, seen)
    plan, skip, reason = batch.log.plan, asker.request.words.skip, _why_anew(asker, seen)
    if skip is not None:
        return skipped(plan, asker.signed(plan), skip)
    if reason is not None:
        return planned_anew(plan, _draft_anew(asker, seen, batch), reason)
    return plan.with_warnings([f"{plan.batch} is not committed: the next run does it again, as it is."])


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _look(asker: Asker) -> Seen:
    """Topics, group, log, in this order. They agree, or it raises (docs/log.md, "When log and group disagree")."""
    request, pipeline, signature = asker.request, asker.pipeline, asker.signature
    description = asker.cluster.describe(request.scope.subscription)
    held, warnings = look_at_group(request, asker.cluster, description.partitions())
    newest, own = _look_at_log(asker)
    follows = held if held is not None and request.mirrors else {}  # checkpoint-only neither looks nor signs
    marks = signature.own(follows)
    refuse_another_airflow(request, signature, newest, marks)
    position, after = _position_of(newest)
    restart = _restart_word(request, newest)
    seen = Seen(
        description, held, newest, own, position, after, newest_batch(marks), restart=restart, warnings=tuple(warnings)
    )
    told = _position_of_marks(seen, marks)
    if newest is None:
        refuse_another_pipeline(request, signature, follows)
        if restart is None and told is None and asker.run and asker.around.has_succeeded_before(asker.run):
            raise WorkStoreLost(pipeline.pipeline_id, pipeline.store.uri, asker.run.task_id)
    if restart is not None:
        return seen
    if newest is None and told is not None:
        warning = (
            f"The work store has no batch of this pipeline: it goes on from the group's marks, after {seen.marked}."
        )
        seen = replace(seen, position=told, after=seen.marked, told_by_group=True, warnings=(*warnings, warning))
    elif number_of(seen.marked) > _last_number(newest):
        match request.policies.on_group_moved:
            case "fail":
                numbers = number_of(after), number_of(seen.marked)
                raise StoreBehindGroup(pipeline.pipeline_id, pipeline.store.uri, *numbers)
            case "adopt-group":
                seen = replace(seen, position=told, after=seen.marked, told_by_group=True)
    elif newest is None:
        return seen  # a first plan takes the group over
    position = seen.position
    foreign = signature.foreign(follows, position, _recorded(newest))
    if foreign and request.policies.on_group_moved == "fail" and not _is_of_another_cluster(position, description):
        raise group_moved(request.scope.group_id, foreign, position)
    return replace(seen, foreign=foreign)


def _look_at_log(asker: Asker) -> tuple[StoredBatch | None, BatchOfRun | None]:
    pipeline, run = asker.pipeline, asker.run
    if run is None:
        return pipeline.newest(), None
    newest, own = together(pipeline.store, pipeline.newest, partial(pipeline.batch_of_run, run))
    return newest, own


def _position_of(newest: StoredBatch | None) -> tuple[Position | None, str | None]:
    """The position of the log, and the key of the batch that it is after."""
    if newest is None:
        return None, None
    batch, committed = newest.log.plan.batch, newest.log.committed
    assert batch is not None  # a stored plan has one
    if committed is not None:
        return committed.position, batch.key
    return newest.log.planned.position, batch.after


def _last_number(newest: StoredBatch | None) -> int:
    """The highest number that the group may carry: an unfinished batch knew all marks below its own."""
    batch = newest.log.plan.batch if newest else None
    if newest is None or batch is None or batch.number is None:
        return 0
    return batch.number if newest.log.committed else batch.number - 1


def _position_of_marks(seen: Seen, marks: Mapping[TopicPartition, Mark]) -> Position | None:
    ids = {name: topic.topic_id for name, topic in seen.description.topics.items()}
    return position_of_marks(seen.held or {}, marks, seen.description.cluster_id, ids, seen.position)


def _restart_word(request: PlanRequest, newest: StoredBatch | None) -> str | None:
    word = request.words.restart
    return word if word is not None and (newest is None or word not in newest.log.plan.restarts) else None


def _recorded(newest: StoredBatch | None) -> dict[TopicPartition, int | None]:
    """What an unfinished plan has recorded of the group: it may not have signed that yet."""
    if newest is None or newest.log.committed:
        return {}
    return {p.topic_partition: p.committed_offset for p in newest.log.plan.partitions}


def _is_of_another_cluster(position: Position | None, description: ClusterDescription) -> bool:
    return position is not None and position.cluster_id != description.cluster_id


# ── deciding ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _decide(asker: Asker, seen: Seen) -> Assignment | None:
    """Do the next step. ``None``: another writer was faster; look again."""
    own = seen.own
    if own is not None and own.folder is None:
        return Assignment(None, (), NOTHING_AT_FIRST)
    batch = seen.newest if own is None else _own_batch(asker, seen, own)
    step = next_step(
        asker.me,
        batch.log if batch else None,
        own=own is not None,
        again=asker.request.words.redo,
        is_running=asker.around.is_running,
    )
    if isinstance(step, Do) and seen.told_by_group:
        step = PlanNext()  # the group knows that batch, or a later one, as committed: it is passed by
    _refuse_words(asker.request, batch, step)
    match step, batch:
        case PlanNext(), _:
            return _plan_next(asker, seen)
        case Wait(holder), StoredBatch():
            raise overlapping(holder, batch)
        case Do(take), StoredBatch():
            return _do(asker, seen, batch, take)
        case DoAgain(), StoredBatch():
            return _do_again(asker, seen, batch)
        case Leave(by), StoredBatch():
            return leave(asker, batch, leaves(str(batch.log.plan.batch), by))
    raise AssertionError(f"{step} without a batch")


def overlapping(holder: Actor, batch: StoredBatch) -> OverlappingRun:
    assert holder.run is not None  # nobody waits for a person
    next_entry = f"{batch.folder}/{batch.log.next_number}.json"
    return OverlappingRun(str(holder), str(batch.log.plan.batch), holder.run.dag_id, holder.run.run_id, next_entry)


def _own_batch(asker: Asker, seen: Seen, own: BatchOfRun) -> StoredBatch:
    """:raises BatchGone: it is no longer there, or will never be committed."""
    batch = asker.pipeline.read(own.folder or "")
    newest = seen.newest.folder if seen.newest else None
    if batch is None:
        raise BatchGone(str(asker.run), f"batch {own.key}", "was cleaned away", own.output)
    if not batch.log.committed and batch.folder != newest:
        raise BatchGone(str(asker.run), f"batch {own.key}", "was passed by when the group was adopted", own.output)
    return batch


def _refuse_words(request: PlanRequest, batch: StoredBatch | None, step: Step) -> None:
    """:raises BatchClosed: a person's word names what it cannot change."""
    words, name = request.words, batch.log.plan.batch if batch else None
    if words.re_plan and isinstance(step, DoAgain | Leave):
        raise BatchClosed("re_plan", str(name), "it is committed")
    if words.skip is None or isinstance(step, Wait):
        return
    if not isinstance(step, Do) or name is None:
        raise BatchClosed("skip", words.skip.batch, "there is no unfinished batch for this run to do")
    if words.skip.batch != name.key:
        raise BatchClosed("skip", words.skip.batch, f"the unfinished batch is {name.key}")


# ── carrying out ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _plan_next(asker: Asker, seen: Seen) -> Assignment | None:
    """Plan a new batch from the position on; nothing if there are no new records."""
    request = asker.request
    if request.occasion.run_type == "backfill":
        raise InvalidRequest(
            (
                "A backfill run does its own batch again, or reads a window; this one has no batch. Use "
                "startup_mode='timestamp' and bounded_mode='timestamp', which take the run's data interval, or its "
                "partition.",
            )
        )
    plan = _draft_next(asker, seen)
    if plan.empty and not _orders_something(asker, seen) and not _records_something(plan, seen.position):
        asker.pipeline.bind(asker.run, None)
        return Assignment(None, (), has_nothing(seen.after), warnings=plan.warnings)
    number = seen.next_number
    key = draw_key(number, request.occasion.now_ms)
    plan = replace(asker.signed(plan), batch=BatchName(key, number, seen.after))
    batch = asker.pipeline.begin(number, Planned(plan, seen.position))
    if batch is None or not asker.pipeline.is_newest(batch):
        return None
    adopts = bool(seen.foreign) and request.policies.on_group_moved == "adopt-group"
    return _settle(
        asker, seen, batch, plans_next(plan, restart=seen.restart, adopts=adopts, told_by_group=seen.told_by_group)
    )


def _draft_next(asker: Asker, seen: Seen) -> OffsetPlan:
    adopted = seen.foreign if asker.request.policies.on_group_moved == "adopt-group" else {}
    applied = seen.newest.log.plan.restarts if seen.newest else ()
    if seen.restart is not None:
        start = Start(None, kept=seen.position, applied=applied, restart=seen.restart)
    else:
        before_ms = seen.newest.log.plan.resolved_at_ms if seen.newest else None
        start = Start(seen.position, kept=seen.position, adopted=adopted, applied=applied, planned_before_ms=before_ms)
    plan = draft(asker.request, asker.cluster, seen.description, seen.held, start)
    return plan.with_warnings((*seen.warnings, *_set_back_warning(plan, seen)))


def _orders_something(asker: Asker, seen: Seen) -> bool:
    """Whether a person's order has to be on record, also where nothing is new: else it holds for this run alone."""
    wrote = seen.newest.log.last_instance if seen.newest else None
    takes_over = wrote not in (None, asker.around.instance)
    return bool(seen.foreign) or seen.restart is not None or seen.told_by_group or takes_over


def _records_something(plan: OffsetPlan, position: Position | None) -> bool:
    """Whether an empty plan moves the position: a first start, a re-created topic, records that were lost."""
    if position is None:
        return True
    after = position_after(plan, position)
    moved = any(position.offsets.get(tp, KeptOffset(0)).offset != kept.offset for tp, kept in after.offsets.items())
    same_logs = all(after.topic_ids.get(topic) == topic_id for topic, topic_id in position.topic_ids.items())
    return moved or not same_logs or after.cluster_id != position.cluster_id


def _set_back_warning(plan: OffsetPlan, seen: Seen) -> list[str]:
    """The first plan of a pipeline takes the group over, also where that is further."""
    if not plan.mirrors or seen.newest is not None or seen.told_by_group:
        return []
    ahead = [p for p in plan.partitions if p.committed_offset is not None and p.committed_offset > p.end_offset]
    if not ahead:
        return []
    first = ahead[0]
    return [
        f"Group {plan.group_id!r} is ahead of this plan in {len(ahead)} partitions ({first.topic_partition}: at "
        f"{first.committed_offset}, the plan ends at {first.end_offset}). The commit sets it back."
    ]


def _do(asker: Asker, seen: Seen, batch: StoredBatch, take: bool) -> Assignment | None:
    """The unfinished batch: as it is, or planned anew in place where that cannot be."""
    request, plan = asker.request, batch.log.plan
    skip = request.words.skip
    if skip is not None and plan.reason != skip.words:
        return _replan(asker, seen, batch, skipped(plan, asker.signed(plan), skip))
    reason = _why_anew(asker, seen)
    if reason is not None:
        return _replan(asker, seen, batch, planned_anew(plan, _draft_anew(asker, seen, batch), reason))
    if goes_elsewhere(asker, batch):
        return _replan(asker, seen, batch, into_its_output(asker, batch))
    records = look_for_records(plan, asker.cluster)
    group_id = request.scope.group_id
    if records.there and plan.mirrors and group_id != plan.group_id:  # who uses that one must not stop the commit
        again = replace(asker.signed(plan), group_id=group_id, mirrors=request.mirrors)
        return _replan(asker, seen, batch, planned_anew(plan, again, f"its group is {group_id!r}"))
    if not records.there and is_read(batch):
        return _take(asker, seen, batch, take, (), f"finishes {plan.batch}: all of it is written, and verified")
    if not records.there:
        if records.gone and not records.another_log and request.policies.on_data_loss == "fail":
            raise DataLoss(
                records.lines,
                f"The records went after {plan.batch} was planned, and before it was read. Set "
                'on_data_loss="advance" to read what is left, in the DAG or for one run in its conf: {"kafka_offsets": '
                '{"on_data_loss": "advance"}}.',
            )
        fresh = _draft_anew(asker, seen, batch)
        return _replan(
            asker, seen, batch, planned_anew(plan, fresh, f"records are gone: {'; '.join(records.lines[:3])}")
        )
    said = does(str(plan.batch), batch.log, asker.me, asker.around)
    return _take(asker, seen, batch, take, tuple(splits_to_start(plan)), said, records.waiting)


def _why_anew(asker: Asker, seen: Seen) -> str | None:
    if asker.request.words.re_plan:
        return "re_plan"
    if seen.restart is not None:
        return f"restart {seen.restart}"
    if seen.foreign and asker.request.policies.on_group_moved == "adopt-group":
        return "the group is adopted"
    return None


def goes_elsewhere(asker: Asker, batch: StoredBatch) -> bool:
    """Whether the DAG names another output by now, and no Spark job has begun to write the one of the plan.

    This lets somebody whose output was refused name another one.
    """
    output = asker.request.output
    return output not in (None, batch.log.plan.output) and not has_begun(batch)


def into_its_output(asker: Asker, batch: StoredBatch) -> OffsetPlan:
    plan = batch.log.plan
    moved = replace(asker.signed(plan), output=asker.request.output)
    return planned_anew(plan, moved, f"its output is {asker.request.output}")


def _draft_anew(asker: Asker, seen: Seen, batch: StoredBatch) -> OffsetPlan:
    """What the batch would be, planned now from where it goes on."""
    old, kept = batch.log.plan, batch.log.planned.position
    if seen.restart is not None:
        start = Start(None, kept=kept, applied=old.restarts, restart=seen.restart)
    else:
        adopted = seen.foreign if asker.request.policies.on_group_moved == "adopt-group" else {}
        start = Start(position_within(old, kept), kept=kept, adopted=adopted, applied=old.restarts)
    plan = draft(asker.request, asker.cluster, seen.description, seen.held, start).with_warnings(seen.warnings)
    if seen.restart is None:  # what the startup mode has decided once stays decided
        plan = replace(plan, restarted=old.restarted, startup_words=old.startup_words)
    return asker.signed(plan)


def _replan(asker: Asker, seen: Seen, batch: StoredBatch, plan: OffsetPlan) -> Assignment | None:
    again = batch.append(Planned(plan, batch.log.planned.position))
    if again is None:
        return None
    return _settle(asker, seen, again, f"plans {plan.batch} anew: {plan.reason}")


def _do_again(asker: Asker, seen: Seen, batch: StoredBatch) -> Assignment | None:
    """A committed batch once more; where its records are gone, what is written stays."""
    plan = batch.log.plan
    if seen.foreign and asker.request.policies.on_group_moved == "adopt-group":
        raise group_moved(asker.request.scope.group_id, seen.foreign, seen.position)
    records = look_for_records(plan, asker.cluster)
    if not records.there:
        if asker.request.words.redo:
            raise DataLoss(records.lines, f"{plan.batch} is committed, and its output stays as it is. Leave out redo.")
        log.warning("The records of %s are gone: %s", plan.batch, "; ".join(records.lines))
        return leave(asker, batch, leaves_for_good(str(plan.batch)))
    splits = splits_to_start(plan)
    taken = batch.append(Taken(asker.me, asker.request.occasion.now_ms, highest_attempts(batch, splits)))
    if taken is None:
        return None
    assert batch.log.committed is not None  # or it would not be done again
    said = does_once_more(str(plan.batch), batch.log.committed, asker.me)
    return _settle(asker, seen, taken, said, waiting=records.waiting)


def leave(asker: Asker, batch: StoredBatch, said: str) -> Assignment | None:
    """Leave a committed batch as it is; append ``taken`` if its log says that somebody has it, or does it again."""
    again = batch.log.redone
    mine_again = again is not None and bool(again.attempts) and again.by.run == asker.run
    left: StoredBatch | None = batch
    if mine_again or batch.log.last_instance != asker.around.instance:
        left = batch.append(Taken(asker.me, asker.request.occasion.now_ms))
    return None if left is None else Assignment(left, (), said)


def _take(
    asker: Asker,
    seen: Seen,
    batch: StoredBatch,
    take: bool,
    splits: Sequence[int],
    said: str,
    waiting: int = 0,
) -> Assignment | None:
    taken = batch.append(Taken(asker.me, asker.request.occasion.now_ms)) if take else batch
    return None if taken is None else _settle(asker, seen, taken, said, splits=splits, waiting=waiting)


def _settle(
    asker: Asker,
    seen: Seen,
    batch: StoredBatch,
    said: str,
    *,
    splits: Sequence[int] | None = None,
    waiting: int = 0,
) -> Assignment:
    """Once the plan is on record: sign the group, write down which batch this run does, claim its output."""
    plan = batch.log.plan
    if asker.request.mirrors and seen.held is not None:
        sign(asker.cluster, asker.request, asker.signature, seen.held, _kept_now(asker, seen), seen.after)
    put_on_record(asker, batch, "log")
    return Assignment(batch, tuple(splits_to_start(plan) if splits is None else splits), said, waiting)


def put_on_record(asker: Asker, batch: StoredBatch, kind: Kind) -> None:
    """Write down which batch the run does, and claim its output.

    :raises OutputTaken: it is another's; the run has its batch.
    """
    pipeline, output = asker.pipeline, batch.log.plan.output
    records: list[Callable[[], None]] = [partial(pipeline.bind, asker.run, batch)]
    if output is not None:
        records.append(partial(claim_output, pipeline.store, output, pipeline.pipeline_id, kind))
    list(together(pipeline.store, *records))


def _kept_now(asker: Asker, seen: Seen) -> dict[TopicPartition, KeptOffset]:
    """Where the pipeline goes on in the logs that are there now, and where the run adopts the group, there."""
    position, topics = seen.position, seen.description.topics
    kept: dict[TopicPartition, KeptOffset] = {}
    if position is not None and not _is_of_another_cluster(position, seen.description):
        ids = position.topic_ids
        same = {name for name, topic in topics.items() if ids.get(name) in (None, topic.topic_id)}
        kept = {tp: offset for tp, offset in position.offsets.items() if tp.topic in same}
    if asker.request.policies.on_group_moved == "adopt-group":
        kept |= {tp: KeptOffset(c.offset, c.leader_epoch) for tp, c in seen.foreign.items()}
    return kept
