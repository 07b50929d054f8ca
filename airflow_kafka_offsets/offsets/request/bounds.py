"""Where to start and where to end, from what people write and from the run: a startup mode and a bounded mode.

A bound that is a time and is not given comes from the run, the first of these that there is: its data interval, if
that has a length; its partition, from the partition's date for ``partition_width``. A run that has neither is refused,
with the timetable that would give it one, because the alternative is a window that is always empty: every run of a
backfill would be green, and none would have read a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.problems import Problems
from airflow_kafka_offsets.offsets.request.modes import (
    BOUNDED_MODES,
    STARTUP_MODES,
    BoundedMode,
    EarliestOffset,
    FromTimestamp,
    GroupOffsets,
    LatestOffset,
    SpecificOffsets,
    StartupMode,
    UntilGroupOffsets,
    UntilLatest,
    UntilSpecificOffsets,
    UntilTimestamp,
)
from airflow_kafka_offsets.offsets.request.offset_maps import mapping
from airflow_kafka_offsets.offsets.request.scope import PartitionSet, Subscription, TopicList
from airflow_kafka_offsets.offsets.request.times import is_relative, iso, looks_like_seconds, parse_timestamp_ms
from airflow_kafka_offsets.offsets.request.widths import parse_width

Time = int | str | datetime
Times = Time | Mapping[str, Time]
Offsets = Mapping[str, Mapping[str, int]] | str

TIMES_EXAMPLE = '{"orders": "2026-11-20T10:00:00Z", "payments": "now-2h"}'
_TIMETABLES = (
    "schedule the DAG with CronDataIntervalTimetable or CronTriggerTimetable(..., interval=...), whose runs have one, "
    "or with CronPartitionTimetable and partition_width"
)


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition that an Airflow run is for.

    :ivar date_ms: when the partition begins; ``None`` where Airflow cannot tell it from the key.
    :ivar zone: of the timetable; where a partition is days wide, its calendar decides how long they are.
    """

    key: str
    date_ms: int | None = None
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class RunWindow:
    """``[start, end)`` of a run in epoch milliseconds, and where it comes from, in words."""

    start_ms: int
    end_ms: int
    source: str


def window_of_run(
    interval: tuple[int, int] | None, partition: Partition | None, width: str | timedelta | None
) -> RunWindow:
    """The window that the run itself gives.

    :raises ValueError: it gives none, and why; a sentence that can follow "is missing and".
    """
    if interval is not None and interval[0] < interval[1]:
        return RunWindow(*interval, "the data interval")
    if partition is not None and partition.date_ms is not None:
        if width is None:
            raise ValueError(
                f"this run is for partition {partition.key!r}, whose length is not known: give partition_width, such "
                "as PT1H"
            )
        end_ms = parse_width(width).after(partition.date_ms, partition.zone)
        return RunWindow(partition.date_ms, end_ms, "the partition")
    if partition is not None:
        raise ValueError(
            f"this run is for partition {partition.key!r}, which Airflow knows no date of: make the time from the key "
            'yourself, such as "{{ partition_key }}", or schedule the DAG with CronPartitionTimetable'
        )
    if interval is not None:
        raise ValueError(
            f"this run's data interval has no length ({iso(interval[0])}): a plain cron string, @hourly and a "
            f"timedelta give such intervals, and each window would be empty. Give the time, or {_TIMETABLES}"
        )
    raise ValueError(
        "this run has no data interval (asset-triggered runs, and runs triggered without a logical date, have none): "
        f"give the time, such as from the run's conf, or {_TIMETABLES}"
    )


