"""Many windows at once, before anybody starts a backfill: how much each would read, and what retention has taken.

Adjacent windows share a boundary, so n of them cost n + 1 look-ups a partition. Each look-up is a batch over all
partitions, asked in the order of time; a partition that has no record any more at a boundary is not asked for the ones
after it. Nothing is planned, claimed or written: a run makes its own plan when it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import islice, pairwise
from typing import Any

from airflow_kafka_offsets.arrivals import arrivals_of_plan
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.complete import judge
from airflow_kafka_offsets.offsets.model import IsolationLevel, PartitionSnapshot, TimestampType, TopicPartition
from airflow_kafka_offsets.offsets.problems import Problems
from airflow_kafka_offsets.offsets.spec import EarliestOffset, PlanRequest
from airflow_kafka_offsets.offsets.times import iso, parse_timestamp_ms
from airflow_kafka_offsets.offsets.widths import boundaries, parse_width, parse_zone
from airflow_kafka_offsets.offsets.window_outlook import Boundary, WindowOutlook, look_out
from airflow_kafka_offsets.planner import known_timestamp_types, now_ms, request_for, take_snapshots

MOST_WINDOWS = 100_000
_BOUNDS = (
    *("startup_timestamp", "bounded_timestamp", "specific_offsets", "bounded_offsets", "partition_width"),
    *("max_records", "max_records_per_partition"),
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class WindowsOutlook:
    """The windows, in the order of time, and what is true of all of them.

    :ivar timestamp_types: of every topic, whose clock stamped its records; ``None`` where the broker does not tell.
    """

    cluster_id: str
    isolation_level: IsolationLevel
    resolved_at_ms: int
    partition_count: int
    timestamp_types: Mapping[str, TimestampType | None]
    windows: tuple[WindowOutlook, ...]


def plan_windows(
    client_config: Mapping[str, Any],
    *,
    start: int | str | datetime,
    end: int | str | datetime,
    width: str | timedelta,
    timezone: str = "UTC",
    progress: Progress | None = None,
    **parameters: Any,
) -> WindowsOutlook:
    """What each window from ``start`` to ``end`` would read, now. Nothing is written anywhere.

    :param client_config: librdkafka settings, as in the Kafka connection's extra.
    :param start: epoch milliseconds, ISO 8601, a datetime, or back from now (``now-30d``).
    :param end: the same; exclusive. Where the width does not fit, the last window is shorter.
    :param width: ``hourly``, ``daily``, ``weekly``, an ISO 8601 duration or a ``timedelta``.
    :param timezone: whose days a width in days counts, and of times that name no zone.
    :param progress: called with how many boundaries are looked up, and of how many.
    :param parameters: what to read, as for :func:`plan_offsets`: ``topics``, ``topic_pattern``, ``isolation_level`` …
    :raises InvalidRequest: before the cluster is asked, with every problem.
    :raises ClusterUnavailable: the cluster could not be asked.
    """
    clock_ms = now_ms()
    request, moments = _read(client_config, start, end, width, timezone, parameters, clock_ms)
    with KafkaCluster(client_config) as cluster:
        return look_out_many(request, cluster, moments, now_ms=clock_ms, progress=progress)


def look_out_many(
    request: PlanRequest,
    cluster: OffsetReader,
    moments: Sequence[int],
    *,
    now_ms: int,
    progress: Progress | None = None,
) -> WindowsOutlook:
    """The windows between ``moments``, which ascend."""
    description = cluster.describe(request.subscription)
    partitions = description.partitions()
    newest = cluster.newest_timestamps(partitions, request.isolation_level)
    snapshots = take_snapshots(cluster, partitions, request.isolation_level)
    types = known_timestamp_types(cluster, description.topics)
    append_time_topics = {topic for topic, kind in types.items() if kind == "LogAppendTime"}

    def is_complete(end: Boundary) -> bool:
        ends_ms, times = dict.fromkeys(snapshots, end.moment_ms), {tp: end.offsets[tp] for tp in end.found}
        arrived = arrivals_of_plan(newest, ends_ms, snapshots, times)
        return judge(
            end.moment_ms,
            arrived,
            now_ms=now_ms,
            idle_timeout_ms=request.idle_timeout_ms,
            append_time_topics=append_time_topics,
        ).complete

    found = _boundaries(cluster, snapshots, moments, request.isolation_level, progress)
    return WindowsOutlook(
        description.cluster_id,
        request.isolation_level,
        now_ms,
        len(partitions),
        {topic: types.get(topic) for topic in description.topics},
        tuple(look_out(snapshots, first, past, is_complete(past)) for first, past in pairwise(found)),
    )


def _boundaries(
    cluster: OffsetReader,
    snapshots: Mapping[TopicPartition, PartitionSnapshot],
    moments: Sequence[int],
    isolation_level: IsolationLevel,
    progress: Progress | None,
) -> Iterator[Boundary]:
    """One after the other, the earliest first: what retention takes meanwhile moves none below the one before."""
    offsets = {tp: log.log_start_offset for tp, log in snapshots.items()}
    left = dict(snapshots)
    for number, moment_ms in enumerate(moments, 1):
        found = cluster.offsets_for_times(dict.fromkeys(left, moment_ms), isolation_level) if left else {}
        offsets = {
            tp: max(offsets[tp], min(found.get(tp, log.end_offset), log.end_offset)) for tp, log in snapshots.items()
        }
        yield Boundary(moment_ms, offsets, frozenset(found))
        left = {tp: log for tp, log in left.items() if tp in found}
        if progress is not None:
            progress(number, len(moments))


def _read(
    client_config: Mapping[str, Any],
    start: int | str | datetime,
    end: int | str | datetime,
    width: str | timedelta,
    timezone: str,
    parameters: Mapping[str, Any],
    clock_ms: int,
) -> tuple[PlanRequest, list[int]]:
    """What to read, and the windows' boundaries.

    :raises InvalidRequest: with every problem.
    """
    problems = Problems()
    zone: tzinfo = problems.take("timezone", lambda: parse_zone(timezone), parse_zone("UTC"))
    start_ms = problems.take("start", lambda: parse_timestamp_ms(start, now_ms=clock_ms, zone=zone), None)
    end_ms = problems.take("end", lambda: parse_timestamp_ms(end, now_ms=clock_ms, zone=zone), None)
    length = problems.take("width", lambda: parse_width(width), None)
    moments: list[int] = []
    if start_ms is not None and end_ms is not None and length is not None:
        if end_ms <= start_ms:
            problems.append(f"end ({iso(end_ms)}) is not after start ({iso(start_ms)}): there is no window between.")
        elif start_ms > clock_ms:
            problems.append(f"start ({iso(start_ms)}) is in the future (it is {iso(clock_ms)} now).")
        else:
            moments = list(islice(boundaries(start_ms, end_ms, length, zone), MOST_WINDOWS + 2))
            if len(moments) > MOST_WINDOWS + 1:
                problems.append(f"width {width!r} makes more than {MOST_WINDOWS} windows: give a longer one.")
    modes = [name for name in ("startup_mode", "bounded_mode") if parameters.get(name) not in (None, "timestamp")]
    stray = [*modes, *(name for name in _BOUNDS if parameters.get(name) is not None)]
    if stray:
        problems.append(f"{', '.join(stray)} cannot be given: a window's bounds come from start, end and width.")
    kept = {name: value for name, value in parameters.items() if name not in (*_BOUNDS, "bounded_mode")}
    try:
        request = request_for(client_config, {**kept, "startup_mode": EarliestOffset.name})
    except InvalidRequest as error:
        raise InvalidRequest((*problems, *error.problems)) from None
    if problems:
        raise InvalidRequest(tuple(problems))
    return request, moments
