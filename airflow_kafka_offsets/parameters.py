# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The parameters of a request, each read by one function.

A function raises ``ValueError`` with a sentence that follows the parameter's name, and pydantic collects all of them.
The functions run in the order of :class:`_Parameters`, so that a later one can look at what earlier ones found. When a
DAG is parsed, templates and XComArgs pass: their values are not known before the run, and are checked there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, ValidationInfo

from airflow_kafka_offsets.acts import WINDOW_EXAMPLE
from airflow_kafka_offsets.errors import shown
from airflow_kafka_offsets.kafka_values import PartitionSet, Subscription, TopicList, TopicPartition
from airflow_kafka_offsets.names import (
    dashed_partition,
    group_name,
    partitions_by_topic,
    pipeline_name,
    subscription,
    whole_number,
)
from airflow_kafka_offsets.offsets import (
    End,
    GroupOffsets,
    GroupStart,
    OffsetsStart,
    Otherwise,
    SpecificOffsets,
    Start,
    Timestamp,
    TimeStart,
    parse_offsets,
)
from airflow_kafka_offsets.templated import is_settled
from airflow_kafka_offsets.times import parse_timestamp_ms

OnDataLoss = Literal["fail", "advance", "reset"]
Window = tuple[int, int]
"""``[start, end)`` in epoch milliseconds."""


MOST_SHARDS = 999
"""A key has at most 32 characters, the bound of Delta's statistics: ``0000000007-998of999-0123456789ab`` has them."""


@dataclass(slots=True)
class Reading:
    """One pass over the parameters.

    :ivar interval: the run's data interval; ``None``: it has none.
    :ivar conf_window: the window that the run's conf names instead.
    :ivar otherwise: ``auto.offset.reset`` of the connection.
    :ivar is_run: whether this is a run, and not the parsing of a DAG.
    :ivar valid: the parameters that could be read. Rules that need others do without them.
    """

    interval: Window | None
    conf_window: Window | None = None
    otherwise: Otherwise | None = None
    is_run: bool = True
    valid: dict[str, Any] = field(default_factory=dict)


class _NotSettled(ValueError):
    """A value that is not known before the run."""


def _by(read: Callable[[Any, Reading], Any]) -> PlainValidator:
    def validate(value: Any, info: ValidationInfo) -> Any:
        reading = cast(Reading, info.context)
        try:
            if not reading.is_run and isinstance(value, Timestamp) and not is_settled(value):
                value = Timestamp()  # rules for times hold whichever time the template gives
            if not reading.is_run and not is_settled(value):
                raise _NotSettled
            result = read(value, reading)
        except RecursionError:
            raise ValueError("is nested too deep") from None
        reading.valid[str(info.field_name)] = result
        return result

    return PlainValidator(validate)


# ── start and end ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _start(value: Any, reading: Reading) -> Start:
    match value:
        case "earliest" | "latest" as word:
            return cast(Start, word)
        case Timestamp():
            return _time(value, reading, 0)
        case GroupOffsets():
            return GroupStart(_group_of(value, reading), _otherwise(value, reading))
        case SpecificOffsets():
            return OffsetsStart(_offsets(value, reading), reading.valid.get("group_id"), _otherwise(value, reading))
    raise ValueError(f"is {_value(value)}; give 'earliest', 'latest', {_VALUES}")


def _end(value: Any, reading: Reading) -> End:
    match value:
        case "latest":
            return "latest"
        case Timestamp():
            return _time(value, reading, 1)
        case GroupOffsets(otherwise=None):
            return GroupStart(_group_of(value, reading))
        case SpecificOffsets(otherwise=None):
            return OffsetsStart(_offsets(value, reading))
        case "earliest":
            raise ValueError("is 'earliest', before which there is nothing to read; give 'latest' or Timestamp()")
        case GroupOffsets() | SpecificOffsets():
            raise ValueError(f"has otherwise={shown(value.otherwise)}, which goes with start only; leave it out")
    raise ValueError(f"is {_value(value)}; give 'latest', {_VALUES}")


_VALUES = "Timestamp(), GroupOffsets() or SpecificOffsets({…})"


def _value(value: Any) -> str:
    return f"the class {value.__name__} and not {value.__name__}()" if isinstance(value, type) else shown(value)


