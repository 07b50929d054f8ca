"""Request + cluster + the pipeline's position → the ranges of one plan, which is in no log yet.

It decides the order of the questions, which is part of the rules: newest timestamps, log starts, then ends, then
timestamps (B6, B12). A record that is produced meanwhile lies at or past an end, and belongs to the next run. What the
answers mean is decided in ``offsets/``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import (
    ClusterChanged,
    ClusterUnavailable,
    NothingToDiscover,
    TopicRecreated,
    WindowIncomplete,
)
from airflow_kafka_offsets.offsets.batch.mark import Held
from airflow_kafka_offsets.offsets.model import (
    ClusterDescription,
    IsolationLevel,
    PartitionSnapshot,
    TimestampType,
    TopicPartition,
    TopicSettings,
)
from airflow_kafka_offsets.offsets.plan.backlog import Backlog
from airflow_kafka_offsets.offsets.plan.caps import cap
from airflow_kafka_offsets.offsets.plan.discovery import compare_topics
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.plan.position import Position
from airflow_kafka_offsets.offsets.plan.resolve import (
    Facts,
    Known,
    ends_at_future,
    future_in_words,
    resolve,
    to_compare,
)
from airflow_kafka_offsets.offsets.request.modes import (
    FromTimestamp,
    SpecificOffsets,
    UntilSpecificOffsets,
    UntilTimestamp,
)
from airflow_kafka_offsets.offsets.request.parse import PlanRequest
from airflow_kafka_offsets.offsets.request.scope import PartitionSet
from airflow_kafka_offsets.offsets.request.times import FUTURE_AFTER_MS, iso
from airflow_kafka_offsets.offsets.window.complete import Completeness, arrived_by, judge
from airflow_kafka_offsets.pipeline.backlog import carried_over, estimate_backlog
from airflow_kafka_offsets.pipeline.cuts import look_for_cuts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a plan goes on from.

    :ivar position: ``None``: the startup mode decides.
    :ivar kept: the position that lost and skipped records are counted from; ``None``: from the start itself.
    :ivar adopted: partitions that go on from the group instead, because a person said so.
    :ivar applied: the restart words of the pipeline so far.
    :ivar restart: the one that this plan applies.
    :ivar planned_before_ms: when the batch before was planned: at what pace runs come.
    """

    position: Position | None = None
    kept: Position | None = None
    adopted: Held = field(default_factory=dict)
    applied: tuple[str, ...] = ()
    restart: str | None = None
    planned_before_ms: int | None = None