@dataclass(slots=True)
class BoundsReader:
    """Reads both bounds of one request. What is wrong goes to ``problems``, what is only odd to ``warnings``.

    :ivar read_offsets: offsets by partition, in the forms of ``offset_maps``.
    """

    problems: Problems
    warnings: list[str]
    subscription: Subscription | None
    read_offsets: Callable[[Any], dict[TopicPartition, int]]
    interval: tuple[int, int] | None
    partition: Partition | None
    partition_width: str | timedelta | None
    now_ms: int

    def startup(self, mode: str, timestamp: Times | None, offsets: Offsets | None) -> StartupMode | None:
        self._foreign("startup_timestamp", timestamp, "startup_mode", mode, FromTimestamp.name)
        self._foreign("specific_offsets", offsets, "startup_mode", mode, SpecificOffsets.name)
        match mode:
            case EarliestOffset.name:
                return EarliestOffset()
            case LatestOffset.name:
                return LatestOffset()
            case GroupOffsets.name:
                return GroupOffsets()
            case FromTimestamp.name:
                return self._from_timestamp(timestamp)
            case SpecificOffsets.name:
                if offsets is None:
                    self.problems.append(
                        "startup_mode='specific-offsets' needs specific_offsets, "
                        'such as {"orders": {"0": 42}}: the next record to read.'
                    )
                    return None
                parsed = self.problems.take("specific_offsets", lambda: self.read_offsets(offsets), None)
                return None if parsed is None else SpecificOffsets(parsed)
            case _:
                self.problems.append(f"startup_mode is {mode!r}; use one of {', '.join(STARTUP_MODES)}.")
                return None

    def bounded(self, mode: str, timestamp: Times | None, offsets: Offsets | None) -> BoundedMode | None:
        self._foreign("bounded_timestamp", timestamp, "bounded_mode", mode, UntilTimestamp.name)
        self._foreign("bounded_offsets", offsets, "bounded_mode", mode, UntilSpecificOffsets.name)
        match mode:
            case UntilLatest.name:
                return UntilLatest()
            case UntilGroupOffsets.name:
                return UntilGroupOffsets()
            case UntilTimestamp.name:
                return self.until("bounded_timestamp", timestamp)
            case UntilSpecificOffsets.name:
                if offsets is None:
                    self.problems.append(
                        "bounded_mode='specific-offsets' needs bounded_offsets, "
                        'such as {"orders": {"0": 42}}: of every partition the first offset not to read.'
                    )
                    return None
                parsed = self.problems.take("bounded_offsets", lambda: self.read_offsets(offsets), None)
                return None if parsed is None else UntilSpecificOffsets(parsed)
            case _:
                self.problems.append(f"bounded_mode is {mode!r}; use one of {', '.join(BOUNDED_MODES)}.")
                return None

    def until(self, parameter: str, timestamp: Times | None) -> UntilTimestamp | None:
        """An end by time, that of the run where none is given."""
        if timestamp is None:
            window = self._window_of_run(parameter)
            return UntilTimestamp(window.end_ms) if window else None
        times = self._times(parameter, timestamp)
        if times is None:
            return None
        return UntilTimestamp(max(times.values()), {} if None in times else _named(times))

    def _from_timestamp(self, timestamp: Times | None) -> FromTimestamp | None:
        if timestamp is None:
            window = self._window_of_run("startup_timestamp")
            if window is None or self._in_the_future({None: window.start_ms}):
                return None
            return FromTimestamp(window.start_ms, written=f"of {window.source}")
        times = self._times("startup_timestamp", timestamp)
        if times is None or self._in_the_future(times):
            return None
        by_topic = {} if None in times else _named(times)
        return FromTimestamp(min(times.values()), by_topic, _as_written(timestamp, times))

    def _in_the_future(self, times: Mapping[str | None, int]) -> bool:
        future = {topic: moment for topic, moment in times.items() if moment > self.now_ms}
        for topic, moment in future.items():
            self.problems.append(
                f"startup_timestamp {iso(moment)}{f' of topic {topic}' if topic else ''} is in the future (it is "
                f"{iso(self.now_ms)} now): no record can be found for it yet."
            )
        return bool(future)

    def _window_of_run(self, parameter: str) -> RunWindow | None:
        try:
            window = window_of_run(self.interval, self.partition, self.partition_width)
        except ValueError as error:
            if self.partition_width is not None and str(error).startswith("is "):
                sentence = f"partition_width {error}."
                if sentence not in self.problems:
                    self.problems.append(sentence)
            else:
                self.problems.append(f"{parameter} is missing and {error}.")
            return None
        if window.source == "the partition" and window.end_ms > self.now_ms:
            sentence = (
                f"The partition from {iso(window.start_ms)} to {iso(window.end_ms)} has not ended (it is "
                f"{iso(self.now_ms)} now): its records are still to come. A run for the partition that has just ended "
                "is CronPartitionTimetable(..., run_offset=-1)."
            )
            if sentence not in self.problems:
                self.problems.append(sentence)
            return None
        return window

    def _times(self, parameter: str, value: Times) -> dict[str | None, int] | None:
        """The moment of every topic, or, under ``None``, the one moment of all of them."""
        if isinstance(value, Mapping) or (isinstance(value, str) and value.lstrip().startswith("{")):
            by_topic = self.problems.take(parameter, lambda: self._by_topic(value), None)
            if by_topic is None:
                return None
        else:
            by_topic = {None: value}
        found: dict[str | None, int] = {}
        for topic, written in by_topic.items():
            name = parameter if topic is None else f"{parameter} of topic {topic}"
            moment = self.problems.take(name, lambda w=written: parse_timestamp_ms(w, now_ms=self.now_ms), None)  # type: ignore[misc]
            if moment is None:
                continue
            found[topic] = moment
            if looks_like_seconds(moment):
                self.warnings.append(
                    f"{name} {written!r} is {iso(moment)}: is it in seconds? Kafka's timestamps are milliseconds."
                )
        return found if len(found) == len(by_topic) else None

    def _by_topic(self, value: Mapping[str, Time] | str) -> dict[str | None, Time]:
        times: dict[str | None, Time] = dict(mapping(value, TIMES_EXAMPLE).items())
        if not times:
            raise ValueError(f"names no topic; expected a time for every one, as in {TIMES_EXAMPLE}")
        match self.subscription:
            case TopicList(topics):
                wanted = set(topics)
            case PartitionSet(partitions):
                wanted = {tp.topic for tp in partitions}
            case None:
                return times  # the subscription is refused anyway
            case _:
                raise ValueError("has times by topic, and topic_pattern may find others: list the topics")
        if wanted - set(times):
            missing = ", ".join(sorted(wanted - set(times)))
            raise ValueError(f"names no time for {missing}; expected one for every topic, as in {TIMES_EXAMPLE}")
        if set(times) - wanted:
            others = ", ".join(sorted(map(str, set(times) - wanted)))
            raise ValueError(f"names {others}, which is not subscribed to")
        return times

    def _foreign(self, parameter: str, value: object, mode_name: str, mode: str, owner: str) -> None:
        if value is not None and mode != owner:
            self.problems.append(
                f"{parameter} is given, but {mode_name} is {mode!r}: it goes with {mode_name}={owner!r} only."
            )


