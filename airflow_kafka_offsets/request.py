"""What was asked for: parameters, the run and the connection → a :class:`Request`, or every problem at once.

Nothing is asked of a cluster here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from airflow_kafka_offsets.errors import InvalidRequest, counted, shown
from airflow_kafka_offsets.kafka_values import IsolationLevel, Subscription, TopicPartition
from airflow_kafka_offsets.names import line_of_text
from airflow_kafka_offsets.offsets import End as End
from airflow_kafka_offsets.offsets import GroupStart as GroupStart
from airflow_kafka_offsets.offsets import OffsetsStart as OffsetsStart
from airflow_kafka_offsets.offsets import Otherwise as Otherwise
from airflow_kafka_offsets.offsets import Start as Start
from airflow_kafka_offsets.offsets import TimeStart as TimeStart
from airflow_kafka_offsets.parameters import PARAMETERS, WINDOW_EXAMPLE, OnDataLoss, Reading, Window, read_parameters
from airflow_kafka_offsets.times import iso, looks_like_seconds, parse_timestamp_ms

_END_OF_TIME_MS = 253_402_300_799_999  # the end of the year 9999


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that asks.

    :ivar interval: the run's data interval in epoch milliseconds; ``None``: it has none.
    :ivar conf: the run's ``conf["kafka_offsets"]``: ``window`` and ``acknowledge``.
    """

    now_ms: int
    interval: Window | None = None
    conf: Any = field(default_factory=dict)


_PARSE_TIME = RunContext(_END_OF_TIME_MS, (0, _END_OF_TIME_MS))  # nothing is in the future, and there is an interval


@dataclass(frozen=True, slots=True)
class Request:
    """A valid request.

    :ivar group_id: the group that follows the position; ``None``: no group is written.
    :ivar window: both bounds are times, and this is the window; ``None``: the next batch in sequence.
    :ivar otherwise: where to start if the group has no offset, and where ``on_data_loss="reset"`` resumes.
    :ivar exclude: partitions that keep their position.
    :ivar shard: ``(i, n)``: the partitions that Flink's assigner gives to subtask i of n.
    :ivar acknowledge: why a person wants to go on after a change.
    :ivar asked: the request in words, for people.
    :ivar warnings: what is allowed and looks wrong.
    """

    subscription: Subscription
    pipeline_id: str
    group_id: str | None
    start: Start
    end: End
    window: Window | None
    max_records: int | None
    on_data_loss: OnDataLoss
    otherwise: Otherwise | None
    exclude: frozenset[TopicPartition]
    shard: tuple[int, int] | None
    filter_restored_partitions: bool
    require_report: bool
    isolation_level: IsolationLevel
    acknowledge: str | None
    now_ms: int
    asked: str
    warnings: tuple[str, ...] = ()


