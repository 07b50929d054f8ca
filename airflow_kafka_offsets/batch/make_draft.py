"""Request + what the cluster said → a draft: the range of each partition, which is in no log yet.

It is pure. What it lacks it asks of the situation; the order of the questions is part of the rules (``look_ups``). What
an answer means for one partition is decided in ``resolve``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_kafka_offsets.batch.retention_margin import near_retention
from airflow_kafka_offsets.batch.situation import (
    BacklogOf,
    Cuts,
    MorePartitions,
    OffsetsOfGroup,
    RangeLookUps,
    SettingsOf,
    Situation,
)
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import (
    ClusterChanged,
    NothingToDiscover,
    TopicRecreated,
    WindowIncomplete,
    named,
    refuse,
)
from airflow_kafka_offsets.kafka_values import (
    Actor,
    ClusterDescription,
    TimestampType,
    TopicPartition,
    TopicSettings,
    topics_made_anew,
)
from airflow_kafka_offsets.plan.commit_metadata import Held
from airflow_kafka_offsets.plan.completeness import Completeness, arrived_by, judge
from airflow_kafka_offsets.plan.lag_and_margin import LogStart, lag_and_margin, log_starts_of
from airflow_kafka_offsets.plan.missing_topics import compare_topics
from airflow_kafka_offsets.plan.plan import Asked, Draft, Found, Plan, PlannedPartition
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.plan.ranges import (
    Facts,
    Known,
    Logs,
    ends_at_future,
    future_in_words,
    resolve,
    to_compare,
)
from airflow_kafka_offsets.plan.records_now import RecordsNow
from airflow_kafka_offsets.plan.splits import cap, carried_over
from airflow_kafka_offsets.plan.topic_outputs import outputs_of
from airflow_kafka_offsets.request.modes import AtTimestamp, SpecificOffsets, mode_name
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.policies import ByDuration
from airflow_kafka_offsets.request.times import FUTURE_AFTER_MS, iso

_SHOWN = 5
NO_LEADER, BY_ORDER = "it has no leader", "by order"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a draft goes on from.

    :ivar position: ``None``: the startup mode decides.
    :ivar saved: the position that lost and skipped records are counted from; ``None``: from the start itself.
    :ivar adopted: partitions that go on from the group instead, because a person said so.
    :ivar applied: the restart words of the pipeline so far.
    :ivar restart: the one that this draft applies.
    :ivar before: the plan of the batch before: at what pace runs come, and where the logs began then.
    :ivar whole: whether a partition that the position lacks is new: not where the group gave what it still has of one.
    """

    position: Position | None = None
    saved: Position | None = None
    adopted: Held = field(default_factory=dict)
    applied: tuple[str, ...] = ()
    restart: str | None = None
    before: Plan | None = None
    whole: bool = True


def draft(request: PlanRequest, me: Actor, s: Situation, start: Start) -> Draft:
    """
    :raises RefusedError: one of its kinds, with every bad partition in it; nothing is planned then.
    """
    subscribed = s.cluster(Cluster.describe, request.scope.subscription)
    if request.of_plan is not None:
        refuse(request.of_plan.differences(subscribed))
    vanished, topic_warnings = compare_topics(request, subscribed.topics, start.position)
    description = _with_restored_topics(request, s, subscribed, start.position, vanished)
    outputs_of(request.output, description.topics, request.set_aside_output)  # no two may be one
    group = s.need(OffsetsOfGroup(request, tuple(subscribed.partitions())))
    known = _known(request, description, group.held, start)
    held = _held(request, description, s)
    partitions, topics = description.partitions(), tuple(description.topics)
    asked = [tp for tp in partitions if tp not in held or not _has_position(tp, known, start)]
    may_hold = request.policies.answers["unavailable"] == "hold"
    placed = frozenset(tp for tp in asked if may_hold and _has_position(tp, known, start))
    logs = s.need(replace(_look_ups(request, asked, known), may_hold=placed))
    held |= logs.unanswered
    facts = replace(
        known,
        held=held,
        snapshots=logs.snapshots,
        newest=logs.newest,
        starts=logs.starts,
        ends=logs.ends,
        future=logs.future,
    )
    compared = to_compare(request, facts)
    facts = replace(facts, cuts=s.need(Cuts(compared)) if compared else {})
    settings: Mapping[str, TopicSettings] = {}
    by_time = isinstance(request.startup, AtTimestamp) or isinstance(request.bounded, AtTimestamp)
    if by_time or request.limits.min_retention_margin_ms is not None:
        settings = s.need(SettingsOf(topics))
    stamped_by = {name: of.timestamp_type for name, of in settings.items() if by_time}
    judged = _judge_window(request, stamped_by, logs, held)
    whole = resolve(request, facts)
    planned = cap(whole, request.limits.max_records, request.limits.max_records_per_partition)
    carried = carried_over(whole, planned)
    began = log_starts_of(start.before, description)
    planned = [_with_margin(request, p, logs, settings, began, start) for p in planned]
    ignored = _ignored(request, partitions)
    return Draft(
        pipeline=request.scope.pipeline_id,
        asked=_asked(request, me),
        found=Found(
            cluster_id=description.cluster_id,
            topic_ids=description.topic_ids,
            timestamp_types=stamped_by,
            window_complete=judged.complete and not held if judged else None,
            low_watermark_ms=judged.low_watermark_ms if judged else None,
            vanished=vanished,
            ignored=ignored,
            backlog=s.need(_backlog(request, s, planned, carried, settings, start)) if carried else None,
        ),
        partitions=tuple(planned),
        resolved_at_ms=request.run_context.now_ms,
        split_count=request.limits.splits,
        restarts=start.applied if start.restart is None else (*start.applied, start.restart),
        restarted=start.restart is not None,
        warnings=(
            *request.warnings,
            *topic_warnings,
            *_warnings(request, start, facts, planned, judged, ignored),
            *near_retention(request, s, planned, topics, began),
            *group.warnings,
        ),
    )