def draft(
    request: PlanRequest, cluster: OffsetReader, description: ClusterDescription, held: Held | None, start: Start
) -> OffsetPlan:
    """The plan.

    :param description: what the subscription matches.
    :param held: what the group holds; ``None`` where it was not asked.
    :raises RefusedError: one of its kinds, with every bad partition in it; nothing is planned then.
    """
    vanished, topic_warnings = compare_topics(request, description.topics, start.position)
    description = _with_restored_topics(request, cluster, description, start.position, vanished)
    topic_ids = {name: topic.topic_id for name, topic in description.topics.items()}
    partitions = description.partitions()
    newest = _newest_timestamps(request, cluster, partitions)
    snapshots = take_snapshots(cluster, partitions, request.scope.isolation_level)
    # Ends are known now: a record that is produced from here on lies past them, and is the next run's.
    end_times = _look_up(request, cluster, partitions, request.bounded)
    start_times = _look_up(request, cluster, partitions, request.startup) if start.position is None else {}
    facts = _facts(request, description, snapshots, held, start)
    future = _look_for_future(request, cluster, newest, end_times)
    facts = replace(facts, start_times=start_times, end_times=end_times, newest_timestamps=newest, future=future)
    facts = replace(facts, cuts=look_for_cuts(cluster, to_compare(request, facts)))
    by_time = isinstance(request.startup, FromTimestamp) or isinstance(request.bounded, UntilTimestamp)
    settings = known_topic_settings(cluster, topic_ids) if by_time else {}
    stamped_by = {name: of.timestamp_type for name, of in settings.items()}
    judged = _judge_window(request, stamped_by, newest, snapshots, end_times)
    whole = resolve(request, facts)
    planned = cap(whole, request.limits.max_records, request.limits.max_records_per_partition)
    carried = carried_over(whole, planned)
    ignored = _ignored(request, partitions)
    return OffsetPlan(
        cluster_id=description.cluster_id,
        group_id=request.scope.group_id,
        pipeline=request.scope.pipeline_id,
        isolation_level=request.scope.isolation_level,
        startup_mode=request.startup.name,
        bounded_mode=request.bounded.name,
        window=request.window,
        resolved_at_ms=request.occasion.now_ms,
        topic_ids=topic_ids,
        partitions=tuple(planned),
        mirrors=request.mirrors,
        output=request.output,
        subscription=request.scope.subscription_words,
        startup_words=request.startup_words,
        splits=request.limits.splits,
        split_by=request.limits.split_by,
        restarts=start.applied if start.restart is None else (*start.applied, start.restart),
        restarted=start.restart is not None,
        interval=request.occasion.interval,
        window_complete=judged.complete if judged else None,
        low_watermark_ms=judged.low_watermark_ms if judged else None,
        window_bounds=request.window_bounds,
        window_bounds_by_topic=request.window_bounds_by_topic,
        timestamp_types=stamped_by,
        warnings=(
            *request.warnings,
            *topic_warnings,
            *_startup_warning(request, start),
            *_incomplete_warning(judged),
            *_future_warning(request, facts, whole),
            *_ignored_warning(ignored),
        ),
        ignored=ignored,
        vanished=vanished,
        backlog=_backlog(request, cluster, planned, carried, settings, start) if carried else None,
    )


def _facts(
    request: PlanRequest,
    description: ClusterDescription,
    snapshots: Mapping[TopicPartition, PartitionSnapshot],
    held: Held | None,
    start: Start,
) -> Facts:
    """What the resolver may look at, once it is known of which cluster and of which topics the position is.

    :raises ClusterChanged: the position is another cluster's, and no policy says what then.
    :raises TopicRecreated: a topic is another log by now, and no policy says what then.
    """
    position, kept = start.position, start.kept
    if position is not None and position.cluster_id != description.cluster_id:
        return Facts(snapshots, held, _on_another_cluster(request, position, description.cluster_id, held))
    counted = kept if kept is not None and kept.cluster_id == description.cluster_id else None
    topic_ids = {name: topic.topic_id for name, topic in description.topics.items()}
    recreated = _recreated(position or counted, topic_ids)
    if position is not None and recreated and request.policies.on_recreated == "fail":
        raise TopicRecreated(
            [f"{t}: its id is {topic_ids[t]}, the position is of {position.topic_ids[t]}" for t in sorted(recreated)],
            "The topic was deleted and created again: it is another log, and the offsets mean nothing in it. "
            'Set on_recreated="earliest" to read the new one from its start (of one run, its conf: {"kafka_offsets": '
            '{"on_recreated": "earliest"}}). What the old one still had is gone.',
        )
    positions = None
    if position is not None:
        adopted = {tp: Known(c.offset, "group moved → adopted", c.leader_epoch) for tp, c in start.adopted.items()}
        known = {tp: Known(o.offset, "position", o.leader_epoch) for tp, o in position.offsets.items()}
        positions = {tp: found for tp, found in {**known, **adopted}.items() if tp.topic not in recreated}
    offsets = counted.offsets if counted else {}
    return Facts(
        snapshots,
        held,
        positions,
        {tp: o.offset for tp, o in offsets.items() if tp.topic not in recreated},
        recreated if positions is not None else frozenset(),
    )


