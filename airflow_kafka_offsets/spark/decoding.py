"""Kafka's bytes → columns, and for each record why it is bad, if it is. Spark's own functions decode.

What this must not do: raise on a record, or pass over a part of one. Spark's functions stop where a record ends, and do
not say that bytes come after it. So an end is written into each record, as its last field. Where Spark does not read
this end, the bytes are no record of the schema.

Nearly all records are good, so what is asked of each one is as little as possible:

- the end has a short name, and goes before the object's last brace, because a struct around it costs twice as much;
- it is written by a projection of its own. Spark compiles that, and does not compile what stands inside ``from_json``;
- what the bytes were is not asked any more once they are decoded. So Spark need not copy them.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.values.row_definition import REGISTRY_HEADER, FieldFormat, avro_record
from airflow_kafka_offsets.values.sql_text import quoted

RAW = {"value": "kafka_raw_value", "key": "kafka_raw_key"}
BAD = {"value": "kafka_bad_value", "key": "kafka_bad_key"}
_TEXT = {"value": "kafka_text_value", "key": "kafka_text_key"}
_DECODED = {"value": "kafka_decoded_value", "key": "kafka_decoded_key"}
_CORRUPT, _END = "kafka_corrupt", "kafka_end"
_END_OF_JSON = secrets.token_hex(3)  # another one in each process: no record has it, with something behind its object
_NOT_UTF8 = "u"
_BLANKS = " \t\r\n"  # what JSON allows around an object
_END_OF_AVRO = b"\xe9kafka\x1b\xa7"
_START_OF_REASON = 200  # Spark's reasons go on with the whole schema


def decoded(records: DataFrame, value: FieldFormat | None, key: FieldFormat | None) -> DataFrame:
    """The records with ``value`` and ``key`` decoded, their bytes in :data:`RAW`, and in :data:`BAD` why they are bad.

    :param value: ``None``: the bytes stay.
    :raises InvalidRequest: a schema is none, or Spark lacks the package of a format.
    """
    formats = {name: given for name, given in (("value", value), ("key", key)) if given is not None}
    others = [f.col(quoted(name)) for name in records.columns if name not in RAW]
    raw = [f.col(name).alias(RAW[name]) for name in RAW]
    spark = records.sparkSession
    bare = records.select(*others, *raw)
    readers = {name: _Reader(spark, name, given) for name, given in formats.items()}
    with_decoded = bare
    for name in formats:
        with_decoded = readers[name].read(with_decoded)
    columns = [f.col(quoted(column)) for column in bare.columns]
    for name in RAW:
        reader = readers.get(name)
        columns.append((f.col(RAW[name]) if reader is None else reader.value()).alias(name))
        columns.append((f.lit(None).cast("string") if reader is None else reader.problem()).alias(BAD[name]))
    return with_decoded.select(*columns)


class _Reader:
    """Decodes one field."""

    def __init__(self, spark: SparkSession, name: str, given: FieldFormat) -> None:
        self.spark, self.name, self.given = spark, name, given
        self.schema = _schema_of(spark, name, given) if given.format == "json" else None
        taken = () if self.schema is None else self.schema.names
        self.end, self.corrupt = _free("e", taken), _free(_CORRUPT, taken)

    def read(self, records: DataFrame) -> DataFrame:
        """:raises InvalidRequest: Spark does not take the schema, or lacks the package of the format."""
        from py4j.protocol import Py4JJavaError

        # The condition is always true. An expression that is not deterministic is computed once, where it stands: else
        # Spark decodes again for each column, and for each filter that it moves down.
        once = f.expr("spark_partition_id() >= 0")
        if self.schema is not None:
            records = records.withColumn(_TEXT[self.name], f.when(once, f.expr(self._with_end())))
        try:
            return records.withColumn(_DECODED[self.name], f.when(once, self._decoded()))
        except (ValueError, PySparkException) as error:
            raise _unreadable(self.name, str(error)) from None
        except Py4JJavaError as error:  # Avro's own
            raise _unreadable(self.name, error.java_exception.toString()) from None
        except TypeError as error:
            if "JavaPackage" not in str(error):
                raise
            version = self.spark.version
            raise InvalidRequest(
                [f"Spark cannot decode Avro: name its package, such as org.apache.spark:spark-avro_2.13:{version}."]
            ) from None

    def _decoded(self) -> Column:
        if self.given.format == "avro":
            return self._avro(f.expr(f"concat({self._body}, {_binary(_END_OF_AVRO)})"))
        if self.schema is None:
            return f.expr(f"CASE WHEN {_is_utf8(self.spark, self._body)} THEN {_text(self._body)} END")
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": self.corrupt, "timeZone": "UTC"}
        return f.from_json(f.col(_TEXT[self.name]), _with(self.schema, self.end, self.corrupt), options)

    def _with_end(self) -> str:
        """The object with its end. Where the bytes do not end as an object does, an object that is cut off."""
        body, end = self._body, _binary(f',"{self.end}":"{_END_OF_JSON}"}}')
        whole = ", ".join(
            f"CASE WHEN substring({text}, -1, 1) = {_binary('}')} "
            f"THEN concat(substring({text}, 1, length({text}) - 1), {end}) END"
            for text in (body, f"CAST(rtrim({_text(_binary(_BLANKS))}, {_text(body)}) AS BINARY)")
        )
        object_or_start = _text(f"coalesce({whole}, {_binary('{')})")
        not_utf8 = _text(_binary(f'{{"{self.end}":"{_NOT_UTF8}"}}'))
        is_utf8 = _is_utf8(self.spark, body)
        return f"CASE WHEN {is_utf8} THEN {object_or_start} WHEN {body} IS NOT NULL THEN {not_utf8} END"

    @property
    def _body(self) -> str:
        """The bytes without a registry's header."""
        raw = RAW[self.name]
        return f"substring({raw}, {REGISTRY_HEADER + 1})" if self.given.writers else raw

    def value(self) -> Column:
        """What the user's expressions see."""
        found = f.col(_DECODED[self.name])
        if self.given.format == "string":
            return found
        return found.dropFields(self.end, self.corrupt) if self.given.format == "json" else found.dropFields(_END)

    def problem(self) -> Column:
        """Why the bytes are bad, in words; null where they are not."""
        found = f.col(_DECODED[self.name])
        lacking = () if self.schema is None else _never_null(self.name, self.schema)
        return f.coalesce(
            f.expr(f"CASE {' '.join(f'WHEN {condition} THEN {words}' for condition, words in self._reasons())} END"),
            *(
                f.when(is_lacking(found), f.lit(f"{path} is null, and the schema has it as NOT NULL"))
                for path, is_lacking in lacking
            ),
        )

    def _reasons(self) -> Iterator[tuple[str, str]]:
        """In SQL: a condition, and the words if it is true."""
        name, raw, found = self.name, RAW[self.name], _DECODED[self.name]
        if self.given.writers:
            known = ", ".join(map(str, sorted(self.given.writers)))
            yield f"NOT {_has_header(raw)}", f"'the {name} does not begin with the five bytes of a schema registry'"
            yield (
                f"{_schema_id(raw)} NOT IN ({known})",
                f"concat('the {name} has the schema id ', {_schema_id(raw)}, ', which no version of the subjects has')",
            )
        not_utf8 = f"'the {name} is no valid UTF-8'"
        if self.given.format == "string":
            yield f"{raw} IS NOT NULL AND {found} IS NULL", not_utf8
        elif self.schema is not None:
            end, corrupt = f"{found}.{self.end}", f"{found}.{self.corrupt}"
            blanks, empty = _text(_binary(_BLANKS)), f'{{,"{self.end}":"{_END_OF_JSON}"}}'  # with a comma too many
            is_whole = (
                f"{end} <=> '{_END_OF_JSON}' AND {corrupt} IS NULL OR translate({corrupt}, {blanks}, '') <=> '{empty}'"
            )
            yield f"{found} IS NOT NULL AND {end} <=> '{_NOT_UTF8}'", not_utf8
            yield f"{found} IS NOT NULL AND NOT ({is_whole})", f"'the {name} is not JSON of this schema'"
        else:
            end_of_avro = _binary(_END_OF_AVRO)
            yield (
                f"{raw} IS NOT NULL AND NOT {found}.{_END} <=> {end_of_avro}",
                f"'the {name} is not Avro of this schema'",
            )

    def _avro(self, body: Column) -> Column:
        from pyspark.sql.avro.functions import from_avro

        reader = _with_end_of_avro(self.given.schema or "")
        options = {"mode": "PERMISSIVE", "avroSchema": reader}
        if not self.given.writers:
            return from_avro(body, reader, options)
        by_writer = (
            f.when(
                f.expr(f"{_schema_id(RAW[self.name])} = {number}"),
                from_avro(body, _with_end_of_avro(writer), options),
            )
            for number, writer in sorted(self.given.writers.items())
        )
        return f.coalesce(*by_writer)


