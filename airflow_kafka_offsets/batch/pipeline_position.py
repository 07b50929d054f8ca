"""Where a pipeline goes on: topics, group and log agree, or it is refused (docs/log.md, "When log and group disagree").

The group is looked at before the log: the key of a batch that the log does not know then means that the log is old.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from airflow_kafka_offsets.batch.no_airflow import NoAirflow
from airflow_kafka_offsets.batch.orders import RunsBatch
from airflow_kafka_offsets.batch.ownership import (
    group_moved,
    refuse_another_airflows_group,
    refuse_another_airflows_log,
    refuse_another_pipeline,
)
from airflow_kafka_offsets.batch.situation import (
    LogNow,
    NewestBatch,
    OffsetsOfGroup,
    Situation,
)
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import (
    StoreBehindGroup,
    WorkStoreLost,
)
from airflow_kafka_offsets.kafka_values import ClusterDescription, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata, Held, newest_batch, position_of_group
from airflow_kafka_offsets.plan.plan import number_of
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.request.parse_request import PlanRequest


@dataclass(frozen=True, slots=True)
class GoesOn:
    """Where a pipeline goes on, once topics, group and log agree.

    :ivar position: ``None`` where it has none yet; :ivar after: the key of the batch that it is after.
    :ivar newest: the newest batch of the log.
    :ivar group_key: the key of the newest batch that the group knows of.
    :ivar foreign: what somebody else wrote to the group, where a policy says what then.
    :ivar by_group: the position is the one of the group's offsets: the log is lost, or behind them.
    :ivar restart: the restart word that is to be applied.
    """

    position: Position | None
    after: str | None
    newest: StoredBatch | None
    group_key: str | None
    foreign: Held = field(default_factory=dict)
    by_group: bool = False
    restart: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def next_number(self) -> int:
        """Above the newest batch and the one that the group names, so that no number comes back, whatever was lost."""
        newest = number_of(self.newest.log.plan.batch.key) if self.newest else 0
        return max(newest, number_of(self.group_key)) + 1


def goes_on(order: RunsBatch, s: Situation) -> GoesOn:
    """Topics, group and log agree, or it raises (docs/log.md, "When log and group disagree").

    The group is looked at before the log: the key of a batch that the log does not know then means that the log is old.

    :raises RefusedError: one of its kinds.
    """
    description, held = topics_now(order, s), group_now(order, s)
    request, me, newest = order.request, order.me, log_now(order, s).newest
    signature = CommitMetadata.by(s.pipeline, me.instance or "")
    follows = held if held is not None and request.group_follows else {}  # checkpoint-only neither looks nor signs
    written = signature.own(follows)
    if request.policies.answers["another_airflow"] == "fail":
        refuse_another_airflows_log(me, newest)
        refuse_another_airflows_group(request, me, written)
    position, after = (newest.log.position, newest.log.position_after) if newest else (None, None)
    group_key = newest_batch(written)
    restart = _restart_word(request, newest, group_key)
    found = GoesOn(position, after, newest, group_key, restart=restart)
    by_group = position_of_group(held or {}, written, description.cluster_id, description.topic_ids, position)
    if newest is None:
        refuse_another_pipeline(request, signature, follows)
        if restart is None and by_group is None and me.run and s.airflow(NoAirflow.has_succeeded_before, me.run):
            raise WorkStoreLost(s.pipeline, s.store, me.run.task_id)
    if restart is not None:
        return found
    if newest is None and by_group is not None:
        warning = f"The work store has no such pipeline: it goes on from the group's offsets, after {found.group_key}."
        if request.restart_of_dag is not None:
            warning += f" The DAG's restart {request.restart_of_dag!r} counts as applied."
        found = replace(found, position=by_group, after=found.group_key, by_group=True, warnings=(warning,))
    elif number_of(found.group_key) > _last_number(newest):
        match request.policies.answers["group_moved"]:
            case "fail":
                numbers = number_of(after), number_of(found.group_key)
                raise StoreBehindGroup(s.pipeline, s.store, *numbers)
            case "adopt-group":
                found = replace(found, position=by_group, after=found.group_key, by_group=True)
    elif newest is None:
        return found  # a first plan takes the group over
    here, position = description.cluster_id, found.position
    if position is not None and position.cluster_id != here:
        position = None  # its offsets say nothing of the group of this cluster
    foreign = signature.foreign(follows, position, _recorded(newest))
    planned_here = newest is not None and not newest.log.committed and newest.log.plan.found.cluster_id == here
    if foreign and request.policies.answers["group_moved"] == "fail" and (position is found.position or planned_here):
        raise group_moved(request.scope.group_id, foreign, found.position)
    return replace(found, foreign=foreign)


def topics_now(order: RunsBatch, s: Situation) -> ClusterDescription:
    return s.cluster(Cluster.describe, order.request.scope.subscription)


def group_now(order: RunsBatch, s: Situation) -> Held | None:
    """What the group holds; ``None`` where this plan does not need it."""
    return s.need(OffsetsOfGroup(order.request, tuple(topics_now(order, s).partitions()))).held


def log_now(order: RunsBatch, s: Situation) -> LogNow:
    return s.need(NewestBatch(order.me.run))


def adopted(order: RunsBatch, on: GoesOn) -> Held:
    """What somebody else wrote to the group, where a person says that the pipeline goes on from there."""
    return on.foreign if order.request.policies.answers["group_moved"] == "adopt-group" else {}


def _last_number(newest: StoredBatch | None) -> int:
    """The highest number that the group may carry: an unfinished batch knew all keys below its own."""
    if newest is None:
        return 0
    number = number_of(newest.log.plan.batch.key)
    return number if newest.log.committed else number - 1


def _restart_word(request: PlanRequest, newest: StoredBatch | None, group_key: str | None) -> str | None:
    """The word that is to be applied. One of the DAG stands there in each run, and a log that was lost, or is an older
    copy, does not say whether it was: it orders nothing there, and counts as applied.
    """
    word = request.run_orders.restart
    if word is None or (newest is not None and word in newest.log.plan.restarts):
        return None
    is_whole = newest is not None and number_of(group_key) <= _last_number(newest)
    return word if is_whole or word != request.restart_of_dag else None


def _recorded(newest: StoredBatch | None) -> dict[TopicPartition, int | None]:
    """What an unfinished plan has recorded of the group: it may not have signed that yet."""
    if newest is None or newest.log.committed:
        return {}
    return {p.topic_partition: p.committed_offset for p in newest.log.plan.partitions}
