# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Rows and sinks as a DAG writes them: frozen values, checked when they are built, templates when they are rendered.

::

    rows=Rows(
        value=Json("id BIGINT, amount DECIMAL(10,2), at TIMESTAMP"),
        select=["value.*", "CAST(value.at AS DATE) AS day"],
        where="value.amount IS NOT NULL",
        expect={"amount is positive": "value.amount > 0"},
        ensure={"ids are unique": "count(*) = count(DISTINCT id)"},
        bad=BadRecords(Delta("lake.bad_orders"), limit="0.1%"),
    ),
    sink=Delta("lake.orders", partition_by=["day"], evolve="add"),

Every record of a batch has one fate: it becomes a row, it is bad (with a reason), or it is filtered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_kafka_offsets.rows import checks
from airflow_kafka_offsets.rows.checks import refuse
from airflow_kafka_offsets.templated import Templated

Evolve = Literal["add"]
_OWN_JSON_OPTIONS = {"mode", "columnnameofcorruptrecord"}


class _Checked(Templated):
    """A value that cannot be built wrong."""

    __slots__ = ()

    def __post_init__(self) -> None:
        refuse(self._problems())

    def _problems(self) -> Iterator[str]:
        """Sentences that name a field."""
        yield from ()


@dataclass(frozen=True, slots=True, repr=False)
class Json(_Checked):
    """A JSON object, decoded by Spark's ``from_json``. What that does not read is bad.

    :ivar schema: the columns in Spark's DDL: ``"id BIGINT, at TIMESTAMP"``. Other fields are ignored, and
        so is what follows the object; a field that a record lacks is null.
    :ivar options: of ``from_json``, such as ``{"timestampFormat": "…"}``.
    """

    schema: str
    options: Mapping[str, str | bool] | None = None

    def _problems(self) -> Iterator[str]:
        yield from checks.ddl("Json.schema", self.schema)
        yield from checks.mapping("Json.options", self.options, 'options of from_json: {"timestampFormat": "…"}')
        given = self.options if isinstance(self.options, Mapping) else {}
        for name in given:
            if str(name).lower() in _OWN_JSON_OPTIONS:
                yield f"Json.options has {name!r}, which the job sets itself to find bad records. Leave it out."


@dataclass(frozen=True, slots=True, repr=False)
class Avro(_Checked):
    """An Avro record, decoded by Spark's ``from_avro``. What that does not read to its end is bad.

    - ``Avro(schema)``: the bytes are one record of this schema, without a header.
    - ``Avro(registry="my_registry")``: the bytes begin with the five of Confluent's wire format. Each record is read
      with its writer's schema, and all have the columns of the newest version at planning.
    - ``Avro(schema, registry=…)``: the same, with the columns of this schema.

    :ivar schema: the JSON text of a record.
    :ivar subject: in the registry; ``None``: ``<topic>-value`` or ``<topic>-key`` of each topic.
    :ivar registry: the Airflow connection of the schema registry.
    """

    schema: str | None = None
    subject: str | None = None
    registry: str | None = None

    def _problems(self) -> Iterator[str]:
        yield from checks.avro("Avro.schema", self.schema)
        if self.schema is None and self.registry is None:
            yield "Avro has no schema; give schema= (its JSON text) or registry= (a connection)."
        if self.subject is not None:
            yield from checks.text("Avro.subject", self.subject, "a subject of the registry")
            if self.registry is None:
                yield f"Avro.subject is {self.subject!r} without a registry; give registry= (a connection) as well."
        if self.registry is not None:
            yield from checks.text("Avro.registry", self.registry, "the id of an Airflow connection")


@dataclass(frozen=True, slots=True, repr=False)
class Text(_Checked):
    """Text in UTF-8. Other bytes are bad."""


Format = Json | Avro | Text
"""How a value or a key is decoded. Where nothing is given, it stays as bytes."""


