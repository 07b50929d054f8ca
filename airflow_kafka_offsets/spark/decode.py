# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Kafka's bytes → columns, by Spark's own decoders, and for each record why it is bad.

Each decoder is asked once per record. What a user's expressions see as ``value`` and ``key`` is taken from its answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_kafka_offsets.spark.sinks.columns import quoted
from airflow_kafka_offsets.spark.store import major_version

RAW = {"value": "kafka_raw_value", "key": "kafka_raw_key"}
_DECODED = {"value": "kafka_decoded_value", "key": "kafka_decoded_key"}
_CORRUPT = "kafka_corrupt_record"
_HEADER = 5  # Confluent's wire format: a zero, and the schema's id

# ``from_avro`` makes a row of nulls of a record that it cannot read, and passes over bytes behind one that it can. So
# these bytes are written behind each record and read as its last field: they come back only if all the rest was read.
_END, _END_BYTES = "kafka_end", b"\xe9kafka\x1b\xa7"

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.json.enablePartialResults": "true",  # where one field does not decode, the others are there
}
"""What the meaning of a record depends on. The job's session has these values, whatever the cluster's defaults are."""


class Decoder:
    """Decodes the value, or the key, of records.

    :param name: ``value`` or ``key``.
    :param given: its member in the job object; ``None``: it stays as bytes.
    :param is_in_payload: JSON whose fields may also be inside of a field ``payload``.
    """

    def __init__(
        self, records: DataFrame, name: str, given: Mapping[str, Any] | None, *, is_in_payload: bool = False
    ) -> None:
        self.name, self.given = name, given or {"format": "bytes"}
        self.raw, self.decoded = RAW[name], _DECODED[name]
        self.is_in_payload = is_in_payload and self.given["format"] == "json"
        self._is_spark_3 = major_version(records.sparkSession) < 4

    def decode(self) -> Column:
        """From the bytes: what :meth:`seen` and :meth:`reasons` look at."""
        match self.given["format"]:
            case "json":
                schema = f"{self.given['schema']}, {_CORRUPT} STRING"
                options = {"timeZone": "UTC", **self.given["options"]}
                options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
                decoded = f.from_json(f.col(self.raw).cast("string"), schema, options)
            case "avro":
                decoded = self._avro()
            case "text":
                decoded = f.col(self.raw).cast("string")
            case _:
                decoded = f.col(self.raw)
        return decoded.alias(self.decoded)

    def seen(self) -> Column:
        """The value or the key as expressions see it."""
        decoded = f.col(self.decoded)
        inner = {"json": _CORRUPT, "avro": _END}.get(self.given["format"])
        if inner is not None and self.is_in_payload:
            decoded = f.coalesce(decoded["payload"], decoded.dropFields(inner, "payload"))
        elif inner is not None:
            decoded = decoded.dropFields(inner)
        return decoded.alias(self.name)

    def reasons(self, of: StructType) -> Iterator[Column]:
        """Why a record is bad, in words; null where it is not. A record without a value is never bad.

        :param of: the columns of a frame with what :meth:`decode` makes.
        """
        kind, raw, decoded = self.given["format"], self.raw, self.decoded
        if kind in ("json", "text"):
            text = f"CAST({raw} AS STRING)"
            valid = f"decode({raw}, 'UTF-8') = {text}" if self._is_spark_3 else f"is_valid_utf8({text})"
            wrong = f"CASE WHEN NOT {valid} THEN 'the {self.name} is not valid UTF-8' END"
            if kind == "json":  # only a record of which some text may be such is looked at as a whole
                replaced = [
                    has for name, has in _parts(_has_replacement, of[decoded].dataType, decoded) if name != _CORRUPT
                ]
                wrong = f"CASE WHEN {' OR '.join(replaced) or 'false'} THEN {wrong} END"
            yield f.expr(wrong)
        if kind == "json":
            bad = f"{decoded} IS NULL OR {decoded}.{_CORRUPT} IS NOT NULL"
            yield f.expr(
                f"CASE WHEN {raw} IS NOT NULL AND ({bad}) THEN 'the {self.name} is not JSON of the schema' END"
            )
            for field, is_late in _parts(_is_beyond_9999, of[decoded].dataType, decoded):
                words = f"the {self.name} has a time after the year 9999: {field}. JSON numbers are read as seconds"
                yield f.when(f.expr(is_late), words)
        if kind == "avro" and self.given["by_id"]:
            known, number = ", ".join(self.given["by_id"]), _ID.format(raw)
            yield f.expr(
                f"CASE WHEN {raw} IS NOT NULL AND {number} IS NULL "
                f"THEN 'the {self.name} does not begin with the five bytes of a schema registry' "
                f"WHEN {number} NOT IN ({known}) "
                f"THEN concat('the {self.name} has schema id ', {number}, ', which is no record of its subject') END"
            )
        if kind == "avro":
            is_whole = f"{decoded}.{_END} <=> X'{_END_BYTES.hex()}'"
            yield f.expr(
                f"CASE WHEN {raw} IS NOT NULL AND NOT {is_whole} THEN 'the {self.name} is not Avro of the schema' END"
            )

    def misfit(self, of: StructType) -> Column:
        """The first field of a JSON object that did not decode, and the type that it does not have; else empty.

        :param of: the columns of a frame with what :meth:`decode` makes. A field in it is null if it did not decode.
        """
        if self.given["format"] != "json":
            return f.lit("")
        schema = of[self.decoded].dataType
        assert isinstance(schema, StructType)
        types = {field.name: field.dataType.simpleString() for field in schema}
        texts = f.col(self.raw).cast("string"), f.to_json(self.decoded)
        given, decoded = (f.from_json(text, "MAP<STRING, STRING>") for text in texts)
        names = f.map_keys(f.map_filter(given, lambda _, value: value.isNotNull()))
        known = f.create_map(*(f.lit(word) for pair in types.items() for word in pair))
        name = f.get(f.array_intersect(f.array_except(names, f.map_keys(decoded)), f.map_keys(known)), f.lit(0))
        return f.coalesce(f.concat(f.lit(": "), name, f.lit(" is not "), known[name]), f.lit(""))

    def _avro(self) -> Column:
        from pyspark.sql.avro.functions import from_avro

        by_id = self.given["by_id"] or {}
        body = f"substring({self.raw}, {_HEADER + 1})" if by_id else self.raw
        whole = f.expr(f"concat({body}, X'{_END_BYTES.hex()}')")
        options = {
            "mode": "PERMISSIVE",
            "datetimeRebaseMode": "CORRECTED",
            "avroSchema": _with_end(self.given["schema"]),
        }
        if not by_id:
            return from_avro(whole, options["avroSchema"], options)
        texts = ((number, from_avro(whole, _with_end(text), options)) for number, text in by_id.items())
        return f.coalesce(*(f.when(f.expr(f"{_ID.format(self.raw)} = {number}"), column) for number, column in texts))


