"""Some values → the columns that JSON of their kind has, as a Spark DDL to start from.

It is a guess from what was seen: a field that no value had is not there, and a later value may have another type. So it
says what it guessed by: fields with several types, fields that were always null, values that are no JSON object. No
field is NOT NULL.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.values.row_definition import REGISTRY_HEADER
from airflow_kafka_offsets.values.sql_text import quoted

_BIGINT, _DOUBLE, _BOOLEAN, _STRING, _TIMESTAMP = "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "TIMESTAMP"
_STRUCT, _ARRAY = "STRUCT", "ARRAY"
_TOO_LARGE = "a number beyond BIGINT"
_DEEPEST = 50  # levels; below, JSON stays text
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)?", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class JsonSample:
    """What was seen in the values so far.

    :ivar objects: how many are JSON objects, also those behind the header of a schema registry.
    :ivar tombstones: how many are null.
    :ivar others: how many are neither, and have no header; ``first_other`` says where the first is, and why.
    :ivar schema_ids: of a registry's header; each with the number of values that have it.
    """

    def __init__(self) -> None:
        self.objects = self.tombstones = self.others = 0
        self.first_other: tuple[str, bytes, str] | None = None
        self.schema_ids: Counter[int] = Counter()
        self._root = _Seen()

    def add(self, value: bytes | None, where: str) -> None:
        """
        :param where: of the record, for ``first_other``.
        """
        if value is None:
            self.tombstones += 1
            return
        is_framed = len(value) >= REGISTRY_HEADER and value[:1] == b"\0"
        if is_framed:
            self.schema_ids[int.from_bytes(value[1:REGISTRY_HEADER], "big")] += 1
        try:
            found = _object(value[REGISTRY_HEADER:] if is_framed else value)
        except ValueError as error:
            if not is_framed:
                self.others += 1
                self.first_other = self.first_other or (where, value, str(error))
            return
        self.objects += 1
        self._root.add(found, 0)

    @property
    def columns(self) -> list[tuple[str, str, int]]:
        """Name, type and how many values have it, other than null; in the order in which they were seen."""
        return [(name, seen.type, seen.count) for name, seen in self._root.columns().items()]

    @property
    def ddl(self) -> str:
        """A column a line; empty where no object has a field."""
        return ",\n".join(f"{_name(name)} {kind}" for name, kind, _ in self.columns)

    @property
    def notes(self) -> list[str]:
        """What the columns are guessed by, where it is not plain; a sentence each."""
        return list(self._root.notes(""))


def _object(value: bytes) -> dict[str, Any]:
    """:raises ValueError: it is none; the words can follow "it"."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ValueError("is no UTF-8") from None
    try:
        found = read_json(text)
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("is JSON, and no object")
    return found


class _Seen:
    """Everything that was seen at one place of the values: how often each type, and what is inside."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.fields: dict[str, _Seen] = {}
        self.elements: _Seen | None = None

    def add(self, value: Any, depth: int) -> None:
        kind = _kind(value, depth)
        if kind is None:
            return
        self.kinds[kind] += 1
        if kind == _STRUCT:
            for name, inside in value.items():
                self.fields.setdefault(name, _Seen()).add(inside, depth + 1)
        elif kind == _ARRAY:
            self.elements = self.elements or _Seen()
            for inside in value:
                self.elements.add(inside, depth + 1)

    @property
    def count(self) -> int:
        return self.kinds.total()

    @property
    def type(self) -> str:
        kind = self._one_kind()
        columns = self.columns()
        if kind == _STRUCT and columns:
            return f"STRUCT<{', '.join(f'{_name(name)}: {seen.type}' for name, seen in columns.items())}>"
        if kind == _ARRAY and self.elements is not None:
            return f"ARRAY<{self.elements.type}>"
        return kind if kind in (_BIGINT, _DOUBLE, _BOOLEAN, _TIMESTAMP) else _STRING

    def columns(self) -> dict[str, _Seen]:
        """The fields that Spark can have beside each other: it reads ``id`` and ``ID`` as one name."""
        first: dict[str, str] = {}
        for name in self.fields:
            first.setdefault(name.lower(), name)
        return {name: self.fields[name] for name in first.values() if name}

    def notes(self, path: str) -> Iterator[str]:
        kind = self._one_kind()
        if kind is None and self.count:
            seen = ", ".join(f"{name} in {count}" for name, count in self.kinds.most_common())
            yield f"{path} has several types ({seen}): STRING keeps the text of each"
        elif kind == _TOO_LARGE:
            yield f"{path} is {_TOO_LARGE}: STRING keeps its digits; DECIMAL(38,0) reads up to 38 of them"
        elif kind is None and path:
            yield f"{path} is always null or has no element: STRING is a guess"
        elif kind == _STRUCT and path and not self.columns():
            yield f"{path} has no field: STRING keeps its text"
        elif kind == _ARRAY and self.elements is not None:
            yield from self.elements.notes(f"{path}[]")
        if kind == _STRUCT:
            columns = self.columns()
            for name, inside in self.fields.items():
                where = f"{path}.{name}" if path else name
                if name in columns:
                    yield from inside.notes(where)
                else:
                    yield f"{where!r} is left out: to Spark it has no name, or that of another field"

    def _one_kind(self) -> str | None:
        """The type that reads all that was seen; ``None`` where nothing was, or no type but text does."""
        kinds = set(self.kinds)
        if len(kinds) == 1:
            return next(iter(kinds))
        return {frozenset((_BIGINT, _DOUBLE)): _DOUBLE, frozenset((_TIMESTAMP, _STRING)): _STRING}.get(frozenset(kinds))


def _kind(value: Any, depth: int) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return _BOOLEAN
        case int():
            return _BIGINT if -(2**63) <= value < 2**63 else _TOO_LARGE
        case float():
            return _DOUBLE
        case str():
            return _TIMESTAMP if _is_time(value) else _STRING
    if depth >= _DEEPEST:
        return _STRING
    return _STRUCT if isinstance(value, dict) else _ARRAY


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _name(name: str) -> str:
    """With the quotation marks that it needs."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)
