"""The one way to a plan: parameters + cluster (+ work store) → OffsetPlan. Operators, command line and scripts call it.

It decides the order of the questions, which is part of the rules: newest timestamps, log starts, then ends, then
timestamps (B6, B12), the group last. What the answers mean is decided in ``offsets/``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_offsets.arrivals import arrivals_of_plan
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.config import client_defaults
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    NotAuthorized,
    NothingToDiscover,
    WindowIncomplete,
)
from airflow_kafka_offsets.offsets.caps import cap
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint
from airflow_kafka_offsets.offsets.complete import Completeness, judge
from airflow_kafka_offsets.offsets.discovery import compare_topics
from airflow_kafka_offsets.offsets.model import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    PartitionSnapshot,
    TimestampType,
    TopicPartition,
)
from airflow_kafka_offsets.offsets.parse import parse_request
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.resolve import DEFAULT_RESET_REASON, Facts, refuse_below_group, resolve
from airflow_kafka_offsets.offsets.restore import Restored, restore
from airflow_kafka_offsets.offsets.spec import (
    FromTimestamp,
    PartitionSet,
    PlanRequest,
    SpecificOffsets,
    UntilSpecificOffsets,
    UntilTimestamp,
)
from airflow_kafka_offsets.offsets.times import iso
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.runs import find_plan_by_id
from airflow_kafka_offsets.stores.turns import IsAlive, nobody_lives

log = logging.getLogger(__name__)


def plan_offsets(client_config: Mapping[str, Any], **parameters: Any) -> OffsetPlan:
    """The plan that these parameters make on that cluster, now. Nothing is written anywhere.

    :param client_config: librdkafka settings, as in the Kafka connection's extra.
    :param parameters: those of ``ResolveStartupOffsetsOperator`` (DESIGN's table) except the connection's.
    :raises InvalidRequest: before the cluster is asked, with every problem.
    :raises RefusedError: the plan would lose records, or move the group back.
    :raises ClusterUnavailable: the cluster could not be asked.
    """
    request = request_for(client_config, parameters)
    with KafkaCluster(client_config) as cluster:
        return make_plan(request, cluster, now_ms=now_ms())


def request_for(client_config: Mapping[str, Any], parameters: Mapping[str, Any]) -> PlanRequest:
    """The request that the parameters make; what they leave out comes from the connection (group, reset, isolation)."""
    defaults = client_defaults(client_config)
    given = {name: value for name, value in parameters.items() if value is not None}
    return parse_request(
        now_ms=now_ms(),
        **{
            "group_id": defaults.group_id,
            "auto_offset_reset": defaults.auto_offset_reset,
            "isolation_level": defaults.isolation_level,
            **given,
        },
    )


def make_plan(request: PlanRequest, cluster: OffsetReader, *, now_ms: int) -> OffsetPlan:
    """Ask the cluster what the request needs, and resolve it. Without a work store there is no checkpoint."""
    return make_on_chain(request, cluster, None, now_ms=now_ms).plan


@dataclass(frozen=True)
class Made:
    """A plan, and what it was made from.

    :ivar committed: what the group held.
    :ivar chain: its pipeline's checkpoints; ``None`` where it has none: a window, or no ``checkpoint_id``.
    """

    plan: OffsetPlan
    restored: Restored
    committed: Mapping[TopicPartition, CommittedOffset]
    chain: CheckpointChain | None


def make_on_chain(
    request: PlanRequest,
    cluster: OffsetReader,
    store: WorkStore | None,
    *,
    now_ms: int,
    is_alive: IsAlive = nobody_lives,
) -> Made:
    """Ask the cluster what the request needs, and resolve it from the position that the pipeline has in ``store``."""
    description = cluster.describe(request.subscription)
    chain, checkpoint = None, None
    if store and request.checkpoint_id is not None and not request.window:
        chain = CheckpointChain(store, description.cluster_id, request.checkpoint_id)
        if request.run is not None:
            chain.turns.take(request.run, is_alive)  # before the look: a run that came first moves the newest one
        checkpoint = chain.newest()
    vanished, extra_warnings = compare_topics(request, description.topics, checkpoint)
    description = _with_restored_topics(request, cluster, description, checkpoint, vanished)
    topic_ids = {name: topic.topic_id for name, topic in description.topics.items()}
    partitions = description.partitions()
    newest = _newest_timestamps(request, cluster, partitions)
    snapshots = take_snapshots(cluster, partitions, request.isolation_level)
    # Ends are known now: a record that is produced from here on lies past them, and is the next run's.
    end_times = _lookup(request, cluster, partitions, request.bounded)
    group_id, committed, warnings = _committed(request, cluster, partitions)
    restored = _restore(request, store, checkpoint, committed, topic_ids)
    start_times = _lookup(request, cluster, partitions, request.startup) if restored.positions is None else {}
    facts = Facts(
        snapshots,
        committed,
        restored.positions,
        restored.kept,
        restored.recreated,
        restored.moved_back_by,
        start_times,
        end_times,
    )
    stamped_by = _timestamp_types(request, cluster, topic_ids)
    judged = _judge_window(request, stamped_by, newest, snapshots, end_times, now_ms)
    planned = [replace(p, newest_timestamp=newest.get(p.topic_partition)) for p in resolve(request, facts)]
    planned = cap(planned, request.max_records, request.max_records_per_partition)
    refuse_below_group(request, planned)
    plan = OffsetPlan(
        cluster_id=description.cluster_id,
        group_id=group_id,
        checkpoint_id=request.checkpoint_id,
        isolation_level=request.isolation_level,
        startup_mode=request.startup.name,
        bounded_mode=request.bounded.name,
        window=request.window,
        window_bounds=request.window_bounds,
        window_bounds_by_topic=request.window_bounds_by_topic,
        timestamp_types=stamped_by,
        resolved_at_ms=now_ms,
        topic_ids=topic_ids,
        partitions=tuple(planned),
        subscription=request.subscription_words,
        splits=request.splits,
        split_by=request.split_by,
        interval=request.interval,
        run=request.run,
        parent=restored.checkpoint.id if restored.checkpoint else None,
        window_complete=judged.complete if judged else None,
        low_watermark_ms=judged.low_watermark_ms if judged else None,
        warnings=(
            *request.warnings,
            *warnings,
            *extra_warnings,
            *restored.warnings,
            *_default_reset_warning(request, restored.positions is None, planned),
        ),
        ignored=_ignored(request, partitions),
        vanished=vanished,
    )
    return Made(plan, restored, committed or {}, chain)


def _restore(
    request: PlanRequest,
    store: WorkStore | None,
    checkpoint: Checkpoint | None,
    committed: Mapping[TopicPartition, CommittedOffset] | None,
    topic_ids: Mapping[str, str | None],
) -> Restored:
    """Without a checkpoint_id there is no position: the startup mode decides. A window has none either."""
    if request.window or request.checkpoint_id is None:
        return Restored(None)

    def find(plan_id: str) -> OffsetPlan | None:
        return find_plan_by_id(store, plan_id) if store else None

    return restore(request, checkpoint, committed or {}, topic_ids, find)


def _with_restored_topics(
    request: PlanRequest,
    cluster: OffsetReader,
    description: ClusterDescription,
    checkpoint: Checkpoint | None,
    vanished: Sequence[str],
) -> ClusterDescription:
    """With ``filter_restored_partitions=False`` the checkpoint's partitions are read on, subscribed to or not (F5)."""
    if checkpoint is None or request.filter_restored_partitions:
        return description
    present = set(description.partitions())
    restored = tuple(sorted(tp for tp in checkpoint.offsets if tp not in present and tp.topic not in vanished))
    if not restored:
        return description
    try:
        more = cluster.describe(PartitionSet(restored))
    except NothingToDiscover as error:
        raise NothingToDiscover(
            error.partitions,
            "The checkpoint holds its offsets, and filter_restored_partitions=False reads them on. Set it to True to "
            "leave out what is no longer subscribed to.",
        ) from None
    topics = dict(description.topics)
    for name, topic in more.topics.items():
        leaders = {**(topics[name].leaders if name in topics else {}), **topic.leaders}
        topics[name] = replace(topic, leaders=leaders)
    return replace(description, topics=topics)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def take_snapshots(
    cluster: OffsetReader, partitions: list[TopicPartition], isolation_level: IsolationLevel
) -> dict[TopicPartition, PartitionSnapshot]:
    """Both ends of each log, the start first: what is deleted in between makes it no shorter than it is.

    :raises ClusterUnavailable: a log was cut between the two looks.
    """
    log_starts = cluster.log_start_offsets(partitions)
    ends = cluster.end_offsets(partitions, isolation_level)
    uncommitted = isolation_level == "read_uncommitted"
    high_watermarks = ends if uncommitted else cluster.end_offsets(partitions, "read_uncommitted")
    cut = [tp for tp in partitions if ends[tp].offset < log_starts[tp]]
    if cut:
        raise ClusterUnavailable(
            "Cannot plan",
            f"{cut[0]} ends at {ends[cut[0]].offset}, below the log start {log_starts[cut[0]]} of a moment ago",
            "The log was cut while it was looked at; retry.",
            retriable=True,
        )
    return {
        tp: PartitionSnapshot(log_starts[tp], ends[tp].offset, high_watermarks[tp].offset, ends[tp].leader_epoch)
        for tp in partitions
    }


def _lookup(
    request: PlanRequest, cluster: OffsetReader, partitions: list[TopicPartition], mode: object
) -> dict[TopicPartition, int]:
    if not isinstance(mode, FromTimestamp | UntilTimestamp):
        return {}
    return cluster.offsets_for_times({tp: mode.of(tp.topic) for tp in partitions}, request.isolation_level)


def _timestamp_types(request: PlanRequest, cluster: OffsetReader, topics: Collection[str]) -> dict[str, TimestampType]:
    if not isinstance(request.startup, FromTimestamp) and not isinstance(request.bounded, UntilTimestamp):
        return {}
    return known_timestamp_types(cluster, topics)


def known_timestamp_types(cluster: OffsetReader, topics: Collection[str]) -> dict[str, TimestampType]:
    """Whose clock a time is compared with: worth knowing, and never worth a failure."""
    try:
        return cluster.timestamp_types(topics)
    except ClusterUnavailable as error:
        log.info("Whose clock the timestamps are is not known: %s", error)
        return {}


def _committed(
    request: PlanRequest, cluster: OffsetReader, partitions: list[TopicPartition]
) -> tuple[str | None, dict[TopicPartition, CommittedOffset] | None, list[str]]:
    """The group to commit to, and what it holds. A window asks nothing of the group.

    Without the right to read the group, a plan that needs no commit is still made (L3), and cannot be committed.
    """
    group_id = request.group_id
    if group_id is None or request.window:
        return group_id, None, []
    try:
        return group_id, cluster.committed(group_id, partitions), []
    except NotAuthorized as error:
        if request.reads_commits or request.checkpoint_id is not None:
            raise
        return None, None, [f"This plan cannot be committed: {error.reason}"]


def _newest_timestamps(
    request: PlanRequest, cluster: OffsetReader, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Asked before the ends of the logs are, so that what is newest is in the plan's reach."""
    if not isinstance(request.bounded, UntilTimestamp):
        return {}
    return cluster.newest_timestamps(partitions, request.isolation_level)


def _judge_window(
    request: PlanRequest,
    stamped_by: Mapping[str, TimestampType],
    newest: Mapping[TopicPartition, int],
    snapshots: Mapping[TopicPartition, PartitionSnapshot],
    end_times: Mapping[TopicPartition, int],
    now_ms: int,
) -> Completeness | None:
    """Whether records may still arrive before an end that is a time; ``None`` where it is none.

    :raises WindowIncomplete: they may, and the request wants a complete window.
    """
    if not isinstance(request.bounded, UntilTimestamp):
        return None
    end_ms = request.bounded.timestamp_ms
    ends_ms = {tp: request.bounded.of(tp.topic) for tp in snapshots}
    arrived = arrivals_of_plan(newest, ends_ms, snapshots, end_times)
    judged = judge(
        end_ms,
        arrived,
        now_ms=now_ms,
        idle_timeout_ms=request.idle_timeout_ms,
        append_time_topics={name for name, kind in stamped_by.items() if kind == "LogAppendTime"},
        by_topic=request.bounded.by_topic,
    )
    if request.require_complete_window and not judged.complete:
        raise WindowIncomplete(
            [f"{tp}: {reason}" for tp, reason in judged.waiting.items()],
            f"Records of before {iso(end_ms)} may still arrive. Run later (WindowCompleteSensor waits for it), or set "
            "require_complete_window=False to read what is there: what arrives later is then not in this window's "
            "output.",
        )
    return judged


def _default_reset_warning(request: PlanRequest, mode_decides: bool, planned: list[PlannedPartition]) -> list[str]:
    if not mode_decides or not request.auto_offset_reset_defaulted:
        return []
    jumped = [p for p in planned if p.start_reason == DEFAULT_RESET_REASON]
    if not jumped:
        return []
    return [
        f"{len(jumped)} of {len(planned)} partitions have no commit of group {request.group_id!r} and start at the "
        f"end, Kafka's own default: {sum(p.skipped for p in jumped)} offsets are skipped. "
        "Set auto_offset_reset to choose.",
    ]


def _ignored(request: PlanRequest, partitions: list[TopicPartition]) -> tuple[TopicPartition, ...]:
    named = {
        tp
        for mode in (request.startup, request.bounded)
        if isinstance(mode, SpecificOffsets | UntilSpecificOffsets)
        for tp in mode.offsets
    }
    return tuple(sorted(named - set(partitions)))
