# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What was asked for: parameters, the run and the connection → a :class:`Request`, or every problem at once.

No cluster is used here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from airflow_kafka_offsets.acts import Conf, InvalidConf, parse_conf
from airflow_kafka_offsets.errors import InvalidRequest, counted, shown
from airflow_kafka_offsets.kafka_values import IsolationLevel, Subscription, TopicPartition
from airflow_kafka_offsets.offsets import End as End
from airflow_kafka_offsets.offsets import GroupStart as GroupStart
from airflow_kafka_offsets.offsets import OffsetsStart as OffsetsStart
from airflow_kafka_offsets.offsets import Otherwise as Otherwise
from airflow_kafka_offsets.offsets import Start as Start
from airflow_kafka_offsets.offsets import TimeStart as TimeStart
from airflow_kafka_offsets.parameters import PARAMETERS, OnDataLoss, Reading, Window, read_parameters
from airflow_kafka_offsets.times import iso, looks_like_seconds

_END_OF_TIME_MS = 253_402_300_799_999  # the end of the year 9999


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that asks.

    :ivar interval: the run's data interval in epoch milliseconds; ``None``: it has none.
    :ivar conf: the run's ``conf["kafka_offsets"]`` (:mod:`airflow_kafka_offsets.acts`).
    :ivar pipelines: the pipelines of its DAG; ``None``: not known, because a name is a template.
    """

    now_ms: int
    interval: Window | None = None
    conf: Any = None
    pipelines: Collection[str] | None = None


_PARSE_TIME = RunContext(_END_OF_TIME_MS, (0, _END_OF_TIME_MS))  # nothing is in the future, and there is an interval


@dataclass(frozen=True, slots=True)
class Request:
    """A valid request.

    :ivar group_id: the group that the position is committed to; ``None``: no group is written.
    :ivar window: both bounds are times, and this is the window; ``None``: the next batch in sequence.
    :ivar otherwise: where to start if the group has no offset, and where ``on_data_loss="reset"`` resumes.
    :ivar exclude: partitions that keep their position.
    :ivar shard: ``(i, n)``: the partitions that Flink's assigner gives to subtask i of n.
    :ivar output: where the packaged job writes, in words; ``None``: a job of the user's own, or a templated output.
    :ivar act: what the run's conf tells this pipeline; ``None``: nothing. :ivar said: the same as it was written.
    :ivar dry_run: the run writes nothing: it prints what it would do, and fails.
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
    now_ms: int
    asked: str
    output: str | None = None
    act: Conf | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    warnings: tuple[str, ...] = ()


def parse_request(
    parameters: Mapping[str, Any], run: RunContext, connection: Mapping[str, Any], output: str | None = None
) -> Request:
    """The request that these parameters make in this run.

    :param parameters: by name, rendered; ``pipeline_id`` is required.
    :param connection: the client settings of the Kafka connection.
    :param output: where the packaged job writes.
    :raises InvalidRequest: with every problem.
    """
    conf, problems = _conf_for(parameters.get("pipeline_id"), run)
    reading = Reading(run.interval, conf.window, otherwise=_otherwise(connection))
    isolation_level = connection.get("isolation.level", "read_uncommitted")  # Kafka's default, and not librdkafka's
    problems += [*_wrong_isolation_level(isolation_level), *_wrong_reset(connection)]
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
        output=output,
        act=conf if conf.is_act else None,
        said=run.conf if conf.is_act else {},
        dry_run=conf.dry_run,
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


_RESET_WORDS = re.compile(rf"{'|'.join(_RESETS)}|none|error|by_duration:.+")


def _otherwise(connection: Mapping[str, Any]) -> Otherwise | None:
    return _RESETS.get(str(connection.get("auto.offset.reset")).lower())


def _wrong_reset(connection: Mapping[str, Any]) -> Iterator[str]:
    """``none``, librdkafka's ``error`` and a duration (KIP-1106) mean that there is no default here (D8)."""
    value = connection.get("auto.offset.reset")
    if value is not None and not _RESET_WORDS.fullmatch(str(value).lower()):
        yield f"auto.offset.reset in the Kafka connection is {shown(value)}; give earliest, latest or none."


def _in_words(topics: str, window: Window | None, start: Start, end: End, max_records: int | None) -> str:
    bounds = f"window {iso(window[0])} to {iso(window[1])}" if window else f"start {start}, end {end}"
    limit = f", at most {counted(max_records, 'record')}" if max_records else ""
    return f"{topics[:200]}{'…' * (len(topics) > 200)}, {bounds}{limit}"


def _warnings(start: Start, end: End) -> Iterator[str]:
    for name, bound in (("start", start), ("end", end)):
        if isinstance(bound, TimeStart) and looks_like_seconds(bound.ms):
            yield f"{name} is {iso(bound.ms)}: is it in seconds? Kafka's timestamps are milliseconds (B10)."


# ── what is wrong in the run's conf, in the connection, and between parameters ────────────────────────────────────────


def _conf_for(pipeline: Any, run: RunContext) -> tuple[Conf, list[str]]:
    """The conf's instructions for this pipeline, and the conf's problems for any pipeline."""
    try:
        conf = parse_conf(run.conf)
    except InvalidConf as error:
        return Conf(), [f"The run's conf {problem}" for problem in error.problems]
    if conf.pipeline is None or conf.pipeline == pipeline:
        return conf, []
    if run.pipelines is not None and conf.pipeline not in run.pipelines:
        own = ", ".join(sorted(map(shown, run.pipelines)))
        return Conf(), [f"The run's conf names pipeline {shown(conf.pipeline)}, and this DAG has {own}."]
    return Conf(), []


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
    for name in ("group_id", "max_records", "exclude"):
        if reading.valid.get(name):
            yield f"{name} cannot be used by window (start and end are both times): leave it out."