def ends_before_start(startup: StartupMode | None, bounded: BoundedMode | None) -> list[str]:
    """A sentence for each topic, or one for all of them, whose window would end before it starts."""
    match startup, bounded:
        case FromTimestamp() as start, UntilTimestamp() as end:
            topics: list[str | None] = [*sorted({*start.by_topic, *end.by_topic})] or [None]
            return [
                f"bounded_timestamp ({iso(end.of(topic))}) is before startup_timestamp ({iso(start.of(topic))})"
                f"{f' for topic {topic}' if topic else ''}."
                for topic in topics
                if end.of(topic) < start.of(topic)
            ]
        case _:
            return []


def _named(times: Mapping[str | None, int]) -> dict[str, int]:
    return {topic: times[topic] for topic in sorted(name for name in times if name is not None)}


def _as_written(value: Times, times: Mapping[str | None, int]) -> str | None:
    """How the request words a start that one number does not say; the same words in each run of the same DAG."""
    if None in times:
        return str(value).strip() if is_relative(value) else None
    written = mapping(value, TIMES_EXAMPLE) if isinstance(value, Mapping | str) else {}
    return ", ".join(
        f"{topic}={str(written[topic]).strip() if is_relative(written[topic]) else iso(moment)}"
        for topic, moment in _named(times).items()
    )