def _on_another_cluster(
    request: PlanRequest, position: Position, cluster_id: str, held: Held | None
) -> dict[TopicPartition, Known]:
    match request.policies.on_cluster_changed:
        case "earliest":
            return {}  # every partition is new
        case "adopt-group":
            found = held or {}
            return {tp: Known(c.offset, "cluster changed → group adopted", c.leader_epoch) for tp, c in found.items()}
    raise ClusterChanged(request.scope.pipeline_id or "", position.cluster_id, cluster_id)


def _recreated(position: Position | None, topic_ids: Mapping[str, str | None]) -> frozenset[str]:
    """The topics whose id is not the position's any more: the same name, another log (E6)."""
    known = position.topic_ids if position else {}
    return frozenset(
        topic
        for topic, topic_id in topic_ids.items()
        if topic_id is not None and known.get(topic) not in (None, topic_id)
    )


def _with_restored_topics(
    request: PlanRequest,
    cluster: OffsetReader,
    description: ClusterDescription,
    position: Position | None,
    vanished: Sequence[str],
) -> ClusterDescription:
    """With ``filter_restored_partitions=False`` the position's partitions are read on, subscribed to or not (F5)."""
    if position is None or request.policies.filter_restored_partitions:
        return description
    present = set(description.partitions())
    restored = tuple(sorted(tp for tp in position.offsets if tp not in present and tp.topic not in vanished))
    if not restored:
        return description
    try:
        more = cluster.describe(PartitionSet(restored))
    except NothingToDiscover as error:
        raise NothingToDiscover(
            error.partitions,
            "The pipeline's position has its offsets, and filter_restored_partitions=False reads them on. Set it to "
            "True to leave out what is no longer subscribed to.",
        ) from None
    topics = dict(description.topics)
    for name, topic in more.topics.items():
        leaders = {**(topics[name].leaders if name in topics else {}), **topic.leaders}
        topics[name] = replace(topic, leaders=leaders)
    return replace(description, topics=topics)


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


def _look_up(
    request: PlanRequest, cluster: OffsetReader, partitions: list[TopicPartition], mode: object
) -> dict[TopicPartition, int]:
    if not isinstance(mode, FromTimestamp | UntilTimestamp):
        return {}
    return cluster.offsets_for_times({tp: mode.of(tp.topic) for tp in partitions}, request.scope.isolation_level)


def known_topic_settings(cluster: OffsetReader, topics: Collection[str]) -> dict[str, TopicSettings]:
    """Whose clock a time is compared with, and how long records stay: worth knowing, and never worth a failure."""
    try:
        return cluster.topic_settings(topics)
    except ClusterUnavailable as error:
        log.info("Whose clock the timestamps are, and how long records stay, is not known: %s", error.message)
        return {}


def _backlog(
    request: PlanRequest,
    cluster: OffsetReader,
    planned: Sequence[PlannedPartition],
    carried: Mapping[TopicPartition, int],
    settings: Mapping[str, TopicSettings],
    start: Start,
) -> Backlog:
    """What the caps leave. Runs are as far apart as the run's interval is long, else as the last two plans were."""
    now_ms, interval = request.occasion.now_ms, request.occasion.interval
    pace_ms = None if start.planned_before_ms is None else max(0, now_ms - start.planned_before_ms)
    if interval is not None and interval[1] > interval[0]:
        pace_ms = interval[1] - interval[0]
    ends = {p.topic_partition: p.end_offset for p in planned if p.topic_partition in carried}
    settings = settings or known_topic_settings(cluster, {tp.topic for tp in carried})
    return estimate_backlog(request, cluster, ends, carried, settings, pace_ms)


