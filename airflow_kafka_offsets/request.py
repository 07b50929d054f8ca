"""What was asked for: parameters, the run and the connection → a :class:`Request`, or every problem at once.

Each parameter is read by one function; a sentence of what is wrong follows the parameter's name. Rules between
parameters come last, over those that could be read. Nothing is asked of a cluster here. When a DAG is parsed, templates
and XComs pass: their values are not known before the run, and are checked there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, ValidationInfo

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import (
    IsolationLevel,
    PartitionSet,
    Subscription,
    TopicList,
    TopicPartition,
    TopicPattern,
)
from airflow_kafka_offsets.offsets import (
    GroupOffsets,
    Otherwise,
    SpecificOffsets,
    Timestamp,
    dashed_partition,
    parse_offsets,
    partition,
    topic_name,
    whole_number,
)
from airflow_kafka_offsets.templated import is_settled
from airflow_kafka_offsets.times import iso, looks_like_seconds, parse_timestamp_ms

OnDataLoss = Literal["fail", "advance", "reset"]
Window = tuple[int, int]
"""``[start, end)`` in epoch milliseconds."""


# ── what is asked, as values ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class GroupStart:
    """The committed offsets of ``group_id``; ``otherwise`` where it has none (``None``: refused)."""

    group_id: str
    otherwise: Otherwise | None = None

    def __str__(self) -> str:
        return f"offsets of group {self.group_id}" + (f", otherwise {self.otherwise}" if self.otherwise else "")


@dataclass(frozen=True, slots=True)
class TimeStart:
    """The first record with this time or a later one."""

    ms: int

    def __str__(self) -> str:
        return iso(self.ms)


@dataclass(frozen=True, slots=True)
class OffsetsStart:
    """These offsets; as a start, partitions that are not listed start as with :class:`GroupStart` (C2)."""

    offsets: Mapping[TopicPartition, int]
    group_id: str | None = None
    otherwise: Otherwise | None = None

    def __str__(self) -> str:
        first = ", ".join(f"{tp}:{self.offsets[tp]}" for tp in sorted(self.offsets)[:5])
        more = f" and {len(self.offsets) - 5} more" if len(self.offsets) > 5 else ""
        return f"offsets {first}{more}" + (f", otherwise {self.otherwise}" if self.otherwise else "")


Start = Literal["earliest", "latest"] | GroupStart | TimeStart | OffsetsStart
End = Literal["latest"] | GroupStart | TimeStart | OffsetsStart


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that asks.

    :ivar interval: the run's data interval; ``None``: it has none.
    :ivar conf: the run's ``conf["kafka_offsets"]``: ``window`` and ``acknowledge``.
    """

    now_ms: int
    interval: Window | None = None
    conf: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """A valid request.

    :ivar group_id: the group that follows the position; ``None``: no group is written.
    :ivar window: both bounds are times: the batch of this window; ``None``: the next batch in sequence.
    :ivar otherwise: where the start is if the group has no offset, and where ``on_data_loss="reset"`` continues.
    :ivar exclude: partitions that keep their position.
    :ivar shard: ``(i, n)``: the partitions that Flink's assigner gives to subtask i of n.
    :ivar acknowledge: the reason that a person gives for going on after a change.
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


# ── the public functions ──────────────────────────────────────────────────────────────────────────────────────────────


def parse_request(parameters: Mapping[str, Any], run: RunContext, connection: Mapping[str, Any]) -> Request:
    """The request that these parameters make in this run.

    :param parameters: rendered, by name; ``pipeline_id`` is required here.
    :param connection: the client settings of the Kafka connection.
    :raises InvalidRequest: with every problem.
    """
    reading = _Reading(run, connection)
    _read(parameters, reading)
    valid, window = reading.valid, reading.window
    start, end, shard = valid["start"], valid["end"], valid["shard"]
    bounds = f"window {iso(window[0])} to {iso(window[1])}" if window else f"start {start}, end {end}"
    limit = f", at most {valid['max_records']:,} records" if valid["max_records"] else ""
    topics = str(valid["topics"])
    return Request(
        subscription=valid["topics"],
        pipeline_id=f"{valid['pipeline_id']}/{shard[0]}-of-{shard[1]}" if shard else valid["pipeline_id"],
        window=window,
        otherwise=reading.otherwise_of(start),
        isolation_level=reading.isolation_level,
        acknowledge=reading.acknowledge,
        now_ms=run.now_ms,
        asked=f"{topics if len(topics) <= 200 else topics[:200] + '…'}, {bounds}{limit}",
        warnings=tuple(_warnings(start, end)),
        **{name: valid[name] for name in _Parameters.model_fields if name not in ("topics", "pipeline_id")},
    )


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check what is known when a DAG is parsed; templates and XComArgs pass.

    :raises InvalidRequest: with every problem.
    """
    _read(parameters, _Reading(RunContext(_END_OF_TIME_MS, (0, _END_OF_TIME_MS)), {}, is_run=False))