def _asked(request: PlanRequest, me: Actor) -> Asked:
    return Asked(
        isolation_level=request.scope.isolation_level,
        startup_mode=mode_name(request.startup),
        bounded_mode=mode_name(request.bounded),
        window=request.window,
        group_id=request.scope.group_id,
        group_follows=request.group_follows,
        output=request.output,
        subscription=str(request.scope.subscription),
        startup=str(request.startup),
        interval=request.run_context.interval,
        window_bounds=request.window_bounds,
        window_bounds_by_topic=request.window_bounds_by_topic,
        split_by=request.limits.split_by,
        task=(me.run.dag_id, me.run.task_id) if me.run else None,
    )


# ── where each partition goes on ──────────────────────────────────────────────────────────────────────────────────────


def _known(request: PlanRequest, description: ClusterDescription, held: Held | None, start: Start) -> Facts:
    """What is known of the starts, once it is known of which cluster and of which topics the position is.

    :raises ClusterChanged: the position is another cluster's, and no policy says what then.
    :raises TopicRecreated: a topic is another log by now, and no policy says what then.
    """
    position, saved = start.position, start.saved
    if position is not None and position.cluster_id != description.cluster_id:
        return Facts({}, committed=held, positions=_on_another_cluster(request, position, description.cluster_id, held))
    counted = saved if saved is not None and saved.cluster_id == description.cluster_id else None
    before, topic_ids = position or counted, description.topic_ids
    recreated = topics_made_anew(before.topic_ids if before else {}, topic_ids)
    positions = None
    if position is not None:
        refuse_topics_made_anew(request, position, topic_ids)
        adopted = {tp: Known(c.offset, "group moved → adopted", c.leader_epoch) for tp, c in start.adopted.items()}
        known = {tp: Known(o.offset, "position", o.leader_epoch) for tp, o in position.offsets.items()}
        positions = {tp: found for tp, found in {**known, **adopted}.items() if tp.topic not in recreated}
    # A batch that is planned anew may go on in a log that its own first plan has not known yet.
    another = recreated | topics_made_anew(counted.topic_ids if counted else {}, topic_ids)
    offsets = counted.offsets if counted else {}
    return Facts(
        {},
        committed=held,
        positions=positions,
        saved={tp: o.offset for tp, o in offsets.items() if tp.topic not in another},
        recreated=recreated if positions is not None else frozenset(),
        new_partition=request.policies.answers["new_partition"] if start.whole else "earliest",
    )


def _held(request: PlanRequest, description: ClusterDescription, s: Situation) -> dict[TopicPartition, str]:
    """Why each partition is held that is. One without a position is asked all the same: where it starts, a leader says.

    :raises NothingToDiscover: a person holds a partition that does not exist.
    """
    by_order = held_by_order(request, description)
    without: dict[TopicPartition, str] = {}
    if request.policies.answers["unavailable"] == "hold":
        found = [answer.silent for _, answer in s.answers if isinstance(answer, RecordsNow)]
        without = {tp: why for of_plan in found for tp, why in of_plan.items()}  # who was waited for is not asked again
        without |= dict.fromkeys(description.leaderless(), NO_LEADER)
    return {**without, **dict.fromkeys(by_order, BY_ORDER)}


