"""Kafka's bytes → columns, and for each record why it is bad, if it is. Spark's own functions decode.

What this must not do: raise on a record. Spark's functions say *bad* in different ways: ``from_json`` fills a column
with what it could not read, and gives null for an empty text; ``from_avro`` gives a struct of nulls, so the reader's
schema has one more field, whose default is true where a record was read at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.sinks.sink_contract import quoted
from airflow_kafka_offsets.values.row_definition import FieldFormat, avro_record

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

RAW = {"value": "kafka_raw_value", "key": "kafka_raw_key"}
BAD = {"value": "kafka_bad_value", "key": "kafka_bad_key"}
_DECODED = {"value": "kafka_decoded_value", "key": "kafka_decoded_key"}
_CORRUPT = "kafka_corrupt"
_MARKER = "kafka_is_decoded"
_HEADER = 5  # of a registry: a zero and the schema's id


def decoded(records: DataFrame, value: FieldFormat | None, key: FieldFormat | None) -> DataFrame:
    """The records with ``value`` and ``key`` decoded, their bytes in :data:`RAW`, and in :data:`BAD` why they are bad.

    :param value: ``None``: the bytes stay.
    :raises InvalidRequest: a schema is none, or Spark lacks the package of a format.
    """
    from pyspark.sql import functions as f

    formats = {name: given for name, given in (("value", value), ("key", key)) if given is not None}
    others = [f.col(quoted(name)) for name in records.columns if name not in RAW]
    raw = [f.col(name).alias(RAW[name]) for name in RAW]
    spark = records.sparkSession
    bare = records.select(*others, *raw)
    readers = {name: _Reader(spark, name, given) for name, given in formats.items()}
    # The condition is always true. An expression that is not deterministic is computed once, where it stands: else
    # Spark decodes again for each column, and for each filter that it moves down.
    once = f.expr("spark_partition_id() >= 0")
    with_decoded = bare.select(
        "*", *(f.when(once, reader.decoded()).alias(_DECODED[name]) for name, reader in readers.items())
    )
    columns = [f.col(quoted(column)) for column in bare.columns]
    for name in RAW:
        reader = readers.get(name)
        columns.append((f.col(RAW[name]) if reader is None else reader.value()).alias(name))
        columns.append((f.lit(None).cast("string") if reader is None else reader.problem()).alias(BAD[name]))
    return with_decoded.select(*columns)


class _Reader:
    """Decodes one field."""

    def __init__(self, spark: SparkSession, name: str, given: FieldFormat) -> None:
        self.name, self.given = name, given
        self.schema = _schema_of(spark, name, given) if given.format == "json" else None

    def decoded(self) -> Column:
        """Evaluated once a record."""
        from pyspark.sql import functions as f

        body = f.col(RAW[self.name])
        if self.given.writers:
            body = f.substring(body, _HEADER + 1, 2**31 - 1)
        if self.given.format == "string":
            return body.cast("string")
        if self.given.format == "json":
            options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "timeZone": "UTC"}
            assert self.schema is not None
            return f.from_json(body.cast("string"), _with_corrupt(self.schema), options)
        return self._avro(body)

    def value(self) -> Column:
        """What the user's expressions see."""
        from pyspark.sql import functions as f

        found = f.col(_DECODED[self.name])
        if self.given.format == "string":
            return found
        extra = _CORRUPT if self.given.format == "json" else _MARKER
        return f.when(f.col(RAW[self.name]).isNotNull(), found.dropFields(extra))

    def problem(self) -> Column:
        """Why the bytes are bad, in words; null where they are not."""
        from pyspark.sql import functions as f

        raw, found = f.col(RAW[self.name]), f.col(_DECODED[self.name])
        reasons: list[tuple[Column, Column]] = []
        if self.given.writers:
            known = sorted(self.given.writers)
            reasons += [
                (~_has_header(raw), f.lit(f"the {self.name} does not begin with a schema registry's five bytes")),
                (
                    ~_schema_id(raw).isin(known),
                    f.concat(
                        f.lit(f"the {self.name} has the schema id "),
                        _schema_id(raw).cast("string"),
                        f.lit(", which no version of the subjects has"),
                    ),
                ),
            ]
        if self.given.format == "string":
            reasons.append((~f.call_function("is_valid_utf8", found), f.lit(f"the {self.name} is no valid UTF-8")))
        elif self.given.format == "json":
            assert self.schema is not None
            reasons += [
                (found.isNull(), f.lit(f"the {self.name} is empty, and not JSON")),
                (found[_CORRUPT].isNotNull(), f.lit(f"the {self.name} is not JSON of this schema")),
                *_never_null(self.name, found, self.schema),
            ]
        else:
            bad = found.isNull() | found[_MARKER].isNull()
            reasons.append((bad, f.lit(f"the {self.name} is not Avro of this schema")))
        first = f.coalesce(*(f.when(condition, words) for condition, words in reasons))
        return f.when(raw.isNotNull(), first)

    def _avro(self, body: Column) -> Column:
        from pyspark.sql import functions as f
        from pyspark.sql.avro.functions import from_avro

        reader = _with_marker(self.given.schema or "")
        options = {"mode": "PERMISSIVE", "avroSchema": reader}
        if not self.given.writers:
            return from_avro(body, self.given.schema or "", options)
        found: Any = f
        schema_id = _schema_id(f.col(RAW[self.name]))
        for number, writer in sorted(self.given.writers.items()):
            found = found.when(schema_id == number, from_avro(body, writer, options))
        return found  # type: ignore[no-any-return]  # there is one writer at least


def _has_header(raw: Column) -> Column:
    from pyspark.sql import functions as f

    return (f.length(raw) >= _HEADER) & (f.substring(raw, 1, 1) == f.lit(b"\0"))


def _schema_id(raw: Column) -> Column:
    from pyspark.sql import functions as f

    return f.when(_has_header(raw), f.conv(f.hex(f.substring(raw, 2, 4)), 16, 10).cast("bigint"))


def _with_corrupt(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([*schema.fields, StructField(_CORRUPT, StringType())])


def _with_marker(reader: str) -> str:
    schema = avro_record(reader)
    marker = {"name": _MARKER, "type": "boolean", "default": True}
    return json.dumps({**schema, "fields": [*schema["fields"], marker]})


def _schema_of(spark: SparkSession, name: str, given: FieldFormat) -> StructType:
    """:raises InvalidRequest: it is no DDL of columns."""
    from pyspark.errors import PySparkException

    try:
        return spark.createDataFrame([], given.schema or "").schema
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidRequest(
            [f'{name} has a schema that Spark does not read: {first} Give columns such as "id BIGINT, at TIMESTAMP".']
        ) from None


def _never_null(name: str, parent: Column, schema: StructType) -> Iterator[tuple[Column, Column]]:
    """What is wrong where the schema says NOT NULL: Spark itself reads null where a field is missing."""
    from pyspark.sql import functions as f

    for field in schema.fields:
        path, found = f"{name}.{field.name}", parent.getField(field.name)
        if not field.nullable:
            yield parent.isNotNull() & found.isNull(), f.lit(f"{path} is null, and the schema has it as NOT NULL")
        if _is_struct(field.dataType):
            yield from _never_null(path, found, field.dataType)  # type: ignore[arg-type]  # just looked at


def _is_struct(kind: DataType) -> bool:
    from pyspark.sql.types import StructType

    return isinstance(kind, StructType)