def _time(value: Timestamp, reading: Reading, side: int) -> TimeStart:
    if reading.conf_window is not None:
        return TimeStart(reading.conf_window[side])
    if value.t is not None:
        return TimeStart(parse_timestamp_ms(value.t))
    if reading.interval is None:
        raise ValueError(
            "is Timestamp(), and this run has no data interval (it has no logical date, or an asset triggered it); "
            f"give the time, or trigger a run with the conf {WINDOW_EXAMPLE}"
        )
    return TimeStart(reading.interval[side])


def _group_of(value: GroupOffsets, reading: Reading) -> str:
    if value.group_id is not None:
        try:
            return group_name(value.group_id)
        except ValueError as error:
            raise ValueError(f"has a group_id that {error}") from None
    if reading.valid.get("group_id", "") is None:
        raise ValueError("is GroupOffsets(), and there is no group to read: set group_id, or GroupOffsets('a-group')")
    return str(reading.valid.get("group_id"))  # where it could not be read, there is no request


def _otherwise(value: GroupOffsets | SpecificOffsets, reading: Reading) -> Otherwise | None:
    if value.otherwise not in (None, *get_args(Otherwise)):
        raise ValueError(f"has otherwise={shown(value.otherwise)}; give 'earliest' or 'latest'")
    return value.otherwise or reading.otherwise


def _offsets(value: SpecificOffsets, reading: Reading) -> dict[TopicPartition, int]:
    match reading.valid.get("topics"):
        case TopicList(topics):
            return parse_offsets(value.offsets, topics)
        case PartitionSet(partitions):
            return parse_offsets(value.offsets, sorted({tp.topic for tp in partitions}))
    return parse_offsets(value.offsets)


# ── the others ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _topics(value: Any, _: Reading) -> Subscription:
    return subscription(value)


def _group_id(value: Any, _: Reading) -> str | None:
    return None if value is None else group_name(value)


def _pipeline_id(value: Any, reading: Reading) -> str | None:
    if value is None and reading.is_run:
        raise ValueError("is missing; name the pipeline")
    return None if value is None else pipeline_name(value)


def _max_records(value: Any, _: Reading) -> int | None:
    if value is None:
        return None
    number = whole_number(value, "is {}")
    if number < 1:
        raise ValueError(f"is {shown(value)}; give at least 1")
    return number


def _on_data_loss(value: Any, _: Reading) -> OnDataLoss:
    match value:
        case "fail" | "advance" | "reset" as word:
            return cast(OnDataLoss, word)
    raise ValueError(f"is {shown(value)}; give 'fail', 'advance' or 'reset'")


def _exclude(value: Any, _: Reading) -> frozenset[TopicPartition]:
    if isinstance(value, str):
        value = [name for name in value.split(",") if name.strip()]
    if isinstance(value, Mapping):
        return frozenset(partitions_by_topic(value))
    if not isinstance(value, Sequence | set | frozenset) or isinstance(value, bytes):
        raise ValueError(f"is {shown(value)}; give partitions such as ['orders-3']")
    return frozenset(tp if isinstance(tp, TopicPartition) else dashed_partition(tp) for tp in value)


def _shard(value: Any, _: Reading) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"is {shown(value)}; give (i, n), such as (0, 4) for the first of four")
    i, n = (whole_number(number, "has {}") for number in value)
    if not 0 <= i < n <= MOST_SHARDS:
        raise ValueError(f"is {shown(value)}; i is 0 to n - 1, and n is {MOST_SHARDS} at most")
    return i, n


def _flag(value: Any, _: Reading) -> bool:
    match str(value).lower():  # a template renders text
        case "true":
            return True
        case "false":
            return False
    raise ValueError(f"is {shown(value)}; give True or False")


class _Parameters(BaseModel):
    """What ``ResolveStartupOffsetsOperator`` takes that makes a request."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

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


PARAMETERS = tuple(_Parameters.model_fields)
"""The names of the parameters."""


def read_parameters(parameters: Mapping[str, Any], reading: Reading) -> Iterator[tuple[str, str]]:
    """Fill ``reading.valid`` and give each problem: the parameter's name, and the sentence with it."""
    try:
        _Parameters.model_validate(dict(parameters), context=reading)
    except ValidationError as invalid:
        for problem in invalid.errors(include_url=False, include_input=False):
            name, error = str(problem["loc"][0]), problem.get("ctx", {}).get("error")
            if isinstance(error, _NotSettled):
                continue
            of_name = {"missing": "is missing; name the topics", "extra_forbidden": "is not a parameter of a request"}
            yield name, f"{name} {of_name.get(problem['type'], error)}."