def _binary(text: str | bytes) -> str:
    """A literal in SQL. As digits it needs no quotes."""
    return f"X'{(text.encode() if isinstance(text, str) else text).hex()}'"


def _text(binary: str) -> str:
    return f"CAST({binary} AS STRING)"


def _has_header(raw: str) -> str:
    return f"(length({raw}) >= {REGISTRY_HEADER} AND substring({raw}, 1, 1) = {_binary(bytes(1))})"


def _schema_id(raw: str) -> str:
    return f"CASE WHEN {_has_header(raw)} THEN CAST(conv(hex(substring({raw}, 2, 4)), 16, 10) AS BIGINT) END"


def _is_utf8(spark: SparkSession, found: str) -> str:
    """Java decodes bytes that are no character to U+FFFD, and does so quickly; where there is none, all are valid."""
    text = _text(found)
    is_valid = (
        f"is_valid_utf8({text})" if int(spark.version.partition(".")[0]) >= 4 else f"decode({found}, 'utf-8') = {text}"
    )
    return f"(size(split({text}, '\ufffd', 2)) = 1 OR {is_valid})"


def _with(schema: StructType, *names: str) -> StructType:
    return StructType([*schema.fields, *(StructField(name, StringType()) for name in names)])


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, made longer where a column has it; Spark's names have no case."""
    lower = {column.lower() for column in taken}
    while name in lower:
        name += "_"
    return name


