"""Rows of partitions ↔ JSON columns by topic: the one form in which plans, positions and reports are written.

``{"orders": {"partition": [0, 1], "offset": [5, 9]}}``: the columns of a topic are parallel to ``partition``, which is
sorted. Absent is null. A column that is not known is passed over: a later version may add some.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from itertools import groupby
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from airflow_kafka_offsets.kafka_values import TopicPartition

_NONE_LATER: Mapping[str, int | None] = {}


def to_columns(names: Sequence[str], rows: Mapping[TopicPartition, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """The columns ``names`` of each topic, from a row of values for each partition."""
    topics: dict[str, dict[str, Any]] = {}
    for topic, of_topic in groupby(sorted(rows), key=attrgetter("topic")):
        partitions = list(of_topic)
        columns = map(list, zip(*(rows[tp] for tp in partitions), strict=True))
        numbers = [tp.partition for tp in partitions]
        topics[topic] = {"partition": numbers, **dict(zip(names, columns, strict=True))}
    return topics


def from_columns(
    topics: Mapping[str, Mapping[str, Any]], required: Sequence[str], later: Mapping[str, int | None] = _NONE_LATER
) -> Iterator[tuple[TopicPartition, dict[str, Any]]]:
    """Each partition with its row.

    :param later: columns that earlier versions have not written, and what stands in each row for one that is absent.
    :raises ValueError: a column is missing, of another length, or a partition is named twice.
    """
    seen: set[TopicPartition] = set()
    if not isinstance(topics, Mapping):
        raise ValueError(f"{topics!r} is no object of topics")
    for topic, columns in topics.items():
        text(topic)
        numbers = columns.get("partition") if isinstance(columns, Mapping) else None
        if not isinstance(numbers, list):
            raise ValueError(f"topic {topic!r} has no partitions")
        values: dict[str, Any] = {name: columns.get(name) for name in required}
        values |= {name: columns.get(name, [absent] * len(numbers)) for name, absent in later.items()}
        wrong = [name for name, column in values.items() if not isinstance(column, list) or len(column) != len(numbers)]
        if wrong:
            raise ValueError(f"topic {topic!r} has no column {', '.join(wrong)} for each of its partitions")
        for index, number in enumerate(numbers):
            tp = TopicPartition(topic, whole(number))
            if tp in seen:
                raise ValueError(f"{tp} is named twice")
            seen.add(tp)
            yield tp, {name: column[index] for name, column in values.items()}


def whole(value: Any) -> int:
    """:raises ValueError: it is no whole number of 64 bits, as Kafka's and Spark's offsets and times are."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    if not -(2**63) <= value < 2**63:
        raise ValueError("a number has more than 64 bits")
    return value


def whole_or_none(value: Any) -> int | None:
    return None if value is None else whole(value)


def text(value: Any) -> str:
    """:raises ValueError: it is no text, or one that cannot be written as UTF-8: no log and no terminal takes it."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    value.encode()
    return value


def text_or_none(value: Any) -> str | None:
    return None if value is None else text(value)


def flag(value: Any) -> bool:
    """:raises ValueError: it is neither true nor false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


_READERS: Mapping[Any, Callable[[Any], Any]] = {int: whole, str: text, bool: flag}


def read_as(kind: Any, value: Any) -> Any:
    """JSON → the value of a type: numbers, texts and truths, and literals, tuples, mappings and dataclasses of them.

    A member that is not known is passed over. One that is missing has the field's default: an earlier version did not
    write it.

    :raises ValueError: it is of another type. Of another shape, it is a ``LookupError``, ``TypeError`` or
        ``AttributeError``: whoever reads the whole says what it is not.
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
    if origin is Mapping:
        read_name: Callable[[str], Any] = int if inside[0] is int else text
        return {read_as(inside[0], read_name(name)): read_as(inside[1], item) for name, item in value.items()}
    members = {name: of for name, (of, may_lack) in _members(kind).items() if name in value or not may_lack}
    return kind(**{name: read_as(of, value[name]) for name, of in members.items()})


@cache
def _members(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """The type of each field of a dataclass, and whether it has a default."""
    types = get_type_hints(kind)
    return {
        one.name: (types[one.name], one.default is not MISSING or one.default_factory is not MISSING)
        for one in fields(kind)
    }


def require_version(data: Mapping[str, Any], known: int, what: str) -> None:
    """Within a version fields are only added, so an older reader passes over them; it refuses a newer version.

    :raises ValueError: this code does not know the version.
    """
    found = data.get("version")
    if found != known or isinstance(found, bool):
        raise ValueError(f"{what} version {found!r} is not known to this version of airflow-kafka-offsets")


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
                raise NamedTwice(f"names {name!r} twice")
            seen.add(name)
    return found


class NamedTwice(ValueError):
    """Two members of one object have one name."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
