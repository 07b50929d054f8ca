"""An Avro schema and those that it refers to → one text that stands alone: Spark's ``from_avro`` takes no other.

Each type that another schema defines is written out where the text names it first; from there on its name does. What is
written out says its namespace, because it now stands inside of another one (Avro's specification, "Names").
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.json_columns import text as text_of

_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_NAMED = {"record", "error", "enum", "fixed"}


def standalone(text: str, referenced: Iterable[str] = ()) -> str:
    """The schema with every type that it names; the same text where it refers to no other schema.

    :param referenced: the texts of all schemas that it refers to, and of all that those refer to.
    :raises ValueError: it is no Avro schema, or names a type that nobody defines, or that two define differently.
    """
    try:
        schema, others = read_json(text), [read_json(other) for other in referenced]
        types = _Types()
        for found in (*others, schema):
            types.learn(found, "")
        whole = types.written_out(schema, "")
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return json.dumps(whole, ensure_ascii=False) if others else text


class _Types:
    """Every named type by its full name, and which of them have been written."""

    def __init__(self) -> None:
        self._defined: dict[str, tuple[Any, str]] = {}
        self._written: set[str] = set()

    def learn(self, node: Any, space: str) -> None:
        """Take in what ``node`` defines, which stands in the namespace ``space``."""
        match node:
            case list():
                for branch in node:
                    self.learn(branch, space)
            case {"type": kind} if isinstance(kind, str) and kind in _NAMED:
                name = _full_name(node, space)
                if self._defined.setdefault(name, (node, space)) != (node, space):
                    raise ValueError(f"the type {name!r} has two different definitions")
                for field in _fields(node):
                    self.learn(field["type"], _space(name))
            case (
                {"type": "array", "items": inner}
                | {"type": "map", "values": inner}
                | {"type": dict() | list() as inner}
            ):
                self.learn(inner, space)

    def written_out(self, node: Any, space: str) -> Any:
        """``node`` with each type that it names; what has been written before is left a name."""
        match node:
            case str():
                return node if node in _PRIMITIVES else self._named(node, space)
            case list():
                return [self.written_out(branch, space) for branch in node]
            case {"type": kind} if isinstance(kind, str) and kind in _NAMED:
                return self._definition(node, space)
            case {"type": "array", "items": inner}:
                return {**node, "items": self.written_out(inner, space)}
            case {"type": "map", "values": inner}:
                return {**node, "values": self.written_out(inner, space)}
            case {"type": kind} if isinstance(kind, str) and kind in _PRIMITIVES:
                return node
            case {"type": inner}:
                return self.written_out(inner, space)
        raise ValueError(f"{json.dumps(node, ensure_ascii=False)[:100]} is no type")

    def _named(self, name: str, space: str) -> Any:
        """A name without a dot is of the namespace around it, or of none."""
        of_space = f"{space}.{name}" if space and "." not in name else name
        for full in (of_space, name):
            if full in self._written:
                return full
            if full in self._defined:
                return self._definition(*self._defined[full])
        raise ValueError(f"it names the type {name!r}, which neither it nor a schema that it refers to defines")

    def _definition(self, node: Any, space: str) -> Any:
        full = _full_name(node, space)
        if full in self._written:
            return full
        self._written.add(full)
        own = _space(full)
        whole = {**node, "name": full.rpartition(".")[2], "namespace": own}
        if fields := _fields(node):
            whole["fields"] = [{**field, "type": self.written_out(field["type"], own)} for field in fields]
        return whole


def _full_name(node: Any, space: str) -> str:
    name, own = text_of(node.get("name")), text_of(node.get("namespace", space))
    return f"{own}.{name}" if own and "." not in name else name


def _space(full_name: str) -> str:
    return full_name.rpartition(".")[0]


def _fields(node: Any) -> list[Any]:
    """The fields of a record; of an enum or a fixed none."""
    if node["type"] not in ("record", "error"):
        return []
    fields = node.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, dict) and "type" in field for field in fields):
        raise ValueError(f"the record {node.get('name')!r} has no list of fields with a type each")
    return fields