@dataclass(frozen=True, slots=True, repr=False)
class Debezium(_Checked):
    """Debezium's change events, also inside of ``payload``, and tombstones. ``Rows.key`` decodes the keys.

    Rows have the columns of the key, the others of the changed row (null for a delete), ``kafka_op`` (``c``, ``u``,
    ``r``, ``d``, ``t``; null for a tombstone) and ``kafka_source``. With ``merge=``, deletes, tombstones and truncates
    do what they say. An event without a key, with another operation or without its row is bad.

    Expressions see the event as ``value``: ``value.op``, ``value.after.name``, ``value.source.lsn``.

    :ivar format: of the values: ``Json`` with the columns of the table, or ``Avro``.
    :ivar placeholder: what the connector sends for an unchanged value that it does not have
        (``unavailable.value.placeholder``). A merge replaces it by the last known value.
    """

    format: Json | Avro
    placeholder: str = "__debezium_unavailable_value"

    def _problems(self) -> Iterator[str]:
        yield from checks.kind("Debezium.format", self.format, (Json, Avro))
        yield from checks.text("Debezium.placeholder", self.placeholder, "the connector's placeholder")


@dataclass(frozen=True, slots=True, repr=False)
class Delta(_Checked):
    """A Delta table, which is created with the first batch if it does not exist.

    :ivar path_or_table: the table's folder (with ``/``), or its name in the catalog.
    :ivar partition_by: columns of a table that is created.
    :ivar evolve: ``"add"``: the table gets columns and inner fields that the rows have and it lacks. By default such
        rows are refused.
    :ivar keeps_rows: ``False``: others delete rows from the table, so earlier batches are not looked for.
    """

    path_or_table: str
    partition_by: Sequence[str] = ()
    evolve: Evolve | None = None
    keeps_rows: bool = True

    def _problems(self) -> Iterator[str]:
        is_path = isinstance(self.path_or_table, str) and "/" in self.path_or_table
        yield from (checks.path if is_path else checks.table)("Delta.path_or_table", self.path_or_table)
        yield from checks.texts("Delta.partition_by", self.partition_by, '["day"]')
        yield from checks.choice("Delta.evolve", self.evolve, (None, "add"))
        yield from checks.choice("Delta.keeps_rows", self.keeps_rows, (True, False))


@dataclass(frozen=True, slots=True, repr=False)
class Iceberg(_Checked):
    """An Iceberg table, which is created with the first batch if it does not exist.

    :ivar table: catalog, namespace and name.
    :ivar partition_by: columns or transforms, such as ``days(at)``, of a table that is created.
    :ivar evolve: as in :class:`Delta`. :ivar keeps_rows: likewise.
    """

    table: str
    partition_by: Sequence[str] = ()
    evolve: Evolve | None = None
    keeps_rows: bool = True

    def _problems(self) -> Iterator[str]:
        yield from checks.table("Iceberg.table", self.table)
        yield from checks.texts("Iceberg.partition_by", self.partition_by, '["days(at)"]')
        yield from checks.choice("Iceberg.evolve", self.evolve, (None, "add"))
        yield from checks.choice("Iceberg.keeps_rows", self.keeps_rows, (True, False))


SinkConfig = Delta | Iceberg


@dataclass(frozen=True, slots=True, repr=False)
class BadRecords(_Checked):
    """Where bad records go: topic, partition, offset, timestamp, key, value, headers and reason of each.

    :ivar sink: a table of its own.
    :ivar limit: how many records of a batch may be bad, as a count or as a share of its records (``"0.1%"``). A batch
        with more fails. ``None``: any number.
    """

    sink: SinkConfig
    limit: int | str | None = None

    def _problems(self) -> Iterator[str]:
        yield from checks.kind("BadRecords.sink", self.sink, (Delta, Iceberg))
        yield from checks.limit("BadRecords.limit", self.limit)
        if isinstance(self.sink, Delta | Iceberg) and self.sink.evolve:
            yield "BadRecords.sink has evolve; its columns are always the same. Leave it out."