def held_by_order(request: PlanRequest, description: ClusterDescription) -> frozenset[TopicPartition]:
    """:raises NothingToDiscover: a person holds a partition that does not exist."""
    by_order, present = request.policies.hold, set(description.partitions())
    if by_order - present:
        raise NothingToDiscover(
            [f"{tp} does not exist" for tp in sorted(by_order - present)],
            f"{named('hold')} names it. Correct the name, or leave it out.",
        )
    return by_order


def _has_position(tp: TopicPartition, known: Facts, start: Start) -> bool:
    """Whether it is known where it goes on, and by no order of this run: a group that is adopted is looked at."""
    return tp in (known.positions or {}) and tp not in start.adopted


def refuse_topics_made_anew(
    request: PlanRequest, before: Position | Found, topic_ids: Mapping[str, str | None]
) -> None:
    """:raises TopicRecreated: a topic is another log by now, and no policy says what then."""
    recreated = topics_made_anew(before.topic_ids, topic_ids)
    if recreated and request.policies.answers["topic_recreated"] == "fail":
        raise TopicRecreated(
            lines_of_topics_made_anew(recreated, before, topic_ids),
            "The topic was deleted and created again: it is another log, and the offsets mean nothing in it. "
            'Set policies={"topic_recreated": "earliest"} to read the new one from its start (of one run, its conf: '
            '{"kafka_offsets": '
            '{"policies": {"topic_recreated": "earliest"}}}). What the old one still had is gone.',
        )


def _on_another_cluster(
    request: PlanRequest, position: Position, cluster_id: str, held: Held | None
) -> dict[TopicPartition, Known]:
    match request.policies.answers["cluster_changed"]:
        case "earliest":
            return {}  # every partition is new
        case "adopt-group":
            found = held or {}
            return {tp: Known(c.offset, "cluster changed → group adopted", c.leader_epoch) for tp, c in found.items()}
    raise ClusterChanged(request.scope.pipeline_id or "", position.cluster_id, cluster_id)


def lines_of_topics_made_anew(
    topics: Collection[str], before: Position | Found, topic_ids: Mapping[str, str | None]
) -> list[str]:
    what = "position" if isinstance(before, Position) else "window before"
    return [f"{t}: its id is {topic_ids[t]}, the {what} is of {before.topic_ids[t]}" for t in sorted(topics)]


def _with_restored_topics(
    request: PlanRequest,
    s: Situation,
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
    more = s.need(MorePartitions(restored))
    topics = dict(description.topics)
    for name, topic in more.topics.items():
        leaders = {**(topics[name].leaders if name in topics else {}), **topic.leaders}
        topics[name] = replace(topic, leaders=leaders)
    return replace(description, topics=topics)


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _look_ups(request: PlanRequest, partitions: Sequence[TopicPartition], known: Facts) -> RangeLookUps:
    """A start is looked up where the startup mode decides it by time, for new partitions alone, or for a reset."""
    startup, bounded = request.startup, request.bounded
    new = [tp for tp in partitions if tp not in (known.positions or {}) and tp.topic not in known.recreated]
    starts: dict[TopicPartition, int] = {}
    reset, loss = request.policies.auto_offset_reset, request.policies.answers["data_loss"]
    if isinstance(reset, ByDuration) and (known.positions is None or loss == "reset"):
        starts = dict.fromkeys(partitions, request.run_context.now_ms - reset.duration_ms)
    if isinstance(startup, AtTimestamp) and (known.positions is None or known.new_partition == "timestamp"):
        starts |= {tp: startup.of(tp) for tp in new}
    return RangeLookUps(
        tuple(partitions),
        request.scope.isolation_level,
        starts,
        {tp: bounded.of(tp) for tp in partitions} if isinstance(bounded, AtTimestamp) else {},
        request.run_context.now_ms + FUTURE_AFTER_MS + 1,
        {tp: at.offset for tp, at in (known.positions or {}).items()},
    )


def _judge_window(
    request: PlanRequest, stamped_by: Mapping[str, TimestampType], logs: Logs, held: Mapping[TopicPartition, str]
) -> Completeness | None:
    """Whether records may still arrive before an end that is a time; ``None`` where it is none.

    :raises WindowIncomplete: they may, and the request wants a complete window.
    """
    bounded = request.bounded
    if not isinstance(bounded, AtTimestamp):
        return None
    ends_ms = {tp: bounded.of(tp) for tp in logs.snapshots}
    judged = judge(
        bounded.timestamp_ms,
        arrived_by(logs.newest, ends_ms, logs.snapshots, logs.ends),
        now_ms=request.run_context.now_ms,
        idle_timeout_ms=request.limits.idle_timeout_ms,
        append_time_topics={name for name, kind in stamped_by.items() if kind == "LogAppendTime"},
        by_topic=bounded.by_topic,
    )
    waiting = {**judged.waiting, **{tp: f"held: {why}" for tp, why in held.items()}}
    if request.limits.require_complete and waiting:
        raise WindowIncomplete(
            [f"{tp}: {waiting[tp]}" for tp in sorted(waiting)],
            f"Records of before {iso(bounded.timestamp_ms)} may still arrive. Run later (WindowCompleteSensor waits "
            f"for it), or set {named('require_complete_window=False')} to read what is there: what arrives later is "
            "not in "
            "this window's output.",
        )
    return judged


def _backlog(
    request: PlanRequest,
    s: Situation,
    planned: Sequence[PlannedPartition],
    carried: Mapping[TopicPartition, int],
    settings: Mapping[str, TopicSettings],
    start: Start,
) -> BacklogOf:
    """What the caps leave. Runs are as far apart as the run's interval is long, else as the last two plans were."""
    now_ms, interval = request.run_context.now_ms, request.run_context.interval
    pace_ms = None if start.before is None else max(0, now_ms - start.before.resolved_at_ms)
    if interval is not None and interval[1] > interval[0]:
        pace_ms = interval[1] - interval[0]
    ends = {p.topic_partition: p.end_offset for p in planned if p.topic_partition in carried}
    settings = settings or s.need(SettingsOf(tuple(sorted({tp.topic for tp in carried}))))
    return BacklogOf(request, ends, carried, settings, pace_ms)


def _with_margin(
    request: PlanRequest,
    p: PlannedPartition,
    logs: Logs,
    settings: Mapping[str, TopicSettings],
    began: Mapping[TopicPartition, LogStart],
    start: Start,
) -> PlannedPartition:
    """What is known of it without another question: no record is read for it."""
    tp, startup = p.topic_partition, request.startup
    since_ms = startup.of(tp) if isinstance(startup, AtTimestamp) and start.position is None else None
    found = lag_and_margin(
        p.start_offset,
        logs.snapshots.get(tp),
        request.run_context.now_ms,
        record_ms=since_ms,
        settings=settings.get(tp.topic),
        before=began.get(tp),
    )
    return p if found.margin_ms is None else replace(p, margin_ms=found.margin_ms)


# ── warnings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _warnings(
    request: PlanRequest,
    start: Start,
    facts: Facts,
    planned: Sequence[PlannedPartition],
    judged: Completeness | None,
    ignored: Sequence[TopicPartition],
) -> Iterator[str]:
    """What a person should know of the draft."""
    began = start.position.startup if start.position else ""
    if began and str(request.startup) != began:
        yield (
            f"This pipeline began with {began} and goes on from its position: {request.startup} is not applied. To "
            f"apply it once, set {named('restart')} to a new word (such as today's date)."
        )
    if judged is not None and not judged.complete:
        yield f"The end is not reached yet: {judged}. What arrives later is not in this plan."
    future = [future_in_words(facts, p.topic_partition) for p in planned if ends_at_future(facts, p.topic_partition)]
    if future:
        what = (
            "This window ends there, and so does every later one; what comes behind it is in none of them"
            if request.window
            else "A look-up by time finds nothing behind it, so this plan goes on to the end of the log"
        )
        yield f"{first_few(future, _SHOWN, 'partitions', '; ')}. {what}. Mend the producer."
    if ignored:
        shown = first_few([*map(str, ignored)], _SHOWN)
        yield f"Offsets are given for partitions that do not exist or are not subscribed to; they are ignored: {shown}."
    held = [f"{p.topic_partition} stays at {p.end_offset} ({p.end_reason})" for p in planned if p.held]
    if held:
        yield f"{first_few(held, _SHOWN, 'partitions', '; ')}. A later run reads on from there."


def _ignored(request: PlanRequest, partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    named = {
        tp for mode in (request.startup, request.bounded) if isinstance(mode, SpecificOffsets) for tp in mode.offsets
    }
    return tuple(sorted(named - set(partitions)))
