"""How records become rows: the parameters ``value``, ``key``, ``tombstones``, ``select``, ``where`` and ``expect``.

Each run that does a batch has a definition, and puts it into the work store under its digest (``schemas/``). Spark gets
the digest. So schemas of any size reach it, all splits of a run decode alike, and whoever does the batch again with a
mended schema uses the new one. A report says with which it was written.

Nothing is decoded here, and no registry is asked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal, TypedDict, get_args

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.json_columns import as_json, read_as, reading, require_version
from airflow_kafka_offsets.values.sql_text import expression_problems

VERSION = 1
LIMIT = "limit"
REGISTRY_HEADER = 5
"""Bytes in front of a record whose producer uses a schema registry: a zero, and the schema's id."""
Format = Literal["string", "json", "avro"]
Tombstones = Literal["row", "leave-out"]


class FieldWords(TypedDict, total=False):
    """How a record's value, or its key, is decoded.

    - ``{"format": "string"}``: text.
    - ``{"format": "json", "schema": "id BIGINT, at TIMESTAMP"}``: Spark's DDL; or ``schema_file``, a file with it.
    - ``{"format": "avro", "schema_file": "/schemas/order.avsc"}``; or ``schema``, its text. The bytes are one record,
      without a header.
    - ``{"format": "avro", "registry": CONNECTION}`` or ``"json"``: the bytes begin with the five of a schema registry.
      ``version`` is the reader's, by default the newest; ``subjects`` are by default those of the topics; ``schema``
      is for JSON the DDL, if the registry's JSON Schema cannot be one.
    """

    format: Format
    schema: str
    schema_file: str
    registry: str
    version: int
    subjects: Sequence[str]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a registry has a reader's schema."""

    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


@dataclass(frozen=True, slots=True)
class FieldFormat:
    """How a value or a key is decoded, with everything that Spark needs for it.

    :ivar schema: the reader's: Spark's DDL for JSON, Avro's JSON text for Avro.
    :ivar writers: of a registry the text of each schema id; empty where the bytes have no header.
    :ivar origin: of a registry, where the reader's schema is from; Spark does not look at it.
    """

    format: Format
    schema: str | None = None
    writers: Mapping[int, str] = field(default_factory=dict)
    origin: Origin | None = None


ValueAndKey = tuple[FieldFormat | None, FieldFormat | None]