def _newest_timestamps(
    request: PlanRequest, cluster: OffsetReader, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Asked before the ends of the logs are, so that what is newest is in the plan's reach."""
    if not isinstance(request.bounded, UntilTimestamp):
        return {}
    return cluster.newest_timestamps(partitions, request.scope.isolation_level)


def _look_for_future(
    request: PlanRequest,
    cluster: OffsetReader,
    newest: Mapping[TopicPartition, int],
    end_times: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The first offset whose own time is of the future. Asked only where a newest timestamp leaves room for one."""
    last_ms = request.occasion.now_ms + FUTURE_AFTER_MS
    perhaps = {tp: last_ms + 1 for tp in end_times if newest.get(tp, last_ms + 1) > last_ms}
    return cluster.offsets_for_times(perhaps, request.scope.isolation_level) if perhaps else {}


def _judge_window(
    request: PlanRequest,
    stamped_by: Mapping[str, TimestampType],
    newest: Mapping[TopicPartition, int],
    snapshots: Mapping[TopicPartition, PartitionSnapshot],
    end_times: Mapping[TopicPartition, int],
) -> Completeness | None:
    """Whether records may still arrive before an end that is a time; ``None`` where it is none.

    :raises WindowIncomplete: they may, and the request wants a complete window.
    """
    if not isinstance(request.bounded, UntilTimestamp):
        return None
    end_ms = request.bounded.timestamp_ms
    ends_ms = {tp: request.bounded.of(tp.topic) for tp in snapshots}
    judged = judge(
        end_ms,
        arrived_by(newest, ends_ms, snapshots, end_times),
        now_ms=request.occasion.now_ms,
        idle_timeout_ms=request.limits.idle_timeout_ms,
        append_time_topics={name for name, kind in stamped_by.items() if kind == "LogAppendTime"},
        by_topic=request.bounded.by_topic,
    )
    if request.limits.require_complete and not judged.complete:
        raise WindowIncomplete(
            [f"{tp}: {reason}" for tp, reason in judged.waiting.items()],
            f"Records of before {iso(end_ms)} may still arrive. Run later (WindowCompleteSensor waits for it), or set "
            "require_complete_window=False to read what is there: what arrives later is then not in this window's "
            "output.",
        )
    return judged


def _startup_warning(request: PlanRequest, start: Start) -> list[str]:
    began = start.position.startup if start.position else ""
    if not began or request.startup_words == began:
        return []
    return [
        f"This pipeline began with {began} and goes on from its position: {request.startup_words} is not applied. To "
        "apply it once, set restart to a new word (such as today's date).",
    ]


def _incomplete_warning(judged: Completeness | None) -> list[str]:
    if judged is None or judged.complete:
        return []
    return [f"The end is not reached yet: {judged}. What arrives later is not in this plan."]


def _future_warning(request: PlanRequest, facts: Facts, planned: Sequence[PlannedPartition]) -> list[str]:
    found = [p.topic_partition for p in planned if ends_at_future(facts, p.topic_partition)]
    if not found:
        return []
    lines = "; ".join(future_in_words(facts, tp) for tp in found[:5])
    more = f"; and {len(found) - 5} more partitions" if len(found) > 5 else ""
    what = (
        "This window ends there, and so does every later one; what comes behind it is in none of them"
        if request.window
        else "A look-up by time finds nothing behind it, so this plan goes on to the end of the log"
    )
    return [f"{lines}{more}. {what}. Mend the producer."]


def _ignored(request: PlanRequest, partitions: list[TopicPartition]) -> tuple[TopicPartition, ...]:
    named = {
        tp
        for mode in (request.startup, request.bounded)
        if isinstance(mode, SpecificOffsets | UntilSpecificOffsets)
        for tp in mode.offsets
    }
    return tuple(sorted(named - set(partitions)))


def _ignored_warning(ignored: Sequence[TopicPartition]) -> list[str]:
    if not ignored:
        return []
    shown = ", ".join(map(str, ignored[:5])) + (f" and {len(ignored) - 5} more" if len(ignored) > 5 else "")
    return [f"Offsets are given for partitions that do not exist or are not subscribed to; they are ignored: {shown}."]