@dataclass(frozen=True, slots=True, repr=False)
class Rows(_Checked):
    """How records become rows.

    Expressions are Spark SQL over ``key``, ``value``, ``topic``, ``partition``, ``offset``, ``timestamp`` and
    ``headers`` of one record, in ANSI mode and UTC. One that raises fails the batch: write ``try_cast`` or
    ``try_divide`` where a record may not fit. Rows also have topic, partition, offset and ``kafka_batch``.

    :ivar value: how the value is decoded; :ivar key: how the key is decoded. :class:`Debezium` is for values alone.
    :ivar select: the columns. ``None``: those of the value, and ``key`` if it is decoded.
    :ivar where: records for which this is false or null are filtered.
    :ivar expect: conditions by name. A record for which one is false is bad; null passes.
    :ivar ensure: conditions on all rows together: ``"count(*) > 0"``. If one is false, nothing is committed.
    :ivar bad: where bad records go. ``None``: the first bad record fails the batch.
    """

    value: Format | Debezium | None = None
    key: Format | None = None
    select: Sequence[str] | None = None
    where: str | None = None
    expect: Mapping[str, str] | None = None
    ensure: Mapping[str, str] | None = None
    bad: BadRecords | None = None

    def _problems(self) -> Iterator[str]:
        kinds = (Json, Avro, Text)
        if self.value is not None:
            yield from checks.kind("Rows.value", self.value, (*kinds, Debezium))
        if isinstance(self.value, Debezium):
            yield from checks.kind("Rows.key", self.key, (Json, Avro))
        elif self.key is not None:
            yield from checks.kind("Rows.key", self.key, kinds)
        if self.select is not None:
            yield from checks.texts("Rows.select", self.select, '["value.*", "CAST(value.at AS DATE) AS day"]')
            if isinstance(self.select, list | tuple) and not self.select:
                yield "Rows.select is empty; leave it out to get all columns of the value."
        if self.where is not None:
            yield from checks.condition("Rows.where", self.where)
        examples = {"expect": "value.amount > 0", "ensure": "count(*) = count(DISTINCT id)"}
        for field, example in examples.items():
            given = getattr(self, field)
            yield from checks.mapping(f"Rows.{field}", given, f"conditions by name: {{'what it means': '{example}'}}")
            for name, condition in given.items() if isinstance(given, Mapping) else ():
                yield from checks.condition(f"Rows.{field}[{name!r}]", condition)
        if self.bad is not None:
            yield from checks.kind("Rows.bad", self.bad, (BadRecords,))


@dataclass(frozen=True, slots=True, repr=False)
class Merge(_Checked):
    """An entity table: one row per key, updated after each commit. It is a query over the sink's table: of each
    key the last row, without deleted keys.

    :ivar table: a table, or a folder of Delta's; of the sink's format. It is created if it does not exist.
    :ivar keys: the columns that identify a row.
    :ivar delete_when: a condition over a row of the sink's table, for which its key is deleted: ``"op = 'd'"``.
        Default: nothing is; for ``Debezium``, its deletes and tombstones.
    :ivar order_by: expressions over a row that say which one of a key is the last, such as
        ``["kafka_source.lsn"]``. Default: the later batch, and in it the higher offset; then all records of a key must
        be in one partition, and batches in sequence.
    """

    table: str
    keys: Sequence[str]
    delete_when: str | None = None
    order_by: Sequence[str] = ()

    def _problems(self) -> Iterator[str]:
        is_path = isinstance(self.table, str) and "/" in self.table
        yield from (checks.path if is_path else checks.table)("Merge.table", self.table)
        yield from checks.texts("Merge.keys", self.keys, '["id"]')
        if isinstance(self.keys, list | tuple) and not self.keys:
            yield "Merge.keys is empty; name the columns that identify a row."
        if self.delete_when is not None:
            yield from checks.text("Merge.delete_when", self.delete_when, "a Spark SQL condition")
        yield from checks.texts("Merge.order_by", self.order_by, '["kafka_source.lsn"]')