@dataclass(frozen=True, slots=True)
class RowDefinition:
    """How records become rows.

    :ivar value: ``None``: the value stays as bytes; :ivar key: likewise.
    :ivar select: the columns, as Spark SQL; empty: all of the value's, and the key if it is decoded.
    :ivar where: which records become rows; the others are left out, and counted.
    :ivar expect: what must not be false of a row, by name.
    :ivar keys: the columns that identify an entity, where the table has one row for each; empty: each record is a row.
    :ivar delete_when: which records delete their entity.
    :ivar topics: of a topic with schemas of its own, its value and its key.
    """

    value: FieldFormat | None = None
    key: FieldFormat | None = None
    tombstones: Tombstones = "row"
    select: tuple[str, ...] = ()
    where: str | None = None
    expect: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    delete_when: str | None = None
    topics: Mapping[str, ValueAndKey] = field(default_factory=dict)

    def of_topic(self, topic: str | None) -> RowDefinition | None:
        """How records of one topic become rows; ``None``: others have schemas of their own, and this has not."""
        if not self.topics:
            return self
        if topic is None or topic not in self.topics:
            return None
        value, key = self.topics[topic]
        return replace(self, value=value, key=key, topics={})

    @property
    def digest(self) -> str:
        whole = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(whole.encode()).hexdigest()[:32]

    @property
    def object_name(self) -> str:
        """Where it lies in the work store."""
        return object_name(self.digest)

    @property
    def formats(self) -> list[str]:
        return sorted({field.format for field in self.fields.values()})

    @property
    def fields(self) -> dict[str, FieldFormat]:
        """Each field that is decoded: ``value``, ``key``, ``value of <topic>``, ``key of <topic>``."""
        pairs = {"": (self.value, self.key)} | {f" of {topic}": pair for topic, pair in self.topics.items()}
        named = {
            f"{name}{of}": field
            for of, pair in pairs.items()
            for name, field in zip(("value", "key"), pair, strict=True)
        }
        return {name: field for name, field in named.items() if field is not None}

    def to_dict(self) -> dict[str, Any]:
        return {"version": VERSION, **as_json(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RowDefinition:
        """:raises ValueError: it is not one of a version that is known."""
        with reading("a row definition"):
            require_version(data, VERSION, "row definition")
            found: RowDefinition = read_as(cls, data)
        return found


def object_name(digest: str) -> str:
    return f"schemas/{digest}.json"


# ── what a DAG says ───────────────────────────────────────────────────────────────────────────────────────────────────


def problems_of_words(value: Any, key: Any, tombstones: Any, select: Any, where: Any, expect: Any) -> list[str]:
    """What is wrong with them, as far as that is seen without Spark, a file or a registry; each a sentence."""
    found = [*_field_problems("value", value), *_field_problems("key", key)]
    if tombstones not in get_args(Tombstones):
        found.append(f"tombstones is {tombstones!r}; use 'row' (a row of nulls) or 'leave-out'.")
    if isinstance(select, str) or not isinstance(select, Sequence):
        found.append(f'select is {select!r}; give a list: ["value.*"].')
    else:
        for expression in select:
            found += expression_problems(f"select {expression!r}", expression)
    if where is not None:
        found += expression_problems("where", where)
    if not isinstance(expect, Mapping):
        found.append(f'expect is {expect!r}; give names and conditions: {{"amount is positive": "…"}}.')
    else:
        for name, condition in expect.items():
            found += expression_problems(f"expect {name!r}", condition)
    return found


def _field_problems(name: str, words: Any) -> list[str]:
    if words is None:
        return []
    if not isinstance(words, Mapping):
        return [f'{name} is {words!r}; expected words such as {{"format": "json", "schema": "id BIGINT"}}.']
    kind = words.get("format")
    if kind == "protobuf":
        return [
            f"{name} has the format 'protobuf', which is not decoded here: let a job of your own decode it "
            "(application=), as docs/typed-rows.md shows."
        ]
    if kind not in get_args(Format):
        return [f"{name} has the format {kind!r}; use one of {', '.join(get_args(Format))}."]
    found = [
        f"{name} has {word!r}; it takes {', '.join(FieldWords.__annotations__)}."
        for word in sorted(map(str, words.keys() - FieldWords.__annotations__.keys()))
    ]
    where = [word for word in ("schema", "schema_file", "registry") if words.get(word)]
    if kind == "string" and where:
        found.append(f"{name} is a string, which has no schema: leave out {', '.join(where)}.")
    elif kind != "string" and len(where) != 1 and not (kind == "json" and where == ["schema", "registry"]):
        found.append(
            f"{name} has the format {kind!r}: give one of schema (its text), schema_file (a file with it) and registry "
            "(a connection). JSON of a registry may have a schema besides."
        )
    if not words.get("registry") and (extra := sorted({"version", "subjects"} & words.keys())):
        found.append(f"{name} has {', '.join(extra)}, and no registry. Name its connection, or leave that out.")
    version = words.get("version")
    if version is not None and not str(version).isdecimal():
        found.append(f"{name} has the version {version!r}; give its number, or leave it out for the newest.")
    if isinstance(words.get("subjects"), str):
        found.append(f"{name} has the subjects {words['subjects']!r}; give a list.")
    if kind == "avro" and words.get("schema"):
        try:
            avro_record(words["schema"])
        except ValueError as error:
            found.append(f"{name} has a schema that {error}.")
    return found


def avro_record(schema: str) -> dict[str, Any]:
    """An Avro schema's text as JSON.

    :raises ValueError: it is none of a record.
    """
    try:
        found = json.loads(schema)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("type") != "record" or not isinstance(found.get("fields"), list):
        raise ValueError("is not the JSON text of an Avro record; give one with type, name and fields")
    return found


def format_of(name: str, words: FieldWords | None, schema_text: str | None = None) -> FieldFormat | None:
    """A field's format where no registry is asked.

    :param schema_text: what ``schema_file`` has in it.
    :raises InvalidRequest: the file has no schema in it.
    """
    if words is None:
        return None
    schema = schema_text if schema_text is not None else words.get("schema")
    if words["format"] == "avro":
        try:
            avro_record(schema or "")
        except ValueError as error:
            raise InvalidRequest([f"{name} has a schema that {error}."]) from None
    return FieldFormat(words["format"], schema.strip() if schema else None)


# ── bad records: where they are set aside, and how many there may be ──────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Limit:
    """How many of a batch's records may be bad: a number, or a share of its offsets.

    :ivar share: in percent; ``None``: ``count`` is the limit.
    """

    count: int = 0
    share: Decimal | None = None

    def allowed(self, offsets: int) -> int:
        """How many may be bad of a batch with so many offsets."""
        return self.count if self.share is None else int(offsets * self.share / 100)

    def __str__(self) -> str:
        return str(self.count) if self.share is None else f"{self.share:f}%"


def parse_limit(given: Any) -> Limit:
    """``100``, ``"100"`` or ``"0.1%"``; ``None`` is 0.

    :raises ValueError: something else.
    """
    written = "0" if given is None else str(given).strip()
    if re.fullmatch(r"[0-9]{1,18}", written) and not isinstance(given, bool):
        return Limit(int(written))
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%", written)
    if found is None or Decimal(found[1]) > 100:
        raise ValueError(f'has the limit {given!r}; give a number of records such as 100, or a share such as "0.1%"')
    return Limit(share=Decimal(found[1]))


def sink_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """The words without the limit: those of a sink."""
    return {name: value for name, value in words.items() if name != LIMIT}
