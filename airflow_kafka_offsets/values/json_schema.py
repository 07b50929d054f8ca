"""A JSON Schema → the columns that Spark's ``from_json`` reads, as DDL.

A value without a place in a column is refused and never read as something else: several types, a schema that is
elsewhere, an object that says nothing of its members. ``NOT NULL`` stands where the schema requires a member and does
not let it be null; ``from_json`` itself does not look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from airflow_kafka_offsets.errors import InvalidRequest, refuse
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.values.sql_text import quoted

_PLAIN = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_FORMATS = {"date": "DATE", "date-time": "TIMESTAMP"}
_WAY_OUT = 'Give the columns as DDL besides, such as schema="id BIGINT, note STRING".'


def ddl_of(text: str, what: str) -> str:
    """The columns of the objects that the schema describes: ```id` BIGINT NOT NULL, `note` STRING``.

    ``integer`` is BIGINT and ``number`` DOUBLE; a string is STRING, or what its format says: DATE or TIMESTAMP. Members
    that the schema does not name are in no column.

    :param what: names the schema in an error: ``the JSON Schema of subject 'orders-value', version 3``.
    :raises InvalidRequest: it is no JSON Schema of objects, or has what no column can say: each place, by its path.
    """
    try:
        reading = _Reading(read_json(text))
        columns = reading.columns()
    except ValueError as error:
        raise InvalidRequest((f"{what} is no JSON: {error}. {_WAY_OUT}",)) from None
    except RecursionError:
        raise InvalidRequest((f"{what} is nested too deep. {_WAY_OUT}",)) from None
    refuse([f"{what}: {problem}. {_WAY_OUT}" for problem in reading.problems])
    return ", ".join(columns)


class _NoColumn(Exception):
    """A place of the schema that DDL has no words for: its path, and why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} {why}")


@dataclass(frozen=True, slots=True)
class _One:
    """A schema of one type, and by which references it was reached."""

    node: dict[str, Any]
    kind: str
    nullable: bool
    by: tuple[str, ...]

    @property
    def properties(self) -> dict[str, Any]:
        found = self.node.get("properties")
        return found if isinstance(found, dict) else {}


class _Reading:
    """One pass through a schema; ``problems`` has each place that DDL has no words for."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self.problems: list[str] = []

    def columns(self) -> list[str]:
        try:
            whole = self._one(self._document, "#", ("#",))
            if whole.kind != "object" or not whole.properties:
                raise _NoColumn("#", "is no object with properties")
        except _NoColumn as problem:
            self.problems.append(str(problem))
            return []
        return self._members(whole, "#", " ")

    def _one(self, node: Any, path: str, by: tuple[str, ...]) -> _One:
        """What ``node`` is, behind references and behind a choice between a schema and null."""
        if not isinstance(node, dict):
            raise _NoColumn(path, "says nothing of its type")
        if "$ref" in node:
            reference = str(node["$ref"])
            if reference in by:
                raise _NoColumn(path, f"contains itself, by {reference}")
            target = self._at(reference)
            if target is None:
                raise _NoColumn(path, f"refers to {reference}, which is outside of this schema")
            return self._one(target, path, (*by, reference))
        for word in ("oneOf", "anyOf", "allOf"):
            if isinstance(choice := node.get(word), list):
                branches = [branch for branch in choice if branch != {"type": "null"}]
                if len(branches) != 1:
                    raise _NoColumn(path, f"is {word} of {len(branches)} schemas, and a column has one type")
                found = self._one(branches[0], path, by)
                return replace(found, nullable=found.nullable or len(branches) < len(choice))
        named = node.get("type")
        types = named if isinstance(named, list) else [named]
        kinds = [str(kind) for kind in types if kind not in ("null", None)]
        if not kinds:
            raise _NoColumn(path, "says nothing of its type")
        if len(kinds) > 1:
            raise _NoColumn(path, f"has the types {' and '.join(kinds)}, and a column has one")
        return _One(node, kinds[0], "null" in types, by)

    def _members(self, of: _One, path: str, between: str) -> list[str]:
        """A column, or a field of a struct, for each property of an object; what is none is among the problems."""
        required = of.node.get("required")
        required = required if isinstance(required, list) else []
        by_lower: dict[str, str] = {}
        members = []
        for name, node in of.properties.items():
            here = f"{path}/properties/{name.replace('~', '~0').replace('/', '~1')}"
            try:
                if (other := by_lower.setdefault(name.lower(), name)) != name:
                    raise _NoColumn(here, f"differs from {other} in its case alone, which Spark does not tell apart")
                member = self._one(node, here, of.by)
                not_null = " NOT NULL" if name in required and not member.nullable else ""
                members.append(f"{quoted(name)}{between}{self._type(member, here)}{not_null}")
            except _NoColumn as problem:
                self.problems.append(str(problem))
        return members

    def _type(self, of: _One, path: str) -> str:
        match of.kind:
            case "string":
                return _FORMATS.get(str(of.node.get("format")), "STRING")
            case "integer" | "number" | "boolean":
                return _PLAIN[of.kind]
            case "array":
                return f"ARRAY<{self._inner(of, 'items', path)}>"
            case "object" if of.properties:
                return f"STRUCT<{', '.join(self._members(of, path, ': '))}>"
            case "object":
                return f"MAP<STRING, {self._inner(of, 'additionalProperties', path)}>"
        raise _NoColumn(path, f"has the type {of.kind}, which no column has")

    def _inner(self, of: _One, word: str, path: str) -> str:
        """The type of an array's items, or of an object's values."""
        inner = f"{path}/{word}"
        return self._type(self._one(of.node.get(word), inner, of.by), inner)

    def _at(self, reference: str) -> Any:
        """What a JSON pointer (RFC 6901) leads to in this document; ``None`` where that is nothing."""
        start, *steps = reference.split("/")
        found = self._document if start == "#" else None
        for step in steps:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found