def _parts(
    test: Callable[[DataType, str], str | None], kind: DataType, column: str, name: str = ""
) -> Iterator[tuple[str, str]]:
    """Each part of a value that has a test, by its name, and the condition that it has some such value there.

    :param test: of a type and a column, a condition; ``None``: no such value is of the type.
    """
    match kind:
        case StructType():
            for field in kind:
                yield from _parts(test, field.dataType, f"{column}.{quoted(field.name)}", f"{name}.{field.name}")
        case ArrayType():
            for inner, condition in _parts(test, kind.elementType, "kafka_item", name):
                yield inner, f"exists({column}, kafka_item -> {condition})"
        case MapType():
            yield from _parts(test, ArrayType(kind.keyType), f"map_keys({column})", name)
            yield from _parts(test, ArrayType(kind.valueType), f"map_values({column})", name)
        case _ if found := test(kind, column):
            yield name.removeprefix("."), found


def _is_beyond_9999(kind: DataType, column: str) -> str | None:
    """It is a time that no calendar has, such as milliseconds make."""
    if not isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return None
    return f"{column} > CAST('9999-12-31 23:59:59.999999' AS {kind.simpleString()})"


def _has_replacement(kind: DataType, column: str) -> str | None:
    """It may have had bytes that are no UTF-8: Spark's decoder puts U+FFFD in their place."""
    if isinstance(kind, StringType):
        return f"contains({column}, '\ufffd')"
    return f"contains(to_json({column}), '\ufffd')" if kind.typeName() == "variant" else None


_ID = (
    f"CASE WHEN length({{0}}) >= {_HEADER} AND substring({{0}}, 1, 1) = X'00' "
    "THEN CAST(conv(hex(substring({0}, 2, 4)), 16, 10) AS BIGINT) END"
)


def _with_end(text: str) -> str:
    schema = json.loads(text)
    fixed = {"type": "fixed", "name": _END, "namespace": "airflow_kafka_offsets", "size": len(_END_BYTES)}
    return json.dumps({**schema, "fields": [*schema["fields"], {"name": _END, "type": fixed}]})