def parse_some(parameters: Mapping[str, Any], run: RunContext | None = None) -> dict[str, Any]:
    """Some of a request's parameters, each on its own: a sensor's ``topics``, ``group_id``, ``end``.

    :param run: without one, the DAG is parsed: what is not known yet is left out of the answer.
    :returns: the values as a :class:`Request` has them.
    :raises InvalidRequest: with every problem.
    """
    best = RunContext(_END_OF_TIME_MS, (0, _END_OF_TIME_MS))
    reading = _Reading(run or best, {}, is_run=run is not None)
    _read(parameters, reading, only=set(parameters))
    return {name: value for name, value in reading.valid.items() if name in parameters}


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_END_OF_TIME_MS = 253_402_300_799_999  # the end of the year 9999: when a DAG is parsed, nothing is in the future


class _Unsettled(ValueError):
    """A value that is not known before the run."""


@dataclass(slots=True)
class _Reading:
    """One pass over the parameters.

    :ivar valid: the parameters that could be read. Rules that need others do without them.
    :ivar is_run: whether this is a run, and not the parsing of a DAG.
    """

    run: RunContext
    connection: Mapping[str, Any]
    is_run: bool = True
    valid: dict[str, Any] = field(default_factory=dict)
    conf_window: Window | None = None
    acknowledge: str | None = None
    isolation_level: IsolationLevel = "read_uncommitted"

    @property
    def window(self) -> Window | None:
        match self.valid.get("start"), self.valid.get("end"):
            case TimeStart(start_ms), TimeStart(end_ms):
                return start_ms, end_ms
        return None

    @property
    def interval(self) -> Window | None:
        return self.conf_window or self.run.interval

    def otherwise_of(self, start: Start | None) -> Otherwise | None:
        """The start's own word, or the connection's ``auto.offset.reset``."""
        own = start.otherwise if isinstance(start, GroupStart | OffsetsStart) else None
        of_connection = self.connection.get("auto.offset.reset")
        return own or next((word for word in get_args(Otherwise) if word == of_connection), None)


def _by(read: Callable[[Any, _Reading], Any]) -> PlainValidator:
    def validate(value: Any, info: ValidationInfo) -> Any:
        reading = cast(_Reading, info.context)
        try:
            if not reading.is_run and isinstance(value, Timestamp) and not is_settled(value):
                value = Timestamp()  # whichever time it will be
            if not reading.is_run and not is_settled(value):
                raise _Unsettled
            found = read(value, reading)
        except RecursionError:
            raise ValueError("is nested too deep") from None
        reading.valid[str(info.field_name)] = found
        return found

    return PlainValidator(validate)


def _topics(value: Any, _: _Reading) -> Subscription:
    if isinstance(value, str) and value.startswith("^"):
        return TopicPattern(_regex(value))
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            value = read_json(value)
        except ValueError as error:
            raise ValueError(f"is not JSON ({error}); write it with | tojson") from None
    if isinstance(value, Mapping):
        return PartitionSet(_partitions(value))
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")]
    if not isinstance(value, Sequence) or not value or isinstance(value, bytes):
        raise ValueError(f"is {value!r}; give ['orders'], 'orders,payments', {{'orders': [0, 2]}} or '^orders-.*'")
    return TopicList(tuple(sorted(set(map(topic_name, value)))))


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return _text(pattern)


