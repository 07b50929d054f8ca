"""Estimates many windows before a backfill: how much each would read, and what retention has deleted.

Adjacent windows share a boundary, so n of them cost n + 1 look-ups a partition. Each look-up is a batch over all
partitions, asked in the order of time; a partition that has no record any more at a boundary is not asked for the ones
after it. Nothing is planned, claimed or written: a run makes its own plan when it comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import islice, pairwise
from typing import Any

from airflow_kafka_offsets.batch.look_ups import take_snapshots
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.model import IsolationLevel, PartitionSnapshot, TimestampType, TopicPartition
from airflow_kafka_offsets.offsets.problems import Problems
from airflow_kafka_offsets.offsets.request.scope import Scope
from airflow_kafka_offsets.offsets.request.times import DEFAULT_IDLE_TIMEOUT_MS, iso, parse_timestamp_ms
from airflow_kafka_offsets.offsets.request.widths import boundaries, parse_width, parse_zone
from airflow_kafka_offsets.offsets.window.complete import arrived_by, judge
from airflow_kafka_offsets.offsets.window.outlook import Boundary, WindowOutlook, look_out
from airflow_kafka_offsets.progress import Progress

MOST_WINDOWS = 100_000


@dataclass(frozen=True, slots=True)
class WindowsOutlook:
    """The estimates of all windows, in the order of time.

    :ivar timestamp_types: of every topic, whose clock stamped its records; ``None`` where the broker does not tell.
    """

    cluster_id: str
    isolation_level: IsolationLevel
    resolved_at_ms: int
    partition_count: int
    timestamp_types: Mapping[str, TimestampType | None]
    windows: tuple[WindowOutlook, ...]


def estimate_windows(
    scope: Scope,
    cluster: OffsetReader,
    moments: Sequence[int],
    *,
    now_ms: int,
    idle_timeout_ms: int = DEFAULT_IDLE_TIMEOUT_MS,
) -> WindowsOutlook:
    """What each window between ``moments``, which ascend, would read now.

    :raises ClusterUnavailable: the cluster could not be asked.
    """
    description = cluster.describe(scope.subscription)
    partitions = description.partitions()
    newest = cluster.newest_timestamps(partitions, scope.isolation_level)
    snapshots = take_snapshots(cluster, partitions, scope.isolation_level)
    settings = cluster.topic_settings(description.topics)
    types = {name: of.timestamp_type for name, of in settings.items()}
    append_time_topics = {topic for topic, kind in types.items() if kind == "LogAppendTime"}

    def is_complete(end: Boundary) -> bool:
        ends_ms, times = dict.fromkeys(snapshots, end.moment_ms), {tp: end.offsets[tp] for tp in end.found}
        arrived = arrived_by(newest, ends_ms, snapshots, times)
        return judge(
            end.moment_ms,
            arrived,
            now_ms=now_ms,
            idle_timeout_ms=idle_timeout_ms,
            append_time_topics=append_time_topics,
        ).complete

    found = _boundaries(cluster, snapshots, moments, scope.isolation_level)
    return WindowsOutlook(
        description.cluster_id,
        scope.isolation_level,
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
) -> Iterator[Boundary]:
    """One after the other, the earliest first: what retention takes meanwhile moves none below the one before."""
    offsets = {tp: log.log_start_offset for tp, log in snapshots.items()}
    left, progress = dict(snapshots), Progress("look up the windows' times", len(moments), "times")
    for moment_ms in moments:
        found = cluster.offsets_for_times(dict.fromkeys(left, moment_ms), isolation_level) if left else {}
        offsets = {
            tp: max(offsets[tp], min(found.get(tp, log.end_offset), log.end_offset)) for tp, log in snapshots.items()
        }
        yield Boundary(moment_ms, offsets, frozenset(found))
        left = {tp: log for tp, log in left.items() if tp in found}
        progress.add()


def window_moments(
    start: int | str | datetime, end: int | str | datetime, width: str | timedelta, timezone: str, now_ms: int
) -> list[int]:
    """The boundaries of the windows from ``start`` to ``end``.

    :param start: epoch milliseconds, ISO 8601, a datetime, or back from now (``now-30d``).
    :param end: the same; exclusive. Where the width does not fit, the last window is shorter.
    :param width: ``hourly``, ``daily``, ``weekly``, an ISO 8601 duration or a ``timedelta``.
    :param timezone: whose days a width in days counts, and of times that name no zone.
    :raises InvalidRequest: with every problem.
    """
    problems = Problems()
    zone: tzinfo = problems.take("timezone", lambda: parse_zone(timezone), parse_zone("UTC"))
    start_ms: Any = problems.take("start", lambda: parse_timestamp_ms(start, now_ms=now_ms, zone=zone), None)
    end_ms: Any = problems.take("end", lambda: parse_timestamp_ms(end, now_ms=now_ms, zone=zone), None)
    length = problems.take("width", lambda: parse_width(width), None)
    moments: list[int] = []
    if start_ms is not None and end_ms is not None and length is not None:
        if end_ms <= start_ms:
            problems.append(f"end ({iso(end_ms)}) is not after start ({iso(start_ms)}): there is no window between.")
        elif start_ms > now_ms:
            problems.append(f"start ({iso(start_ms)}) is in the future (it is {iso(now_ms)} now).")
        else:
            moments = list(islice(boundaries(start_ms, end_ms, length, zone), MOST_WINDOWS + 2))
            if len(moments) > MOST_WINDOWS + 1:
                problems.append(f"width {width!r} makes more than {MOST_WINDOWS} windows: give a longer one.")
    if problems:
        raise InvalidRequest(tuple(problems))
    return moments
