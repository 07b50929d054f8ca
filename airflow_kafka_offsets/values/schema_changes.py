"""What is different between the schemas of two row definitions, in words; for a log, so nothing here is refused.

Spark is not asked. The columns of an Avro schema and of a DDL are read as far as a person needs it; where they cannot
be, the versions are said alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition

_MOST = 10
_AVRO = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "enum": "STRING",
    "bytes": "BINARY",
    "fixed": "BINARY",
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
_PIECE = re.compile(r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^`'"]""", re.DOTALL)
_COLUMN = re.compile(
    r"""\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^\s:`"'<{]+))(?:\s*:\s*|\s+)(?P<type>[^\s:].*)""", re.DOTALL
)
_STRUCT = re.compile(r"STRUCT\s*<(.*)>(?: NOT NULL)?", re.IGNORECASE)
_COMMENT = re.compile(r"""\s+COMMENT\s+(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.IGNORECASE)


def schema_changes(before: RowDefinition, now: RowDefinition) -> list[str]:
    """A sentence for the value, and one for the key, whose schema, or its version, is another one than before."""
    return [line for name, old, new in _in_both(before, now) for line in _change(name, old, new)]


def older_versions(before: RowDefinition, now: RowDefinition) -> Iterator[tuple[str, int, int]]:
    """Subjects of which ``now`` has an older version, with both: that of before and that of now."""
    for _, old, new in _in_both(before, now):
        was, is_now = old.origin, new.origin
        if was and is_now and was.subject == is_now.subject and was.version > is_now.version:
            yield was.subject, was.version, is_now.version


def _in_both(before: RowDefinition, now: RowDefinition) -> Iterator[tuple[str, FieldFormat, FieldFormat]]:
    for name, old in before.fields.items():
        if name in now.fields:
            yield name, old, now.fields[name]


def _change(name: str, old: FieldFormat, new: FieldFormat) -> Iterator[str]:
    was, is_now = old.origin, new.origin
    if was == is_now or was is None or is_now is None:
        if (old.format, old.schema) == (new.format, new.schema):
            return
        what = f"The schema of {name} has changed"
    elif was.subject == is_now.subject:
        what = f"Schema of {is_now.subject}: version {was.version} → {is_now.version}"
    else:
        what = f"Schema of {name}: {was} → {is_now}"
    yield f"{': '.join(filter(None, (what, _columns_changed(old, new))))}."


def _columns_changed(old: FieldFormat, new: FieldFormat) -> str:
    """Empty where it cannot be worked out."""
    if old.format != new.format:
        return f"format {old.format} → {new.format}"
    try:
        was, is_now = _columns(old), _columns(new)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return ""
    found = [f"new column {is_now[key][0]} {is_now[key][1]}" for key in is_now if key not in was]
    found += [f"column {was[key][0]} is gone" for key in was if key not in is_now]
    changed = [key for key in is_now if key in was and _letters(was[key][1]) != _letters(is_now[key][1])]
    found += [f"column {is_now[key][0]} {was[key][1]} → {is_now[key][1]}" for key in changed]
    more = [f"{len(found) - _MOST} more"] if len(found) > _MOST else []
    return ", ".join((*found[:_MOST], *more)) or "the columns are the same"


def _letters(kind: str) -> str:
    """What makes a difference of types."""
    return "".join(kind.upper().split())


def _columns(of: FieldFormat) -> dict[str, tuple[str, str]]:
    """By the name without its case: name and type of each column, and of each field of a struct.

    :raises ValueError: the text has none, or none that is understood here.
    """
    schema = of.schema or ""
    found = _in_ddl(_fields(json.loads(schema)["fields"]) if of.format == "avro" else schema)
    return {name.lower(): (name, kind) for name, kind in found}


def _fields(fields: Iterable[Any]) -> str:
    return ", ".join(f"{field['name']}: {_avro_type(field['type'])}" for field in fields)


def _avro_type(node: Any) -> str:
    """In Spark's words. A type that is defined elsewhere in the schema has its own name."""
    match node:
        case str():
            return _AVRO.get(node, node)
        case list():
            types = [_avro_type(branch) for branch in node if branch != "null"]
            return types[0] if len(types) == 1 else f"UNION<{', '.join(types)}>"
        case {"logicalType": "decimal", "precision": precision}:
            return f"DECIMAL({precision},{node.get('scale', 0)})"
        case {"logicalType": str() as kind} if kind in _AVRO:
            return _AVRO[kind]
        case {"type": "array", "items": inner}:
            return f"ARRAY<{_avro_type(inner)}>"
        case {"type": "map", "values": inner}:
            return f"MAP<STRING, {_avro_type(inner)}>"
        case {"type": "record", "fields": fields}:
            return f"STRUCT<{_fields(fields)}>"
        case {"type": inner}:
            return _avro_type(inner)
    raise ValueError(f"{node!r} is no type")


def _in_ddl(ddl: str, within: str = "") -> Iterator[tuple[str, str]]:
    for part in _parts(ddl):
        found = _COLUMN.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} is no column")
        name = within + ((found["quoted"] or "").replace("``", "`") or found["plain"])
        kind = " ".join(_COMMENT.sub("", found["type"]).split())
        struct = _STRUCT.fullmatch(kind)
        yield from _in_ddl(struct[1], f"{name}.") if struct else [(name, kind)]


def _parts(ddl: str) -> list[str]:
    """The text between the commas that stand in no bracket and no quotation mark."""
    parts, depth = [""], 0
    for piece in _PIECE.findall(ddl):
        depth += (piece in "<(") - (piece in ">)")
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts
