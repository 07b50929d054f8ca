"""Answers the questions of a decision: the only place where the engine asks the store, the cluster or Airflow.

The order of the questions to a cluster is part of the rules: newest timestamps, log starts, then ends, then times (B6,
B12). A record that is produced meanwhile lies at or past an end, and belongs to the next run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

from airflow_kafka_offsets.batch.no_airflow import NoAirflow
from airflow_kafka_offsets.batch.situation import (
    Ask,
    At,
    BacklogOf,
    Cuts,
    GroupNow,
    HasBegun,
    HighestAttempts,
    LogNow,
    MorePartitions,
    NewestBatch,
    OffsetsOfGroup,
    Question,
    RangeLookUps,
    RecordsOf,
    Reports,
    SettingsOf,
    TopicsThatExist,
    WindowsBeside,
)
from airflow_kafka_offsets.broker.protocol import Cluster, EndOffset, OffsetReader
from airflow_kafka_offsets.errors import ClusterUnavailable, NotAuthorized, NothingToDiscover
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    IsolationLevel,
    PartitionSnapshot,
    RunKey,
    TopicPartition,
    TopicSettings,
    is_older,
    topics_made_anew,
)
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import deciding_attempts, has_begun, highest_attempts
from airflow_kafka_offsets.plan.backlog import Backlog, expiring, more_runs
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.plan.ranges import Logs
from airflow_kafka_offsets.plan.records_now import RecordsNow, other_logs
from airflow_kafka_offsets.plan.window_claims import TimeClaim, time_claim_of_name
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.subscription import PartitionSet, TopicList
from airflow_kafka_offsets.request.times import short_time
from airflow_kafka_offsets.stores.store import together

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class World:
    """What the engine works on: the log of a pipeline, a cluster, and the Airflow around."""

    pipeline: PipelineLog
    cluster: Cluster
    around: NoAirflow = field(default_factory=NoAirflow)

    def answer(self, question: Question[Any]) -> Any:
        """:raises KafkaOffsetsError: it cannot be answered now."""
        pipeline, cluster = self.pipeline, self.cluster
        match question:
            case Ask(whose, method, args, more):
                return getattr(getattr(self, whose), method)(*args, **more)
            case NewestBatch(run):
                return _log_now(pipeline, run)
            case WindowsBeside(claim):
                return _windows_beside(pipeline, claim)
            case HasBegun(batch):
                return has_begun(batch.store, batch.plan_object)
            case Reports(batch):
                return deciding_attempts(batch)
            case HighestAttempts(batch, splits):
                return highest_attempts(batch, splits)
            case TopicsThatExist(topics):
                return topics_that_exist(cluster, topics)
            case MorePartitions(partitions):
                return _more_partitions(cluster, partitions)
            case OffsetsOfGroup(request, partitions):
                return _group_now(request, cluster, partitions)
            case RecordsOf(plan, may_hold):
                return _records_now(plan, cluster, may_hold=may_hold)
            case RangeLookUps():
                return _logs_that_answer(question, cluster)
            case Cuts(known):
                return _cuts(cluster, known)
            case SettingsOf(topics):
                return _settings(cluster, topics)
            case BacklogOf():
                return estimate_backlog(question, cluster)
        raise TypeError(f"{question!r} is no question of the engine")


def log_alone(pipeline: PipelineLog) -> World:
    """For an order that asks the log and nothing else."""
    return World(pipeline, cast(Cluster, None))


# ── the log ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _log_now(pipeline: PipelineLog, run: RunKey | None) -> LogNow:
    if run is None:
        return LogNow(pipeline.newest(), None)
    return LogNow(*together(pipeline.store, pipeline.newest, partial(pipeline.batch_of_run, run)))


def _windows_beside(
    pipeline: PipelineLog, claim: TimeClaim
) -> tuple[StoredBatch | None, StoredBatch | None, int | None]:
    """Each is listed in the month of the moment where it joins the window: in most cases one month. Of those after it
    it is the first in that month, adjacent or not.

    Where no window ends in the month where this one begins, the last month before that has any is listed, too.
    """
    moments = max(0, claim.start_ms - 1), claim.end_ms
    places = list(dict.fromkeys(TimeClaim(moment_ms, moment_ms + 1).places[0] for moment_ms in moments))

    def named_in(place: str) -> set[TimeClaim]:
        return set(filter(None, map(time_claim_of_name, pipeline.windows_in(place))))

    def planned(names: Iterable[str]) -> StoredBatch | None:
        windows = filter(None, map(pipeline.window, names))
        return next((window for window in windows if not window.log.plan.withdrawn), None)

    found = set().union(*map(named_in, places))
    if not any(other.end_ms <= claim.start_ms for other in found):
        earlier = sorted(place for place in pipeline.window_places() if place < places[0])
        found = found.union(*map(named_in, earlier[-1:]))
    before = planned(sorted(other.name for other in found if other.end_ms == claim.start_ms))
    begin = sorted((other.start_ms, other.name) for other in found if other.start_ms >= claim.end_ms)
    after = planned(name for _, name in begin)
    ended = sorted((other.end_ms, other.name) for other in found if other.end_ms <= claim.start_ms)
    last = before or planned(name for _, name in reversed(ended))
    bounds = last.log.plan.asked.window_bounds if last else None
    return before, after, bounds and bounds[1]


# ── the cluster ───────────────────────────────────────────────────────────────────────────────────────────────────────


def topics_that_exist(cluster: OffsetReader, topics: Collection[str]) -> ClusterDescription | None:
    """Those of ``topics`` that exist, and the cluster's id; ``None`` where nothing at all is found.

    The groups' own topic is asked for beside them, and is there wherever a group is: with it, also a cluster that has
    none of the topics tells its id.
    """
    found = cluster.describe(TopicList((*sorted(topics), "__consumer_offsets"), all_exist=False))
    return found if found.topics else None


def _more_partitions(cluster: OffsetReader, partitions: tuple[TopicPartition, ...]) -> ClusterDescription:
    try:
        return cluster.describe(PartitionSet(partitions))
    except NothingToDiscover as error:
        raise NothingToDiscover(
            error.partitions,
            "The pipeline's position has its offsets, and filter_restored_partitions=False reads them on. Set it to "
            "True to leave out what is no longer subscribed to.",
        ) from None


def _group_now(request: PlanRequest, cluster: OffsetReader, partitions: Collection[TopicPartition]) -> GroupNow:
    """Without the right to read the group, a plan that needs no commit of it is still made (L3)."""
    group_id = request.scope.group_id
    if group_id is None or not (request.group_follows or request.reads_commits):
        return GroupNow(None)
    try:
        return GroupNow(cluster.committed(group_id, partitions))
    except NotAuthorized as error:
        if request.reads_commits or request.scope.pipeline_id is not None:
            raise
        return GroupNow(None, (f"Group {group_id!r} cannot follow this plan: {error.reason}",))


def _records_now(plan: Plan, cluster: OffsetReader, *, may_hold: bool) -> RecordsNow:
    """Three batch questions at most; one more where a partition has had another leader since."""
    was = plan.found
    description = topics_that_exist(cluster, was.topic_ids)
    if description is None or description.cluster_id != was.cluster_id:
        now = description.cluster_id if description else "one without its topics"
        return RecordsNow((f"the plan was made on cluster {was.cluster_id}, and this is {now}",))
    ids, anew = description.topic_ids, topics_made_anew(was.topic_ids, description.topic_ids)
    topics = {p.topic_partition.topic for p in plan.to_read()}
    another = tuple(other_logs(topics, was.topic_ids, ids))
    made_anew = {topic: other_logs([topic], was.topic_ids, ids)[0] for topic in topics & anew}
    present = {tp for tp in description.partitions() if tp.topic not in anew}
    planned = {p.topic_partition: p for p in plan.partitions if p.topic_partition in present}
    without = frozenset(tp for tp in description.leaderless() if tp in planned and (may_hold or not planned[tp].size))
    planned = {tp: p for tp, p in planned.items() if tp not in without}
    log_starts, silent = _without_silent(cluster.log_start_offsets, planned, planned if may_hold else ())
    planned = {tp: p for tp, p in planned.items() if tp not in silent}
    ends = cluster.end_offsets(list(planned), "read_uncommitted") if planned else {}
    if below := [tp for tp, p in planned.items() if ends[tp].offset < p.end_offset]:
        cluster.ask_anew()
        ends |= cluster.end_offsets(below, "read_uncommitted")
    led_anew = {
        tp: EndOffset(p.end_offset, p.leader_epoch)
        for tp, p in planned.items()
        if p.size and is_older(p.leader_epoch, ends[tp].leader_epoch)
    }
    high_watermarks = {tp: end.offset for tp, end in ends.items()}
    return RecordsNow(another, log_starts, high_watermarks, _cuts(cluster, led_anew), without, silent, made_anew)


def _cuts(cluster: OffsetReader, known: Mapping[TopicPartition, At]) -> dict[TopicPartition, int]:
    """Where logs were cut below an offset and have grown past it again, with others: an unclean leader election.

    :param known: of partitions that have had another leader since; where there is none, nobody is asked.
    """
    epochs = {tp: at.leader_epoch for tp, at in known.items() if at.leader_epoch is not None}
    ends = cluster.ends_of_epochs(epochs) if epochs else {}
    return {tp: end for tp, end in ends.items() if end < known[tp].offset}


def _without_silent(
    ask: Callable[[list[TopicPartition]], T],
    partitions: Collection[TopicPartition],
    may_hold: Collection[TopicPartition],
) -> tuple[T, dict[TopicPartition, str]]:
    """The answer, and why some are not in it: their leader gives none until the deadline, and they may be held.

    :raises ClusterUnavailable: a partition that may not be held has no answer.
    """
    try:
        return ask(list(partitions)), {}
    except ClusterUnavailable as error:
        if not error.unanswered or not error.unanswered.keys() <= set(may_hold):
            raise
        silent = dict(error.unanswered)
    found, more = _without_silent(ask, [tp for tp in partitions if tp not in silent], may_hold)
    return found, silent | more


def _logs_that_answer(asked: RangeLookUps, cluster: OffsetReader) -> Logs:
    def ask(left: list[TopicPartition]) -> Logs:
        starts, ends = (
            {tp: time for tp, time in times.items() if tp in left} for times in (asked.start_times, asked.end_times)
        )
        return _logs(replace(asked, partitions=tuple(left), start_times=starts, end_times=ends), cluster)

    if not asked.may_hold:
        return _logs(asked, cluster)
    found, silent = _without_silent(ask, asked.partitions, asked.may_hold)
    return replace(found, unanswered=silent)


def _logs(asked: RangeLookUps, cluster: OffsetReader) -> Logs:
    partitions, level = list(asked.partitions), asked.isolation_level
    newest = cluster.newest_timestamps(partitions, level) if asked.end_times else {}
    snapshots = take_snapshots(cluster, partitions, level)
    below = [tp for tp, end in asked.known_ends.items() if tp in snapshots and snapshots[tp].high_watermark < end]
    if below:
        cluster.ask_anew()
        snapshots |= take_snapshots(cluster, below, level)
    # Ends are known now: a record that is produced from here on lies past them, and is the next run's.
    ends = cluster.offsets_for_times(asked.end_times, level) if asked.end_times else {}
    starts = cluster.offsets_for_times(asked.start_times, level) if asked.start_times else {}
    future: Mapping[TopicPartition, int] = {}
    if asked.future_ms is not None:  # asked only where a newest timestamp leaves room for one
        perhaps = {tp: asked.future_ms for tp in ends if newest.get(tp, asked.future_ms) >= asked.future_ms}
        future = cluster.offsets_for_times(perhaps, level) if perhaps else {}
    return Logs(snapshots, newest, starts, ends, future)


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


def _settings(cluster: OffsetReader, topics: Collection[str]) -> dict[str, TopicSettings]:
    """Whose clock a time is compared with, and how long records stay: worth knowing, and never worth a failure."""
    try:
        return cluster.topic_settings(topics)
    except ClusterUnavailable as error:
        log.info("Whose clock the timestamps are, and how long records stay, is not known: %s", error.message)
        return {}


# ── where retention will be when later runs come, for the estimate of a backlog ───────────────────────────────────────
# Nothing is asked where no cap was hit. What is not known is worth a word, and never worth a failure.


_SHOWN = 3


def estimate_backlog(asked: BacklogOf, cluster: OffsetReader) -> Backlog:
    request, carried, settings, pace_ms = asked.request, asked.carried, asked.settings, asked.pace_ms
    limits = request.limits
    runs = more_runs(carried, limits.max_records, limits.max_records_per_partition)
    topics = sorted({tp.topic for tp in carried})
    retention = {name: of.retention_ms for name in topics if (of := settings.get(name)) and of.retention_ms is not None}
    unknown = _what_is_not_known(topics, settings, pace_ms if retention else 0)
    if unknown is not None or pace_ms is None or not retention:
        why = unknown or "retention.ms is without a limit"
        return Backlog(sum(carried.values()), runs, 0 if unknown is None else None, why)
    timed = {tp: retention[tp.topic] for tp in carried if tp.topic in retention}

    def first_young(run: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """:param run: which run comes, of each partition: the next one is 1."""
        times = {tp: max(0, request.run_context.now_ms + number * pace_ms - timed[tp]) for tp, number in run.items()}
        return cluster.offsets_for_times(times, "read_uncommitted")

    try:
        newest = cluster.newest_timestamps(list(timed), "read_uncommitted")
        at_next = first_young(dict.fromkeys(timed, 1))
        last = {}
        for tp, kept_ms in timed.items():
            through_ms = newest.get(tp, 0) + kept_ms - request.run_context.now_ms
            last[tp] = min(runs, max(1, through_ms // max(1, pace_ms) + 1))
        at_last = first_young(last)
    except ClusterUnavailable as error:
        return Backlog(sum(carried.values()), runs, None, error.message)
    gone = (expiring(asked.ends[tp], carried[tp], at_next.get(tp), last[tp], at_last.get(tp), runs) for tp in timed)
    why = f"by retention.ms, with {short_time(pace_ms)} between two runs"
    return Backlog(sum(carried.values()), runs, sum(gone), why)


def _what_is_not_known(topics: Sequence[str], settings: Mapping[str, TopicSettings], pace_ms: int | None) -> str | None:
    hidden = [name for name in topics if name not in settings]
    if hidden:
        return f"this client may not see the configuration of {first_few(hidden, _SHOWN)} (the right DescribeConfigs)"
    by_size = [name for name in topics if settings[name].retention_bytes is not None]
    if by_size:
        return f"{first_few(by_size, _SHOWN)} has retention.bytes, which deletes by size"
    return "how far apart the runs are is not known" if pace_ms is None else None