def _partitions(topics: Mapping[str, Any]) -> tuple[TopicPartition, ...]:
    partitions = set()
    for topic, numbers in topics.items():
        if not isinstance(numbers, Sequence) or isinstance(numbers, str | bytes) or not numbers:
            raise ValueError(f"has {numbers!r} for topic {topic!r}; expected a list such as [0, 2]")
        partitions |= {partition(topic, number) for number in numbers}
    if not partitions:
        raise ValueError("is empty; expected {'orders': [0, 2]}")
    return tuple(sorted(partitions))


def _text(value: Any) -> str:
    """One line of text without control characters."""
    if not isinstance(value, str):
        raise ValueError(f"is {value!r}, which is not text; put it in quotes")
    if not value.strip():
        raise ValueError(f"is {value!r}; give a name, or leave it out")
    strange = next((c for c in value if not c.isprintable()), None)
    if strange is not None:
        raise ValueError(f"is {value!r}, which has the control character {strange!r}")
    return value


# Measured on a 4.1 broker: a request's string has 32,767 bytes at most (KIP-482), and from 32,736 on the broker cannot
# describe a group that it has.
_MAX_GROUP_ID_BYTES = 32_700


def _group_id(value: Any, _: _Reading) -> str | None:
    """A name that librdkafka can take: it ends the process at an empty one, and cuts leading white space off."""
    if value is None:
        return None
    name = _text(value)
    if name[0] == " ":
        raise ValueError(f"is {value!r}, which begins with a space: the Kafka client would use another group")
    if len(name.encode()) > _MAX_GROUP_ID_BYTES:
        raise ValueError(f"has {len(name.encode()):,} bytes; Kafka takes {_MAX_GROUP_ID_BYTES:,} at most")
    return name


def _pipeline_id(value: Any, reading: _Reading) -> str | None:
    if value is None and not reading.is_run:
        return None  # the operator's default
    name = _text(value)
    if "/" in name:
        raise ValueError(f"is {name!r}; it cannot have a '/', which separates the shards of a pipeline")
    if len(name) > 200:
        raise ValueError(f"has {len(name)} characters; give a pipeline_id of 200 at most")
    return name


def _start(value: Any, reading: _Reading) -> Start:
    if value == "earliest":
        return "earliest"
    return _bound(value, reading, is_start=True)


def _end(value: Any, reading: _Reading) -> End:
    if value == "earliest":
        raise ValueError("is 'earliest': nothing would be read before the log start; give 'latest' or Timestamp()")
    if isinstance(value, GroupOffsets | SpecificOffsets) and value.otherwise is not None:
        raise ValueError(f"has otherwise={value.otherwise!r}, which goes with start only; leave it out")
    return _bound(value, reading, is_start=False)


def _bound(value: Any, reading: _Reading, *, is_start: bool) -> End:
    otherwise = getattr(value, "otherwise", None)
    match value:
        case "latest":
            return "latest"
        case Timestamp():
            return TimeStart(_time(value, reading, is_start=is_start))
        case GroupOffsets() | SpecificOffsets() if otherwise not in (None, *get_args(Otherwise)):
            raise ValueError(f"has otherwise={otherwise!r}; give 'earliest' or 'latest'")
        case GroupOffsets():
            try:
                group_id = _group_id(value.group_id, reading)
            except ValueError as error:
                raise ValueError(f"has a group_id that {error}") from None
            if group_id is None and reading.valid.get("group_id", "unknown") is None:
                raise ValueError(
                    "is GroupOffsets(), and there is no group: set group_id"
                    + (", or start='earliest'" if is_start else ", or end='latest'")
                )
            return GroupStart(group_id or reading.valid.get("group_id") or "", _otherwise(otherwise, reading, is_start))
        case SpecificOffsets():
            topics = reading.valid.get("topics")
            offsets = parse_offsets(value.offsets, topics.topics if isinstance(topics, TopicList) else ())
            group_id = reading.valid.get("group_id") if is_start else None
            return OffsetsStart(offsets, group_id, _otherwise(otherwise, reading, is_start))
    shown = f"the class {value.__name__}: write {value.__name__}()" if isinstance(value, type) else repr(value)
    first = "'earliest', 'latest'" if is_start else "'latest'"
    raise ValueError(f"is {shown}; give {first}, GroupOffsets(), Timestamp() or SpecificOffsets({{…}})")


