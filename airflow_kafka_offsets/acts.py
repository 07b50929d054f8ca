# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a person tells a pipeline, in the conf of one run::

    {"kafka_offsets": {"pipeline": "orders", "after": 4, "reason": "bucket renamed",
                       "acknowledge": {"output": "iceberg:lake.orders"}}}
    … "reset": {"start": "earliest" | "latest" | "group" | "current" | "<time>" | {"orders-3": 4711},
                "allow_duplicates": true}
    … "skip": ["orders-3:4711"]     (or "orders-3:4711-4720", both ends included)
    … "window": [from, to]          (which window this run does, if it is not that of its data interval)
    … "dry_run": true               (the run prints before → after, and fails)

``after`` is the number of the identity that the act replaces, so that it is carried out once, whatever is clicked
twice, retried, or cleared weeks later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    PlainValidator,
    StrictBool,
    TypeAdapter,
    ValidationError,
)

from airflow_kafka_offsets.errors import shown
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition
from airflow_kafka_offsets.names import dashed_partition, line_of_text, pipeline_name, whole_number
from airflow_kafka_offsets.times import iso, parse_timestamp_ms

ResetStart = Literal["earliest", "latest", "group", "current"] | int | Mapping[TopicPartition, int]
WINDOW_EXAMPLE = '{"kafka_offsets": {"window": ["2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"]}}'
_SKIP = re.compile(r"(.+):([0-9]+)(?:-([0-9]+))?")
_KNOWN_WORDS_ONLY = ConfigDict(extra="forbid")


def _reset_start(start: Any) -> ResetStart:
    match start:
        case "earliest" | "latest" | "group" | "current":
            return cast(ResetStart, start)
        case {}:
            offsets = {dashed_partition(name): whole_number(offset, "has offset {}") for name, offset in start.items()}
            if not offsets or min(offsets.values()) < 0:
                raise ValueError(f"is {shown(start)}; give offsets from 0")
            return offsets
    return parse_timestamp_ms(start)


def _skip(said: Any) -> tuple[TopicPartition, OffsetRange]:
    match = _SKIP.fullmatch(said) if isinstance(said, str) else None
    if match is None or int(match[3] or match[2]) < int(match[2]):
        raise ValueError(f"has {shown(said)}; expected orders-3:4711 or orders-3:4711-4720, both ends included")
    first, last = (whole_number(offset, "has offset {}") for offset in (match[2], match[3] or match[2]))
    return dashed_partition(match[1]), OffsetRange(first, last + 1)


Text: TypeAlias = Annotated[str, AfterValidator(line_of_text)]
Texts: TypeAlias = Annotated[
    tuple[Text, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]
Time: TypeAlias = Annotated[int, PlainValidator(parse_timestamp_ms)]


@dataclass(frozen=True)
class Acknowledged:
    """New values that a person names (STATE.md, *Differences*).

    :ivar group: the digest of what the group holds. :ivar batch, rows: keys. :ivar topic: old ids by topic.
    :ivar log: ids of other logs, each with its highest key. :ivar windows_from: in milliseconds.
    """

    __pydantic_config__ = _KNOWN_WORDS_ONLY
    cluster: Text | None = None
    output: Text | None = None
    group: Text | None = None
    batch: Texts = ()
    rows: Texts = ()
    topic: Mapping[Text, Text] = field(default_factory=dict)
    log: Mapping[Text, Text] = field(default_factory=dict)
    windows_from: Time | None = None


@dataclass(frozen=True)
class Reset:
    """
    :ivar start: a word, a time in milliseconds, or an offset for some partitions.
    """

    __pydantic_config__ = _KNOWN_WORDS_ONLY
    start: Annotated[ResetStart, PlainValidator(_reset_start)]
    allow_duplicates: StrictBool = False


@dataclass(frozen=True)
class Conf:
    """The run's ``conf["kafka_offsets"]``.

    :ivar after: ``None``: not said; the run fails and prints it.
    """

    __pydantic_config__ = _KNOWN_WORDS_ONLY
    pipeline: Annotated[str, PlainValidator(pipeline_name)] | None = None
    after: NonNegativeInt | None = None
    reason: Text | None = None
    acknowledge: Acknowledged | None = None
    reset: Reset | None = None
    skip: tuple[Annotated[tuple[TopicPartition, OffsetRange], PlainValidator(_skip)], ...] = ()
    window: tuple[Time, Time] | None = None
    dry_run: StrictBool = False

    @property
    def is_act(self) -> bool:
        return bool(self.acknowledge or self.reset or self.skip)


_CONF = TypeAdapter(Conf)


class InvalidConf(ValueError):
    """Sentences that follow "The run's conf"."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems


def parse_conf(said: Any) -> Conf:
    """:raises InvalidConf: with every problem."""
    try:
        conf: Conf = _CONF.validate_python({} if said is None else said)
    except ValidationError as error:
        raise InvalidConf([*dict.fromkeys(_sentences(error))]) from None
    missing = [name for name in ("pipeline", "reason") if conf.is_act and getattr(conf, name) is None]
    if missing:
        raise InvalidConf([f"has an act without {' and '.join(missing)}: give them."])
    return conf


def _sentences(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        where = ".".join(str(part) for part in problem["loc"] if not isinstance(part, int))
        match problem["type"]:
            case "unexpected_keyword_argument":
                yield f"has {where!r}, which is no word of it; it takes {', '.join(f.name for f in fields(Conf))}."
            case "value_error":
                yield f"has {where}, which {problem['ctx']['error']}."
            case _:
                what = f"has {where}" if where else f"is {shown(problem['input'])}"
                yield f"{what}: {problem['msg'].lower()}. An example: {WINDOW_EXAMPLE}."


def conf_text(pipeline: str, after: int, window: tuple[int, int] | None = None, **acts: Any) -> str:
    """A conf to copy.

    :param window: which the act's run is to do, in milliseconds: a run that is triggered may have no data interval.
    """
    done = {} if window is None else {"window": [iso(bound) for bound in window]}
    return json.dumps({"kafka_offsets": {"pipeline": pipeline, "after": after, "reason": "why", **acts, **done}})
