"""Whether a batch may be committed (docs/log.md, rule 4).

To create the next entry of the batch's log *is* the commit. Everything before can be given up without a trace.
"""

from __future__ import annotations

from airflow_kafka_offsets.batch.decisions import Append, Follow
from airflow_kafka_offsets.batch.orders import Commit
from airflow_kafka_offsets.batch.ownership import refuse_another_airflows_log, refuse_foreign_offsets
from airflow_kafka_offsets.batch.situation import BatchIn, BatchTakenBy, HeldBy, Reports, Situation
from airflow_kafka_offsets.errors import BadRecords, BatchGone, PlanReplaced, StoreUnavailable
from airflow_kafka_offsets.log.entries import Committed
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.verify_reads import ALL_ROWS, fates_of, require_verified
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.values.row_definition import Limit


def decide_commit(order: Commit, s: Situation) -> Append | Follow:
    """
    :raises ReadNotVerified: the reports do not show that the batch was read.
    :raises BadRecords: more of its records were set aside than the limit allows.
    :raises PlanReplaced: the batch was planned anew since Spark was given its plan.
    :raises GroupMoved: somebody else wrote to the group; nothing was committed.
    :raises StoreUnavailable: this is not the store that the run was planned in.
    """
    reference, me = order.reference, order.me
    if reference.folder is None:
        return Follow()
    batch = s.need(BatchIn(reference.folder))
    if batch is None:
        _refuse_another_store(order, reference.folder, s)
        raise BatchGone(str(me.run), f"batch {reference.folder}", "was cleaned away")
    refuse_another_airflows_log(me, batch, batch.log.holder.instance)
    plan, position = batch.log.plan, batch.log.planned.position
    if plan.plan_id != reference.plan_id:
        raise PlanReplaced(str(plan.batch), str(reference.plan_id), plan.plan_id)
    proof, fates = None, ALL_ROWS
    if order.require_report:
        again = batch.log.redone
        newer_than = again.attempts if again and again.by.run == me.run else None
        read_back = order.require_report == "read-back"
        reports = s.need(Reports(batch))
        proof, fates = require_verified(plan, reports, newer_than, read_back=read_back), fates_of(reports)
        _refuse_too_many(batch, fates.set_aside, order.limit)
    if batch.log.committed:
        return Follow(batch, proof, fates)
    group_id = plan.asked.group_id
    if plan.asked.group_follows and group_id is not None:  # looked at last, so that a reset meanwhile is found
        held = s.need(HeldBy(group_id, tuple(p.topic_partition for p in plan.partitions)))
        refuse_foreign_offsets(plan, me, held, position)
    after = None if plan.asked.window else position_after(plan, position)
    definitions = tuple(sorted(filter(None, fates.definitions)))
    entry = Committed(me, order.now_ms, plan.plan_id, after, fates.set_aside, fates.left_out, definitions)
    return Append(batch, entry, proof, fates)


def _refuse_too_many(batch: StoredBatch, set_aside: int, limit: Limit | None) -> None:
    """Each driver has counted its own split.

    :raises BadRecords: all splits together have more than the limit allows.
    """
    plan = batch.log.plan
    allowed = set_aside if limit is None else limit.allowed(plan.record_count_upper_bound)
    if set_aside > allowed:
        before = "It was committed before" if batch.log.committed else "Nothing is committed"
        left = f"{before}; its rows and its bad records are in the outputs until it is done again."
        raise BadRecords(str(plan.batch), set_aside, allowed, str(limit), left=left)


def _refuse_another_store(order: Commit, folder: str, s: Situation) -> None:
    """Which batch a run took is never cleaned away: where that is not known, the run was planned in another place.

    :raises StoreUnavailable: it was.
    """
    run = order.me.run
    if run is not None and s.need(BatchTakenBy(run)) is None:
        raise StoreUnavailable(
            f"Cannot find {folder} of pipeline {s.pipeline!r} in the work store {s.store}",
            f"what is seen under this name knows nothing of run {run}, which its resolve task has planned",
            "This worker must see the work store that the resolve task wrote. A local folder works on one machine: set "
            "[kafka_offsets] work_store to a place that all machines reach.",
        )
