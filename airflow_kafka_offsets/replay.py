"""Whether a run's frozen plan may be read again: a retry, a clear, a second scheduler (DESIGN, Frozen plans).

Asked before Spark starts, because afterwards the records are in an output. A run that has committed may rewrite its own
output with the same plan. One that has not may go on only while its pipeline stands where the plan found it: if another
run has gone on from there, that run has read the records, and reading them again would put them into two outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import DataLoss, PlanSuperseded, ReadNotVerified, TopicRecreated
from airflow_kafka_offsets.offsets.commits import CommitMark, marks_of_positions
from airflow_kafka_offsets.offsets.model import OffsetRange, TopicPartition, by_topic
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.spec import PlanRequest, TopicList
from airflow_kafka_offsets.offsets.verify import verify_reads
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain, chain_of
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.reads import begun_by_others, begun_outputs, begun_outputs_of_run, latest_attempts
from airflow_kafka_offsets.stores.runs import receipts
from airflow_kafka_offsets.stores.turns import IsAlive


def has_committed(plan: OffsetPlan, store: WorkStore, cluster: OffsetReader) -> bool:
    """Whether this very plan's commit is on record: a receipt, a checkpoint, or the mark of a commit in the group."""
    if plan.run is not None and plan.plan_id in receipts(store, plan.run):
        return True
    chain = chain_of(plan, store)
    if chain is None:
        return False
    return any(mark.plan_id == plan.plan_id for _, mark in _own_commits(plan, cluster).values()) or chain.holds(plan)


def check_replay(
    request: PlanRequest, plan: OffsetPlan, store: WorkStore, cluster: OffsetReader, is_alive: IsAlive
) -> OffsetPlan:
    """The plan to read: ``plan`` itself, or its successor without the records that are gone meanwhile.

    :raises OverlappingRun: another run of the pipeline lives and came first (this one was found dead meanwhile).
    :raises PlanSuperseded: another run of the pipeline has gone on from where this plan starts.
    :raises TopicRecreated: a topic of the plan is another log by now.
    :raises DataLoss: records of the plan are gone, and ``on_data_loss`` is not ``advance`` (or the run has committed).
    """
    committed = has_committed(plan, store, cluster)
    chain = chain_of(plan, store)
    if not committed and chain is not None:
        chain.turns.take(plan.run, is_alive)
        try:
            _refuse_superseded(plan, chain, store, cluster)
        except PlanSuperseded:
            if plan.run is not None:
                chain.turns.end(plan.run)
            raise
    _refuse_recreated(plan, cluster)
    _refuse_cut(plan, store, cluster, committed)
    gone = _gone(plan, cluster)
    if not gone:
        return plan
    committed = committed or (plan.window and _was_read(plan, store))
    if request.on_data_loss != "advance" or committed:
        raise DataLoss(
            [
                f"{tp}: start offset {start} of the frozen plan is below log start offset {log_start} "
                f"({log_start - start} offsets are gone)"
                for tp, (start, log_start) in gone.items()
            ],
            "The records were deleted after the plan was made. "
            + (
                _of_committed(store, plan)
                if committed
                else 'Set on_data_loss="advance" to read what is left, or re_plan to plan this run anew.'
            ),
        )
    return replace(
        plan,
        partitions=tuple(_advanced(p, gone.get(p.topic_partition)) for p in plan.partitions),
        replaces=plan.plan_id,
        starts_all_splits=bool(begun_outputs(store, plan)) or plan.starts_all_splits,
    )


def _was_read(plan: OffsetPlan, store: WorkStore) -> bool:
    try:
        verify_reads(plan, latest_attempts(store, plan, range(plan.splits)))
    except ReadNotVerified:
        return False
    return True


def _own_commits(plan: OffsetPlan, cluster: OffsetReader) -> dict[TopicPartition, tuple[int, CommitMark]]:
    """What this package has committed to the plan's group: offset and mark, of the plan's partitions."""
    if plan.group_id is None:
        return {}
    committed = cluster.committed(plan.group_id, [p.topic_partition for p in plan.partitions])
    return {tp: (committed[tp].offset, mark) for tp, mark in marks_of_positions(committed).items()}