def _with_end_of_avro(text: str) -> str:
    """The schema of a record with eight bytes behind it, in a namespace of their own: those of records differ."""
    schema = avro_record(text)
    fixed = {"type": "fixed", "name": _END, "namespace": "airflow_kafka_offsets", "size": len(_END_OF_AVRO)}
    return json.dumps({**schema, "fields": [*schema["fields"], {"name": _END, "type": fixed}]})


def _schema_of(spark: SparkSession, name: str, given: FieldFormat) -> StructType:
    """:raises InvalidRequest: it is no DDL of columns."""
    from py4j.protocol import Py4JJavaError

    text = given.schema or ""
    try:
        found: StructType = spark.createDataFrame([], text).schema
    except PySparkException as error:
        raise _unreadable(name, str(error)) from None
    except Py4JJavaError as error:  # CHAR(3), VARCHAR(50)
        raise _unreadable(name, error.java_exception.getMessage()) from None
    if found.names == ["value"] and not re.match(r"\s*(struct\s*<)?\s*`?value\b", text, re.IGNORECASE):
        raise _unreadable(name, f"{text!r} is a type without a column.")  # Spark makes the column "value" of it
    return found


def _unreadable(name: str, reason: str) -> InvalidRequest:
    first = " ".join(reason.split())[:_START_OF_REASON]
    return InvalidRequest(
        [
            f"{name} has a schema that Spark does not read: {first} Give columns such as "
            '"id BIGINT, at TIMESTAMP", or for Avro the JSON text of a record.'
        ]
    )


def _never_null(path: str, kind: DataType) -> Iterator[tuple[str, Callable[[Column], Column]]]:
    """What the schema has as NOT NULL, and how to see of a value of this type that it lacks that.

    Spark itself reads null where a field is missing.
    """
    if isinstance(kind, StructType):
        for field in kind.fields:
            if not field.nullable:
                yield f"{path}.{field.name}", partial(_is_null_in, field.name)
            for inner, is_lacking in _never_null(f"{path}.{field.name}", field.dataType):
                yield inner, partial(_of_field, field.name, is_lacking)
    elif isinstance(kind, ArrayType | MapType):
        element = kind.valueType if isinstance(kind, MapType) else kind.elementType
        for inner, is_lacking in _never_null(f"{path}[]", element):
            yield inner, partial(_of_some_element, is_lacking, isinstance(kind, MapType))


def _is_null_in(field: str, parent: Column) -> Column:
    return parent.isNotNull() & parent.getField(field).isNull()


def _of_field(field: str, is_lacking: Callable[[Column], Column], parent: Column) -> Column:
    return is_lacking(parent.getField(field))


def _of_some_element(is_lacking: Callable[[Column], Column], is_map: bool, parent: Column) -> Column:
    return f.exists(f.map_values(parent) if is_map else parent, lambda element: is_lacking(element))