def parse_request(parameters: Mapping[str, Any], run: RunContext, connection: Mapping[str, Any]) -> Request:
    """The request that these parameters make in this run.

    :param parameters: by name, rendered; ``pipeline_id`` is required.
    :param connection: the client settings of the Kafka connection.
    :raises InvalidRequest: with every problem.
    """
    reading = Reading(run.interval, otherwise=_otherwise(connection))
    isolation_level = connection.get("isolation.level", "read_uncommitted")  # Kafka's default, and not librdkafka's
    problems = [*_wrong_conf(run.conf, reading), *_wrong_isolation_level(isolation_level)]
    problems += [sentence for _, sentence in read_parameters(parameters, reading)]
    _refuse([*problems, *_wrong_together(reading, run)])
    valid, window = {name: reading.valid[name] for name in PARAMETERS}, _window(reading)
    topics, pipeline_id = valid.pop("topics"), valid.pop("pipeline_id")
    start, end, shard = valid["start"], valid["end"], valid["shard"]
    return Request(
        subscription=topics,
        pipeline_id=f"{pipeline_id}/{shard[0]}-of-{shard[1]}" if shard else pipeline_id,
        window=window,
        otherwise=_otherwise_of(start) or reading.otherwise,
        isolation_level=isolation_level,
        acknowledge=run.conf.get("acknowledge"),
        now_ms=run.now_ms,
        asked=_in_words(str(topics), window, start, end, valid["max_records"]),
        warnings=tuple(_warnings(start, end)),
        **valid,
    )


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check what is known when a DAG is parsed; templates and XComArgs pass.

    :raises InvalidRequest: with every problem.
    """
    reading = Reading(_PARSE_TIME.interval, is_run=False)
    problems = [sentence for _, sentence in read_parameters(parameters, reading)]
    _refuse([*problems, *_wrong_together(reading, _PARSE_TIME)])


def parse_some(parameters: Mapping[str, Any], run: RunContext | None = None) -> dict[str, Any]:
    """Some of the parameters, each for itself: a sensor's ``topics``, ``group_id``, ``end``.

    :param run: ``None``: the DAG is being parsed, and what is not known yet is left out of the answer.
    :returns: the values as a :class:`Request` has them.
    :raises InvalidRequest: with every problem.
    """
    reading = Reading((run or _PARSE_TIME).interval, is_run=run is not None)
    _refuse([sentence for name, sentence in read_parameters(parameters, reading) if name in parameters])
    return {name: value for name, value in reading.valid.items() if name in parameters}


def _refuse(problems: list[str]) -> None:
    if problems:
        raise InvalidRequest(tuple(dict.fromkeys(problems)))


def _window(reading: Reading) -> Window | None:
    match reading.valid.get("start"), reading.valid.get("end"):
        case TimeStart(start_ms), TimeStart(end_ms):
            return start_ms, end_ms
    return None


def _otherwise_of(start: Start | None) -> Otherwise | None:
    return start.otherwise if isinstance(start, GroupStart | OffsetsStart) else None


_RESETS: Mapping[str, Otherwise] = {  # librdkafka's synonyms
    **dict.fromkeys(("earliest", "smallest", "beginning"), "earliest"),
    **dict.fromkeys(("latest", "largest", "end"), "latest"),
}


def _otherwise(connection: Mapping[str, Any]) -> Otherwise | None:
    return _RESETS.get(str(connection.get("auto.offset.reset")).lower())


def _in_words(topics: str, window: Window | None, start: Start, end: End, max_records: int | None) -> str:
    bounds = f"window {iso(window[0])} to {iso(window[1])}" if window else f"start {start}, end {end}"
    limit = f", at most {counted(max_records, 'record')}" if max_records else ""
    return f"{topics[:200]}{'…' * (len(topics) > 200)}, {bounds}{limit}"


def _warnings(start: Start, end: End) -> Iterator[str]:
    for name, bound in (("start", start), ("end", end)):
        if isinstance(bound, TimeStart) and looks_like_seconds(bound.ms):
            yield f"{name} is {iso(bound.ms)}: is it in seconds? Kafka's timestamps are milliseconds (B10)."


# ── what is wrong in the run's conf, in the connection, and between parameters ────────────────────────────────────────


def _wrong_conf(conf: Any, reading: Reading) -> Iterator[str]:
    if not isinstance(conf, Mapping):
        yield f'The run\'s conf has "kafka_offsets": {shown(conf)}; give an object, such as {WINDOW_EXAMPLE}.'
        return
    if unknown := sorted(map(shown, conf.keys() - {"window", "acknowledge"})):
        yield f'The run\'s conf has {", ".join(unknown)} under "kafka_offsets"; it takes "window" and "acknowledge".'
    window = conf.get("window")
    if isinstance(window, list | tuple) and len(window) == 2:
        try:
            reading.conf_window = parse_timestamp_ms(window[0]), parse_timestamp_ms(window[1])
        except ValueError as error:
            yield f"A bound of window in the run's conf {error}."
    elif window is not None:
        yield f"window in the run's conf is {shown(window)}; give {WINDOW_EXAMPLE}."
    if conf.get("acknowledge") is not None:
        try:
            line_of_text(conf["acknowledge"])
        except ValueError as error:
            yield f"acknowledge in the run's conf {error}; give the reason."


def _wrong_isolation_level(value: Any) -> Iterator[str]:
    if value not in get_args(IsolationLevel):
        yield f"isolation.level in the Kafka connection is {shown(value)}; give read_uncommitted or read_committed."


def _wrong_together(reading: Reading, run: RunContext) -> Iterator[str]:
    valid, start = reading.valid, reading.valid.get("start")
    if window := _window(reading):
        yield from _wrong_window(window, reading)
    elif "start" in valid and "end" in valid:
        if reading.conf_window is not None:
            yield "The run's conf names a window, which goes with start=Timestamp() and end=Timestamp() only."
        if isinstance(start, TimeStart) and start.ms > run.now_ms:
            yield f"start {iso(start.ms)} is in the future (it is {iso(run.now_ms)} now)."
    knows_otherwise = _otherwise_of(start) or reading.otherwise or not reading.is_run
    if valid.get("on_data_loss") == "reset" and "start" in valid and not knows_otherwise:
        yield (
            "on_data_loss='reset' needs to know where to resume: set otherwise, as in "
            "start=GroupOffsets(otherwise='earliest'), or auto.offset.reset in the Kafka connection."
        )
    if "topics" in valid and "exclude" in valid:
        strange = sorted(tp for tp in valid["exclude"] if not valid["topics"].has(tp))
        if strange:
            yield f"exclude has {', '.join(map(str, strange[:5]))}, which is not in the subscription."


def _wrong_window(window: Window, reading: Reading) -> Iterator[str]:
    """By window, the times alone decide what a run reads."""
    start_ms, end_ms = window
    if start_ms >= end_ms and window == reading.interval:
        yield (
            f"The data interval of this run is empty ({iso(start_ms)} to {iso(end_ms)}), so its window would be: "
            "schedule the DAG with CronDataIntervalTimetable, whose runs have intervals, or give both times."
        )
    elif start_ms >= end_ms:
        yield f"end {iso(end_ms)} is not after start {iso(start_ms)}."
    for name in ("group_id", "max_records"):
        if reading.valid.get(name) is not None:
            yield f"{name} cannot be used by window (start and end are both times): leave it out."
