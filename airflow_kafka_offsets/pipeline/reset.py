"""A person sets a pipeline's position: batch n+1 of its log, which reads nothing and is committed at once.

::

    look at the log ─► at the topics ─► at the group ─► at the log again ─► moves ─► plan ─► commit ─► mirror

So a reset is on record like everything else, and goes by the same rules: one unfinished batch at a time, somebody
else's offsets are not overwritten, the group follows the log. Who dies between plan and commit leaves an unfinished
batch without records, which the next run commits; who dies after the commit leaves the group to the next run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from airflow_kafka_offsets.errors import (
    AnotherAirflow,
    ClusterChanged,
    NoPosition,
    NothingToDiscover,
    ResetRefused,
    StoreBehindGroup,
    TopicRecreated,
)
from airflow_kafka_offsets.offsets.batch.key import number_of
from airflow_kafka_offsets.offsets.batch.log import Actor, Committed, Planned
from airflow_kafka_offsets.offsets.batch.mark import Held, newest_batch
from airflow_kafka_offsets.offsets.model import ClusterDescription
from airflow_kafka_offsets.offsets.plan.plan import BatchName, OffsetPlan
from airflow_kafka_offsets.offsets.plan.position import Position, position_after
from airflow_kafka_offsets.offsets.plan.reset import Move, reset_plan
from airflow_kafka_offsets.offsets.plan.splits import splits_to_start
from airflow_kafka_offsets.pipeline.commit import Handed, commit_batch
from airflow_kafka_offsets.pipeline.group import (
    Cluster,
    Mirrored,
    group_moved,
    mirror,
    refuse_live_group,
    signature_of,
)
from airflow_kafka_offsets.pipeline.keys import draw_key
from airflow_kafka_offsets.pipeline.moves import Decided, Reset, Standing, decide, refuse_duplicates, topics_of
from airflow_kafka_offsets.pipeline.present import describe_present
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog, StoredBatch


@dataclass(frozen=True, slots=True)
class ResetOutcome:
    """What a reset did, or with a dry run would do.

    :ivar batch: ``None``: every partition is there already, and only the group is renewed.
    """

    batch: StoredBatch | None
    decided: Decided
    group: Mirrored

    @property
    def moves(self) -> tuple[Move, ...]:
        return self.decided.moves


@dataclass(frozen=True, slots=True)
class _Seen:
    """The pipeline, its topics and its group at one moment."""

    newest: StoredBatch
    position: Position
    description: ClusterDescription
    held: Held = field(default_factory=dict)

    @property
    def plan(self) -> OffsetPlan:
        return self.newest.log.plan

    @property
    def topic_ids(self) -> dict[str, str | None]:
        return {name: topic.topic_id for name, topic in self.description.topics.items()}


def reset_position(
    pipeline: PipelineLog, cluster: Cluster, me: Actor, asked: Reset, *, now_ms: int, dry_run: bool
) -> ResetOutcome:
    """Set the position of ``pipeline``, and let its group follow.

    :param dry_run: everything is looked at and refused as it would be, and nothing is written.
    :raises ResetRefused: a batch is unfinished; or records would be read again, and nobody has said that this is meant.
    :raises GroupMoved: somebody else wrote to the group.
    :raises GroupActive: the group has live members.
    """
    while True:
        seen = _look(pipeline, cluster, me)
        if seen is None:
            continue  # the log went on meanwhile
        decided = decide(asked, Standing(seen.position, seen.description, seen.plan.isolation_level), cluster)
        if not any(one.changes for one in decided.moves):
            return ResetOutcome(None, decided, mirror(pipeline, cluster, me, dry_run=dry_run))
        if not dry_run and not asked.allow_duplicates:
            refuse_duplicates(decided.moves)
        reason = f"reset {decided.target}: {asked.reason}"
        planned = Planned(_plan(seen, me, decided.moves, reason, now_ms), seen.position)
        number = planned.plan.batch.number if planned.plan.batch else None
        assert number is not None  # just named
        if dry_run:
            would = pipeline.as_if_begun(number, planned)
            entry = Committed(me, now_ms, planned.plan.plan_id, position_after(planned.plan, seen.position))
            done = replace(would, log=would.log.with_entry(entry))
            return ResetOutcome(would, decided, mirror(pipeline, cluster, me, dry_run=True, as_if=done))
        batch = pipeline.begin(number, planned)
        if batch is None or not pipeline.is_newest(batch):
            continue  # somebody was faster: look again
        outcome = commit_batch(Handed(batch.name, planned.plan.plan_id), pipeline, cluster, me, now_ms=now_ms)
        return ResetOutcome(outcome.batch, decided, outcome.group)


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _look(pipeline: PipelineLog, cluster: Cluster, me: Actor) -> _Seen | None:
    """The pipeline's state as a commit would see it. ``None``: its log changed while the group was read.

    The log is looked at once more after the group: a mark of a batch that the log does not know then means that the
    log is old.
    """
    newest = pipeline.newest()
    if newest is None:
        raise NoPosition(
            [f"Pipeline {pipeline.pipeline_id!r} has no batch in its log"],
            "Its first run begins where startup_mode says: set that instead of a reset.",
        )
    committed = newest.log.committed
    if committed is None:
        raise _unfinished(newest)
    position = committed.position
    assert position is not None  # a committed batch of the log has one
    _refuse_another_airflow(newest, me)
    description = _describe(pipeline, cluster, position)
    seen = _Seen(newest, position, description)
    plan = seen.plan
    if plan.mirrors and plan.group_id is not None:
        partitions = [tp for tp in description.partitions() if tp.topic in topics_of(position)]
        held = cluster.committed(plan.group_id, partitions)
        _refuse_what_a_commit_would(pipeline, cluster, me, seen, held)
        seen = replace(seen, held=held)
    again = pipeline.newest(newest)
    return seen if again is not None and again.folder == newest.folder else None


def _unfinished(batch: StoredBatch) -> ResetRefused:
    plan = batch.log.plan
    key = plan.batch.key if plan.batch else "?"
    if splits_to_start(plan):
        way = (
            "Let the pipeline's next run finish it, then reset. If its records cannot be processed: kafka-offsets skip "
            f"--batch {key} first."
        )
    else:
        way = (
            "It reads nothing (a reset that was cut off, usually): the pipeline's next run commits it, or "
            f"kafka-offsets commit --batch {key} --execute does."
        )
    return ResetRefused(
        [f"{plan.batch}, {key}, is not committed: it is with {batch.log.holder}, and only one is done at a time"],
        way,
    )


def _refuse_another_airflow(newest: StoredBatch, me: Actor) -> None:
    wrote = newest.log.last_instance
    if me.instance is not None and wrote not in (None, me.instance):
        where = f"its work store {newest.store.uri}"
        raise AnotherAirflow(newest.log.plan.pipeline or "", me.instance, str(wrote), where)


def _describe(pipeline: PipelineLog, cluster: Cluster, position: Position) -> ClusterDescription:
    """The topics of the position that exist.

    :raises ClusterChanged: another cluster answers.
    :raises TopicRecreated: a topic is another log by now: the position means nothing in it.
    """
    description = describe_present(cluster, sorted(topics_of(position)))
    if description is None:
        raise NothingToDiscover(
            [f"{topic} does not exist" for topic in sorted(topics_of(position))],
            "Correct the connection, or the pipeline's name.",
        )
    if description.cluster_id != position.cluster_id:
        raise ClusterChanged(pipeline.pipeline_id, position.cluster_id, description.cluster_id)
    ids = position.topic_ids
    anew = [
        f"{name}: its id is {topic.topic_id}, the position is of {ids[name]}"
        for name, topic in sorted(description.topics.items())
        if topic.topic_id is not None and ids.get(name) not in (None, topic.topic_id)
    ]
    if anew:
        raise TopicRecreated(
            anew,
            "The topic was deleted and created again: it is another log. Let one run with the conf "
            '{"kafka_offsets": {"on_recreated": "earliest"}} take up the new one, then reset.',
        )
    return description


def _refuse_what_a_commit_would(pipeline: PipelineLog, cluster: Cluster, me: Actor, seen: _Seen, held: Held) -> None:
    """:raises StoreBehindGroup: the group knows a later batch than the log.

    :raises GroupMoved: somebody else wrote to the group.
    :raises GroupActive: it has live members.
    """
    plan, signature = seen.plan, signature_of(seen.plan, me)
    marked, name = number_of(newest_batch(signature.own(held))), plan.batch
    newest = (name.number if name else None) or 0
    if marked > newest and pipeline.newest(seen.newest) is seen.newest:
        raise StoreBehindGroup(pipeline.pipeline_id, pipeline.store.uri, newest, marked)
    foreign = signature.foreign(held, seen.position)
    if foreign:
        raise group_moved(plan.group_id, foreign, seen.position)
    refuse_live_group(cluster, plan.group_id or "")


def _plan(seen: _Seen, me: Actor, moves: tuple[Move, ...], reason: str, now_ms: int) -> OffsetPlan:
    before, signature = seen.plan.batch, signature_of(seen.plan, me)
    assert before is not None  # a stored plan has one
    number = max(before.number or 0, number_of(newest_batch(signature.own(seen.held)))) + 1
    key = draw_key(number, now_ms)
    plan = reset_plan(seen.plan, moves, seen.topic_ids, seen.held, reason)
    instance = me.instance or seen.newest.log.last_instance
    return replace(plan, batch=BatchName(key, number, before.key), instance=instance, resolved_at_ms=now_ms)