def _otherwise(own: Otherwise | None, reading: _Reading, is_start: bool) -> Otherwise | None:
    return own or reading.otherwise_of(None) if is_start else None


def _time(value: Timestamp, reading: _Reading, *, is_start: bool) -> int:
    if value.t is not None and reading.conf_window is None:
        return parse_timestamp_ms(value.t)
    if reading.interval is None:
        raise ValueError(
            f"is {value!r}, and this run has no data interval (it was triggered without a logical date, or by an "
            f"asset); give the time, or name a window in the run's conf: {_WINDOW_EXAMPLE}"
        )
    return reading.interval[0 if is_start else 1]


def _max_records(value: Any, _: _Reading) -> int | None:
    if value is None:
        return None
    number = whole_number(value, f"is {value!r}")
    if number < 1:
        raise ValueError(f"is {value!r}; give at least 1")
    return number


def _on_data_loss(value: Any, _: _Reading) -> OnDataLoss:
    for word in get_args(OnDataLoss):
        if value == word:
            return word  # type: ignore[no-any-return]
    raise ValueError(f"is {value!r}; give 'fail', 'advance' or 'reset'")


def _exclude(value: Any, _: _Reading) -> frozenset[TopicPartition]:
    if isinstance(value, str):
        value = [name for name in value.split(",") if name.strip()]
    if isinstance(value, Mapping) and value:
        return frozenset(_partitions(value))
    if not isinstance(value, Sequence | set | frozenset) or isinstance(value, bytes):
        raise ValueError(f"is {value!r}; give partitions such as ['orders-3']")
    return frozenset(tp if isinstance(tp, TopicPartition) else dashed_partition(tp) for tp in value)


def _shard(value: Any, _: _Reading) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"is {value!r}; give (i, n): subtask i of n, such as (0, 4)")
    i, n = (whole_number(number, f"is {value!r}") for number in value)
    if not 0 <= i < n:
        raise ValueError(f"is {value!r}; i is 0 to n - 1")
    return i, n


def _flag(value: Any, _: _Reading) -> bool:
    known = {"true": True, "false": False}.get(str(value).lower())  # a template renders text
    if known is None:
        raise ValueError(f"is {value!r}; give True or False")
    return known


class _Parameters(BaseModel):
    """The parameters of ``ResolveStartupOffsetsOperator`` that make a request, in the order in which they are read."""

    model_config = ConfigDict(extra="forbid", validate_default=True, arbitrary_types_allowed=True)

    topics: Annotated[Any, _by(_topics)]
    group_id: Annotated[Any, _by(_group_id)] = None
    start: Annotated[Any, _by(_start)] = GroupOffsets()
    end: Annotated[Any, _by(_end)] = "latest"
    max_records: Annotated[Any, _by(_max_records)] = None
    on_data_loss: Annotated[Any, _by(_on_data_loss)] = "fail"
    exclude: Annotated[Any, _by(_exclude)] = ()
    shard: Annotated[Any, _by(_shard)] = None
    filter_restored_partitions: Annotated[Any, _by(_flag)] = True
    require_report: Annotated[Any, _by(_flag)] = True
    pipeline_id: Annotated[Any, _by(_pipeline_id)] = None


def _read(parameters: Mapping[str, Any], reading: _Reading, only: set[str] | None = None) -> None:
    """Fill ``reading``.

    :param only: check these parameters alone.
    :raises InvalidRequest: with every problem.
    """
    problems = list(_read_conf(reading))
    try:
        _Parameters.model_validate(dict(parameters), context=reading)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            name = str(problem["loc"][0])
            if only is None or name in only:
                problems += _in_words(name, problem["type"], problem.get("ctx", {}).get("error"))
    if only is None:
        problems += _wrong_together(reading)
    if problems:
        raise InvalidRequest(tuple(problems))


