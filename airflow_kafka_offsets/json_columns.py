# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Rows of partitions ↔ JSON columns by topic: the one form in which plans, positions and reports are written.

``{"orders": {"partition": [0, 1], "offset": [5, 9]}}``: the columns of a topic are parallel to ``partition``, which is
sorted. Absent is null. Unknown columns are ignored: a later version may add some.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from airflow_kafka_offsets.kafka_values import TopicPartition


def to_columns(names: Sequence[str], rows: Mapping[TopicPartition, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """The columns ``names`` of each topic, from a row of values for each partition."""
    topics: dict[str, dict[str, Any]] = {}
    for topic, of_topic in groupby(sorted(rows), key=attrgetter("topic")):
        partitions = list(of_topic)
        columns = map(list, zip(*(rows[tp] for tp in partitions), strict=True))
        numbers = [tp.partition for tp in partitions]
        topics[topic] = {"partition": numbers, **dict(zip(names, columns, strict=True))}
    return topics


Members = Mapping[str, tuple[Any, bool]]
"""Of each member of an object, or column of rows, its type, and whether it may be missing."""


def from_columns(
    topics: Mapping[str, Mapping[str, Any]], columns: Members
) -> Iterator[tuple[TopicPartition, dict[str, Any]]]:
    """Each partition with its row, which lacks the columns that are missing.

    :raises ValueError: a column is missing, of another length or type, or a partition is named twice.
    """
    seen: set[TopicPartition] = set()
    if not isinstance(topics, Mapping):
        raise ValueError(f"{topics!r} is no object of topics")
    for topic, of_topic in topics.items():
        text(topic)
        numbers = of_topic.get("partition") if isinstance(of_topic, Mapping) else None
        if not isinstance(numbers, list):
            raise ValueError(f"topic {topic!r} has no partitions")
        found: dict[str, Any] = {
            name: of_topic.get(name) for name, (_, may_lack) in columns.items() if name in of_topic or not may_lack
        }
        wrong = [name for name, column in found.items() if not isinstance(column, list) or len(column) != len(numbers)]
        if wrong:
            raise ValueError(f"topic {topic!r} has no column {', '.join(wrong)} for each of its partitions")
        values = (
            map(_READERS.get(columns[name][0], partial(read_as, columns[name][0])), found[name]) for name in found
        )
        for number, *row in zip(numbers, *values, strict=True):
            tp = TopicPartition(topic, whole(number))
            if tp in seen:
                raise ValueError(f"{tp} is named twice")
            seen.add(tp)
            yield tp, dict(zip(found, row, strict=True))


def whole(value: Any) -> int:
    """:raises ValueError: it is no whole number of 64 bits, as Kafka's and Spark's offsets and times are."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    if not -(2**63) <= value < 2**63:
        raise ValueError("a number has more than 64 bits")
    return value


def _whole_or_none(value: Any) -> int | None:
    return None if value is None else whole(value)


def text(value: Any) -> str:
    """:raises ValueError: it is no text, or one that cannot be written as UTF-8: no log and no terminal takes it."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    value.encode()
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _partition(value: Any) -> TopicPartition:
    topic, _, number = text(value).rpartition("-")
    return TopicPartition(topic, whole(int(number)))


def _as_it_is(value: Any) -> Any:
    return value


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    Any: _as_it_is,
    int: whole,
    int | None: _whole_or_none,
    str: text,
    bool: _flag,
    TopicPartition: _partition,
}


def read_as(kind: Any, value: Any) -> Any:
    """JSON → the value of a type: numbers, texts and truths, and literals, tuples, mappings and dataclasses of them.

    Unknown members are ignored. A missing one has the field's default: an earlier version did not write it.

    :raises ValueError, LookupError, TypeError, AttributeError: it is of another type or shape.
    """
    origin, inside = get_origin(kind), get_args(kind)
    if kind in _READERS:
        return _READERS[kind](value)
    if NoneType in inside:
        return None if value is None else read_as(inside[0], value)
    if origin is Literal:
        if value not in inside:
            raise ValueError(f"{value!r} is none of {', '.join(inside)}")
        return value
    if origin is tuple and inside[-1] is Ellipsis:
        return tuple(read_as(inside[0], item) for item in value)
    if origin is tuple:
        return tuple(read_as(of, value[index]) for index, of in enumerate(inside))
    if origin is Mapping and inside[0] is TopicPartition:
        return {tp: inside[1](**row) for tp, row in from_columns(value, members(inside[1]))}
    if origin is Mapping:
        read_name: Callable[[str], Any] = int if inside[0] is int else text
        return {read_as(inside[0], read_name(name)): read_as(inside[1], item) for name, item in value.items()}
    known = members(kind).items()
    return kind(**{name: read_as(of, value[name]) for name, (of, may_lack) in known if name in value or not may_lack})


@cache
def members(kind: Any) -> Members:
    """The type of each field of a dataclass, and whether it has a default."""
    types = get_type_hints(kind)
    return {
        one.name: (types[one.name], one.default is not MISSING or one.default_factory is not MISSING)
        for one in fields(kind)
        if one.init
    }


def as_json(value: Any) -> Any:
    """What :func:`read_as` reads as the value: of a dataclass all members, of values of partitions the columns."""
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, tuple):
        return list(map(as_json, value))
    if isinstance(value, Mapping):
        if isinstance(next(iter(value), None), TopicPartition):
            of_partition: Any = type(next(iter(value.values())))
            names = tuple(members(of_partition))
            return to_columns(names, {tp: [getattr(of_one, name) for name in names] for tp, of_one in value.items()})
        return {str(name): as_json(value[name]) for name in sorted(value)}
    if not is_dataclass(value):
        return value
    kind: Any = type(value)
    return {name: as_json(getattr(value, name)) for name in members(kind)}


# ── JSON from outside → plain values: all of this package reads its JSON here ─────────────────────────────────────────
# Python's own reader takes the last of two members of one name in silence, takes ``NaN`` for a number, and ends in a
# ``RecursionError`` where brackets are nested too deep. Here each of them is a ``ValueError``.


def read_json(text: str | bytes) -> Any:
    """The value that ``text`` describes.

    :raises ValueError: it is no JSON, or JSON that two readers would take for different values.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"names {name!r} twice")
            seen.add(name)
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