def _refuse_superseded(plan: OffsetPlan, chain: CheckpointChain, store: WorkStore, cluster: OffsetReader) -> None:
    newest = chain.newest()
    gone_on_to = newest if newest is not None and newest.id != plan.parent else None
    run, by_plan = (gone_on_to.run, gone_on_to.plan_id or gone_on_to.id) if gone_on_to else (None, None)
    if gone_on_to is None and plan.parent is not None:
        base = {p.topic_partition: p.base_offset for p in plan.partitions}
        gone_on = [
            mark
            for tp, (offset, mark) in _own_commits(plan, cluster).items()
            # Where the chain is lost, only the group can tell: it is not where the plan saw it.
            if mark.parent == plan.parent or (newest is None and offset != base[tp])
        ]
        run, by_plan = (gone_on[0].run, gone_on[0].plan_id) if gone_on else (None, None)
    by = run or by_plan
    if by is not None:
        outputs = begun_outputs_of_run(store, plan)
        # Only `unblock` moves the position by a plan that is no run's.
        raise PlanSuperseded(str(plan.run), plan.plan_id, by, outputs, unblocked=run is None)


def _refuse_recreated(plan: OffsetPlan, cluster: OffsetReader) -> None:
    topics = by_topic(p.topic_partition for p in plan.partitions)
    now = cluster.describe(TopicList(tuple(topics))).topics
    recreated = [
        f"{topic}: its id is {now[topic].topic_id}, the plan was made for {plan.topic_ids[topic]}"
        for topic in topics
        if plan.topic_ids.get(topic) is not None and now[topic].topic_id != plan.topic_ids[topic]
    ]
    if recreated:
        raise TopicRecreated(
            recreated,
            "The topic was deleted and created again since the plan was made: its records are another log's. A new run "
            'reads that, with on_recreated="earliest".',
        )


def _of_committed(store: WorkStore, plan: OffsetPlan) -> str:
    if begun_by_others(store, plan):
        return (
            "The run has committed them as read, and another plan of it has begun to overwrite its output: restore "
            "that output from a copy, or the records in Kafka."
        )
    return "The run has committed, so its output already holds them: leave it as it is."


def _refuse_cut(plan: OffsetPlan, store: WorkStore, cluster: OffsetReader, committed: bool) -> None:
    to_read = {p.topic_partition: p.end_offset for p in plan.to_read()}
    ends = cluster.end_offsets(list(to_read), "read_uncommitted") if to_read else {}
    cut = [
        f"{tp}: the frozen plan ends at {end}, beyond the end of the log, {ends[tp].offset}"
        for tp, end in to_read.items()
        if ends[tp].offset < end
    ]
    if cut:
        way_on = _of_committed(store, plan) if committed else "Use re_plan to plan this run anew."
        raise DataLoss(cut, f"The log was truncated after the plan was made. {way_on}")


def _gone(plan: OffsetPlan, cluster: OffsetReader) -> Mapping[TopicPartition, tuple[int, int]]:
    """Start and log start of each partition whose first records are no longer there."""
    to_read = {p.topic_partition: p.start_offset for p in plan.to_read()}
    log_starts = cluster.log_start_offsets(list(to_read)) if to_read else {}
    return {tp: (start, log_starts[tp]) for tp, start in to_read.items() if log_starts[tp] > start}


def _advanced(partition: PlannedPartition, gone: tuple[int, int] | None) -> PlannedPartition:
    if gone is None:
        return partition
    start = min(gone[1], partition.end_offset)
    lost = start - partition.start_offset
    return replace(
        partition,
        range=OffsetRange(start, partition.end_offset),
        start_reason=f"{partition.start_reason}, then out of range → log start, {lost} lost",
        log_start_offset=gone[1],
        lost=partition.lost + lost,
    )
