"""Where to start and where to end, from what people write and from the run: a startup mode and a bounded mode.

A bound that is a time and is not given comes from the run, the first of these that there is: its data interval, if
that has a length; its partition, from the partition's date for ``partition_width``. A run that has neither is refused,
with the timetable that would give it one, because the alternative is a window that is always empty: every run of a
backfill would be green, and none would have read a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import partial
from typing import Any

from airflow_kafka_offsets.errors import named
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.request.modes import (
    BOUNDED_MODES,
    STARTUP_MODES,
    AtTimestamp,
    BoundedMode,
    FromLogEnd,
    Offsets,
    SpecificOffsets,
    StartupMode,
    Time,
    Times,
)
from airflow_kafka_offsets.request.offset_maps import EXAMPLE, mapping, natural, partition_named
from airflow_kafka_offsets.request.problems import Problems, one_of
from airflow_kafka_offsets.request.subscription import Subscription, TopicPattern
from airflow_kafka_offsets.request.times import Width, is_relative, iso, looks_like_seconds, parse_timestamp_ms

ALL_OTHERS = "*"
PARTITIONS_EXAMPLE = '{"orders": {"0": "2026-11-20T10:00:00Z", "*": "now-2h"}}'
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


def window_of_run(interval: tuple[int, int] | None, partition: Partition | None, width: Width | None) -> RunWindow:
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
        end_ms = width.after(partition.date_ms, partition.zone)
        return RunWindow(partition.date_ms, end_ms, "the partition")
    if partition is not None:
        raise ValueError(
            f"this run is for partition {partition.key!r}, which Airflow knows no date of: make the time from the key "
            'yourself, such as "{{ partition_key }}", or schedule the DAG with CronPartitionTimetable'
        )
    if interval is not None:
        raise ValueError(
            "the run's data interval has no length: a plain cron string, @hourly and a timedelta give such intervals, "
            f"and each window would be empty. Give the time, or {_TIMETABLES}"
        )
    raise ValueError(
        "this run has no data interval (asset-triggered runs, and runs triggered without a logical date, have none): "
        f"give the time, such as from the run's conf, or {_TIMETABLES}"
    )


@dataclass(slots=True)
class BoundsReader:
    """Reads both bounds of one request. What is wrong goes to ``problems``, what is only odd to ``warnings``.

    :ivar read_offsets: offsets by partition, in the forms of ``offset_maps``, and by topic.
    :ivar with_others: the parameters that have times of partitions, or a time of all others beside times of topics.
    """

    problems: Problems
    warnings: list[str]
    subscription: Subscription | None
    read_offsets: Callable[[Any], tuple[dict[TopicPartition, int | FromLogEnd], dict[str, FromLogEnd]]]
    interval: tuple[int, int] | None
    partition: Partition | None
    width: Width | None
    now_ms: int
    with_others: list[str] = field(default_factory=list)

    def startup(self, mode: str, timestamp: Times | None, offsets: Offsets | None) -> StartupMode | None:
        names = "startup_mode", "startup_timestamp", "specific_offsets"
        found = self._mode(names, STARTUP_MODES, mode, timestamp, offsets)
        return "earliest-offset" if mode == "earliest-offset" else found

    def bounded(self, mode: str, timestamp: Times | None, offsets: Offsets | None) -> BoundedMode | None:
        return self._mode(
            ("bounded_mode", "bounded_timestamp", "bounded_offsets"), BOUNDED_MODES, mode, timestamp, offsets
        )

    def _mode(
        self,
        names: tuple[str, str, str],
        allowed: tuple[str, ...],
        mode: str,
        timestamp: Times | None,
        offsets: Offsets | None,
    ) -> BoundedMode | None:
        """The mode of one bound, if it can be that of both.

        :param names: the parameters that have the mode, its time and its offsets.
        """
        mode_name, time_name, offsets_name = names
        self._foreign(time_name, timestamp, mode_name, mode, AtTimestamp.name)
        self._foreign(offsets_name, offsets, mode_name, mode, SpecificOffsets.name)
        match mode:
            case "latest-offset":
                return "latest-offset"
            case "group-offsets":
                return "group-offsets"
            case AtTimestamp.name:
                return self.time(time_name, timestamp)
            case SpecificOffsets.name:
                return self._offsets(offsets_name, offsets, mode_name)
        self.problems.take(mode_name, lambda: one_of(mode, allowed), None)
        return None

    def _offsets(self, parameter: str, value: Offsets | None, mode_name: str) -> SpecificOffsets | None:
        if value is not None:
            return self.problems.take(parameter, lambda: SpecificOffsets(*self.read_offsets(value)), None)
        is_start = parameter == "specific_offsets"
        what = "the next record to read" if is_start else "of every partition the first offset not to read"
        self.problems.add(
            f"{named(mode_name)}='specific-offsets' needs {named(parameter)}, such as {EXAMPLE}: {what}.",
            mode_name,
            parameter,
        )
        return None

    def time(self, parameter: str, timestamp: Times | None) -> AtTimestamp | None:
        """A start or an end by time; where none is given, the start or the end of the run's window."""
        is_start = parameter == "startup_timestamp"
        times: Mapping[str | None, int] | None = None
        written = None
        if timestamp is not None:
            times = self._times(parameter, timestamp)
            written = self._as_written(timestamp, times) if times else None
        elif window := self._window_of_run(parameter):
            times, written = {None: window.start_ms if is_start else window.end_ms}, f"of {window.source}"
        if times is None or (is_start and self._in_the_future(times)):
            return None
        of_others = (min if is_start else max)(times.values())
        return AtTimestamp(times.get(None, of_others), _named(times), written)

    def _in_the_future(self, times: Mapping[str | None, int]) -> bool:
        future = {topic: moment for topic, moment in times.items() if moment > self.now_ms}
        for topic, moment in future.items():
            self.problems.add(
                f"{named('startup_timestamp')} {iso(moment)}{_about(topic)} is "
                f"in the future (it is {iso(self.now_ms)} now): no record can be found for it yet.",
                "startup_timestamp",
            )
        return bool(future)

    def _window_of_run(self, parameter: str) -> RunWindow | None:
        try:
            window = window_of_run(self.interval, self.partition, self.width)
        except ValueError as error:
            self.problems.add(f"{named(parameter)} is missing and {error}.", parameter, "partition_width")
            return None
        if window.source == "the partition" and window.end_ms > self.now_ms:
            self.problems.add(
                f"The partition from {iso(window.start_ms)} to {iso(window.end_ms)} has not ended (it is "
                f"{iso(self.now_ms)} now): its records are still to come. A run for the partition that has just ended "
                "is CronPartitionTimetable(..., run_offset=-1).",
                parameter,
                "partition_width",
            )
            return None
        return window

    def _times(self, parameter: str, value: Times) -> dict[str | None, int] | None:
        """The moment of each topic and partition by its name, and under ``None`` the one of all that are not named."""
        by_topic = self.problems.take(parameter, lambda: self._written(value), None)
        if by_topic is None:
            return None
        if any(topic is not None and (None in by_topic or topic.endswith("]")) for topic in by_topic):
            self.with_others.append(parameter)
        found: dict[str | None, int] = {}
        for topic, written in by_topic.items():
            part = _about(topic)
            moment = self.problems.take(
                parameter,
                partial(parse_timestamp_ms, written, now_ms=self.now_ms),
                None,
                part,
            )
            if moment is None:
                continue
            found[topic] = moment
            if looks_like_seconds(moment):
                self.warnings.append(
                    f"{named(parameter)}{part} {written!r} is {iso(moment)}: is it in seconds? Kafka's "
                    "timestamps are milliseconds."
                )
        return found if len(found) == len(by_topic) else None

    def _written(self, value: Times) -> dict[str | None, Time]:
        """The times as they are written, under the name of a topic or of a partition; of all others under ``None``.

        :raises ValueError: what is wrong, as the end of a sentence that begins with the parameter's name.
        """
        if not isinstance(value, Mapping) and not (isinstance(value, str) and value.lstrip().startswith("{")):
            return {None: value}
        times: dict[str | None, Time] = {}
        topics = mapping(value, TIMES_EXAMPLE)
        if not topics:
            raise ValueError(f"names no topic; expected a time for every one, as in {TIMES_EXAMPLE}")
        for topic, of_topic in topics.items():
            if not isinstance(of_topic, Mapping):
                times[None if topic == ALL_OTHERS else topic] = of_topic
                continue
            if ALL_OTHERS not in of_topic:
                raise ValueError(
                    f'names no time for the other partitions of {topic}; add "{ALL_OTHERS}", as in {PARTITIONS_EXAMPLE}'
                )
            for number, written in of_topic.items():
                subject = f"has partition {number!r} of topic {topic!r}"
                tp = None if number == ALL_OTHERS else partition_named(topic, natural(number, subject))
                times[topic if tp is None else str(tp)] = written
        self._require_all({topic for topic in topics if topic != ALL_OTHERS}, has_others=None in times)
        return times

    def _require_all(self, topics: set[str], *, has_others: bool) -> None:
        """:raises ValueError: a topic that is subscribed to has no time, or one is named that is not."""
        if self.subscription is None:
            return  # it is refused anyway
        wanted = set(self.subscription.named)
        if isinstance(self.subscription, TopicPattern):
            wanted = set(filter(self.subscription.matches, topics))
            if not has_others:
                raise ValueError(
                    "has times by topic, and topic_pattern may find others: add their time as "
                    f'"{ALL_OTHERS}", or list the topics'
                )
        if wanted - topics and not has_others:
            missing = ", ".join(sorted(wanted - topics))
            raise ValueError(f"names no time for {missing}; expected one for every topic, as in {TIMES_EXAMPLE}")
        if topics - wanted:
            raise ValueError(f"names {', '.join(sorted(topics - wanted))}, which is not subscribed to")

    def _as_written(self, value: Times, times: Mapping[str | None, int]) -> str | None:
        """How the request words a start that one number does not say; the same words in each run of the same DAG."""
        if list(times) == [None]:
            return str(value).strip() if is_relative(value) else None
        written = self._written(value)
        return ", ".join(
            f"{name or ALL_OTHERS}={str(written[name]).strip() if is_relative(written[name]) else iso(times[name])}"
            for name in sorted(times, key=lambda name: name or "")
        )

    def _foreign(self, parameter: str, value: object, mode_name: str, mode: str, owner: str) -> None:
        if value is not None and mode != owner:
            name = named(mode_name)
            self.problems.add(
                f"{named(parameter)} is given, but {name} is {mode!r}: it goes with {name}={owner!r} only.",
                parameter,
                mode_name,
            )


def refuse_end_before_start(problems: Problems, startup: StartupMode | None, bounded: BoundedMode | None) -> None:
    """A problem for each topic, or one for all of them, whose window would end before it starts."""
    if not isinstance(startup, AtTimestamp) or not isinstance(bounded, AtTimestamp):
        return
    for topic in sorted({*startup.by_topic, *bounded.by_topic}) or [""]:
        if bounded.of(topic) < startup.of(topic):
            problems.add(
                f"{named('bounded_timestamp')} ({iso(bounded.of(topic))}) is before "
                f"{named('startup_timestamp')} ({iso(startup.of(topic))})"
                f"{f' for topic {topic}' if topic else ''}.",
                *("startup_timestamp", "bounded_timestamp"),
            )


def _about(name: str | None) -> str:
    """``of topic orders``, or ``of orders[3]``."""
    return "" if name is None else f" of {name}" if name.endswith("]") else f" of topic {name}"


def _named(times: Mapping[str | None, int]) -> dict[str, int]:
    return {topic: times[topic] for topic in sorted(name for name in times if name is not None)}
