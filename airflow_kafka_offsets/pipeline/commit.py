"""The commit of a batch: verified reads → the log → the group (docs/log.md, rules 4 and 5).

To create the next entry of the batch's log *is* the commit. Everything before can be given up without a trace; the
group follows afterwards, and who dies in between leaves that to the retry or to the next run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from airflow_kafka_offsets.collector import only_new_garbage
from airflow_kafka_offsets.errors import AnotherAirflow, BatchGone, ClusterUnavailable, PlanReplaced, StoreUnavailable
from airflow_kafka_offsets.offsets.batch.log import Actor, Committed
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.plan.position import position_after
from airflow_kafka_offsets.offsets.reads.verify import Proof
from airflow_kafka_offsets.pipeline.group import Cluster, Mirrored, group_moved, mirror, signature_of
from airflow_kafka_offsets.pipeline.present import describe_present
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.stores.reads import require_read

log = logging.getLogger(__name__)

RequireReport = bool | Literal["read-back"]


@dataclass(frozen=True, slots=True)
class Handed:
    """What a run's resolve task handed to its Spark and commit tasks.

    :ivar folder: of the batch, below the pipeline's; ``None``: there was nothing to do.
    :ivar plan_id: of the plan that Spark was given.
    """

    folder: str | None
    plan_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What a commit did, or with a dry run would do.

    :ivar batch: the committed batch; ``None`` where there was nothing to commit.
    :ivar by_this: whether this call made the commit; else it was on record before.
    :ivar proof: of the reads; ``None`` where no report was asked for, or nothing was to be read.
    """

    batch: StoredBatch | None
    by_this: bool
    group: Mirrored
    proof: Proof | None = None

    @property
    def plan(self) -> OffsetPlan | None:
        return self.batch.log.plan if self.batch else None

    @property
    def written(self) -> Mapping[TopicPartition, tuple[int | None, int]]:
        return self.group.written


@only_new_garbage()
def commit_batch(
    handed: Handed,
    pipeline: PipelineLog,
    cluster: Cluster,
    me: Actor,
    *,
    now_ms: int,
    require_report: RequireReport = True,
    dry_run: bool = False,
) -> CommitOutcome:
    """Verify the batch's reads, commit it, and let the group follow.

    :param require_report: whether the read reports must show it; ``False`` for jobs that make none. ``read-back``:
        each must be of an output that was read back.
    :param dry_run: everything is looked at and refused as it would be, and nothing is written.
    :raises ReadNotVerified: the reports do not show that the batch was read.
    :raises PlanReplaced: the batch was planned anew since Spark was given its plan.
    :raises GroupMoved: somebody else wrote to the group; nothing was committed.
    :raises StoreUnavailable: this is not the store that the run was planned in.
    """
    if handed.folder is None:
        return CommitOutcome(None, False, mirror(pipeline, cluster, me, dry_run=dry_run))
    by_this, as_if, proof = False, None, None
    while True:
        batch = pipeline.read(handed.folder)
        if batch is None:
            _refuse_another_store(pipeline, handed.folder, me)
            raise BatchGone(str(me.run), f"batch {handed.folder}", "was cleaned away")
        refuse_another_airflows_batch(batch, me)
        if batch.log.plan.plan_id != handed.plan_id:
            raise PlanReplaced(str(batch.log.plan.batch), str(handed.plan_id), batch.log.plan.plan_id)
        if require_report:
            again = batch.log.redone
            newer_than = again.attempts if again and again.by.run == me.run else None
            proof = require_read(batch, newer_than, read_back=require_report == "read-back")
        if batch.log.committed:
            break
        _refuse_foreign(batch, cluster, me)
        plan, position = batch.log.plan, batch.log.planned.position
        after = None if plan.window else position_after(plan, position)
        entry = Committed(me, now_ms, plan.plan_id, after)
        if dry_run:
            as_if = replace(batch, log=batch.log.with_entry(entry))
            break
        done = batch.append(entry)
        if done is not None:
            by_this, batch = True, done
            break
    if batch.log.plan.window:
        return CommitOutcome(batch, by_this, Mirrored(left_alone="a window moves no group"), proof)
    mirrored = mirror(pipeline, cluster, me, known=batch, dry_run=dry_run, as_if=as_if)
    return CommitOutcome(batch, by_this, mirrored, proof)


def left_in_kafka(plan: OffsetPlan, cluster: Cluster) -> int | None:
    """How many offsets of the plan's partitions have come since it was planned; ``None`` where nobody can tell now.

    The batch is committed when this is asked: whatever goes wrong here is no reason to fail.
    """
    try:
        description = describe_present(cluster, plan.topic_ids)
        if description is None or description.cluster_id != plan.cluster_id:
            return None
        ids = {name: topic.topic_id for name, topic in description.topics.items()}
        present = {tp for tp in description.partitions() if ids[tp.topic] == plan.topic_ids.get(tp.topic)}
        planned = {p.topic_partition: p.end_offset for p in plan.partitions if p.topic_partition in present}
        ends = cluster.end_offsets(list(planned), plan.isolation_level) if planned else {}
    except ClusterUnavailable as error:
        log.info("What is left in Kafka is not known: %s", error.message)
        return None
    return sum(max(0, ends[tp].offset - end) for tp, end in planned.items())


def _refuse_another_store(pipeline: PipelineLog, folder: str, me: Actor) -> None:
    """Which batch a run took is never cleaned away: where that is not known, the run was planned in another place.

    :raises StoreUnavailable: it was.
    """
    if me.run is not None and pipeline.batch_of_run(me.run) is None:
        raise StoreUnavailable(
            f"Cannot find {folder} of pipeline {pipeline.pipeline_id!r} in the work store {pipeline.store.uri}",
            f"what is seen under this name knows nothing of run {me.run}, which its resolve task has planned",
            "This worker must see the work store that the resolve task wrote. A local folder works on one machine: set "
            "[kafka_offsets] work_store to a place that all machines reach.",
        )


def refuse_another_airflows_batch(batch: StoredBatch, me: Actor) -> None:
    """:raises AnotherAirflow: the batch is in the hands of one; a person without Airflow commits for whoever has it."""
    holder = batch.log.holder.instance
    if me.instance is not None and holder not in (None, me.instance):
        pipeline = batch.log.plan.pipeline or ""
        raise AnotherAirflow(pipeline, me.instance, str(holder), f"its work store {batch.store.uri}")


def _refuse_foreign(batch: StoredBatch, cluster: Cluster, me: Actor) -> None:
    """A run whose group was reset meanwhile commits nothing.

    :raises GroupMoved: somebody else wrote to the group.
    """
    plan, position = batch.log.plan, batch.log.planned.position
    if not plan.mirrors or plan.group_id is None:
        return
    held = cluster.committed(plan.group_id, [p.topic_partition for p in plan.partitions])
    foreign = signature_of(plan, me).foreign(held, position)
    if foreign:
        raise group_moved(plan.group_id, foreign, position)