def _in_words(name: str, kind: str, error: object) -> list[str]:
    if isinstance(error, _Unsettled):
        return []
    if kind == "missing":
        return [f"{name} is missing; name the topics, such as {name}=['orders']."]
    return [f"{name} {error}." if error else f"{name} is not a parameter of a request."]


# ── the run's conf, the connection, and rules between parameters ──────────────────────────────────────────────────────

_WINDOW_EXAMPLE = '{"kafka_offsets": {"window": ["2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"]}}'


def _read_conf(reading: _Reading) -> Iterator[str]:
    conf = reading.run.conf
    if not isinstance(conf, Mapping):
        yield f'The run\'s conf has "kafka_offsets": {conf!r}; expected an object, such as {_WINDOW_EXAMPLE}.'
        return
    if unknown := sorted(map(repr, conf.keys() - {"window", "acknowledge"})):
        yield f'The run\'s conf has {", ".join(unknown)} under "kafka_offsets"; it takes "window" and "acknowledge".'
    window = conf.get("window")
    if window is not None:
        try:
            start, end = map(parse_timestamp_ms, window if isinstance(window, list | tuple) else ())
            reading.conf_window = start, end
        except ValueError:
            yield f"The run's conf has window {window!r}; expected {_WINDOW_EXAMPLE}."
    if conf.get("acknowledge") is not None:
        try:
            reading.acknowledge = _text(conf["acknowledge"])
        except ValueError as error:
            yield f"acknowledge in the run's conf {error}."
    isolation = reading.connection.get("isolation.level", "read_uncommitted")
    if isolation not in get_args(IsolationLevel):
        yield f"isolation.level in the Kafka connection is {isolation!r}; give {' or '.join(get_args(IsolationLevel))}."
    else:
        reading.isolation_level = isolation


def _wrong_together(reading: _Reading) -> Iterator[str]:
    valid, window, run = reading.valid, reading.window, reading.run
    start, end = valid.get("start"), valid.get("end")
    if window is not None:
        yield from _wrong_window(window, reading)
    elif start is not None and end is not None:
        if reading.conf_window is not None:
            yield "The run's conf names a window, which goes with start=Timestamp() and end=Timestamp() only."
        if isinstance(start, TimeStart) and start.ms > run.now_ms:
            yield f"start {iso(start.ms)} is in the future (it is {iso(run.now_ms)} now)."
    if reading.is_run and valid.get("on_data_loss") == "reset" and reading.otherwise_of(start) is None:
        yield (
            "on_data_loss='reset' needs to know where to continue: set otherwise, as in "
            "start=GroupOffsets(otherwise='earliest'), or auto.offset.reset in the Kafka connection."
        )
    subscription = valid.get("topics")
    strange = sorted(tp for tp in valid.get("exclude", ()) if subscription is not None and not subscription.has(tp))
    if strange:
        yield f"exclude has {', '.join(map(str, strange[:5]))}, which {subscription} does not have."


def _wrong_window(window: Window, reading: _Reading) -> Iterator[str]:
    """By window, each run's batch is given by its times alone."""
    start_ms, end_ms = window
    if start_ms >= end_ms and window == reading.run.interval:
        yield (
            f"The data interval of this run is empty ({iso(start_ms)} to {iso(end_ms)}), and so would be its window: "
            "schedule the DAG with CronDataIntervalTimetable, whose runs have intervals, or give both times."
        )
    elif start_ms >= end_ms:
        yield f"end {iso(end_ms)} is not after start {iso(start_ms)}."
    for name in ("group_id", "max_records"):
        if reading.valid.get(name) is not None:
            yield f"{name} cannot be used by window (start and end are times): leave it out."


def _warnings(start: Start, end: End) -> Iterator[str]:
    for name, bound in (("start", start), ("end", end)):
        if isinstance(bound, TimeStart) and looks_like_seconds(bound.ms):
            yield f"{name} is {iso(bound.ms)}: is it in seconds? Kafka's timestamps are milliseconds."
