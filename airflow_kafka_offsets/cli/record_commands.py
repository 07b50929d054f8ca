"""``record`` and ``sample``: look at records. They only read, join no group and commit nothing.

The bytes are what Kafka has. What a pipeline makes of them is said by Spark alone, where it can be started.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.records import Record
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.local_spark import local_spark
from airflow_kafka_offsets.cli.option_values import client_config, saved_text, work_store
from airflow_kafka_offsets.cli.printing import Answer, Column, Table, columns, harmless
from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, NothingToDiscover
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.request.offset_maps import partition_named, record_named
from airflow_kafka_offsets.request.problems import parsed
from airflow_kafka_offsets.request.subscription import PartitionSet, TopicList
from airflow_kafka_offsets.request.times import iso
from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.values.json_sample import JsonSample
from airflow_kafka_offsets.values.row_definition import FieldWords, RowDefinition, format_of, object_name

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def record(options: Options) -> Answer:
    """One record as Kafka has it, and what a row definition makes of it."""
    asked = options["record"]
    tp, offset = parsed("record", lambda: record_named(asked, f"is {asked!r}"))
    definition = _definition(options)
    with KafkaCluster(client_config(options)) as cluster:
        found = _record_at(cluster, tp, offset)
    row = _row(found)
    names = ["topic", "partition", "offset", "timestamp", "timestamp_type"]
    shown = [
        *columns(*names),
        _as_json("headers"),
        _as_text("key"),
        _as_text("value"),
    ]
    if definition is not None:
        row |= decoded_record(found, definition)
        shown += [*columns("fate", "reason"), _as_json("row")]
    text = harmless(_in_words(found, row)) if (options.get("output") or "table") == "table" else None
    return Answer([Table(shown, [row], "records")], text=text)


def _record_at(cluster: KafkaCluster, tp: TopicPartition, offset: int) -> Record:
    """:raises NothingToDiscover: the topic, the partition or the record does not exist.
    :raises DataLoss: it is gone.
    """
    cluster.describe(PartitionSet((tp,)))
    end = cluster.end_offsets([tp], "read_uncommitted")[tp].offset
    if offset >= end:
        raise NothingToDiscover(
            [f"{tp}: offset {offset} is not written yet: the log ends at {end}"],
            "Name an offset below that. kafka-offsets partitions shows both ends of each partition.",
        )
    found = dict(cluster.records_from({tp: offset}, 1))[tp]
    if found and found[0].offset == offset:
        return found[0]
    start = cluster.log_start_offsets([tp])[tp]
    if offset < start:
        raise DataLoss(
            [f"{tp}: offset {offset} is below log start offset {start}"],
            "Retention or DeleteRecords removed it from Kafka. Name an offset from there on.",
        )
    following = f"the next record has offset {found[0].offset}" if found else f"none follows up to the end {end}"
    raise NothingToDiscover(
        [f"{tp}: offset {offset} has no record; {following}"],
        "Compaction removed it, or a transaction's end stands there. Name another offset.",
    )


def _definition(options: Options) -> RowDefinition | None:
    """How the record is to be decoded; ``None``: not at all.

    :raises InvalidRequest: it is not clear how, or the work store does not have it.
    """
    digest, value_format = options.get("rows"), options.get("value_format")
    schemas = {name: given for name in ("value_schema", "value_schema_file") if (given := options.get(name))}
    if digest is not None and (value_format or schemas):
        raise InvalidRequest(("Give --rows, or --value-format with its schema, not both.",))
    if digest is not None:
        store = work_store(options)
        is_digest = re.fullmatch("[0-9a-f]{32}", digest)
        found = read_object(store, object_name(digest), RowDefinition.from_dict) if is_digest else None
        if found is None:
            raise InvalidRequest(
                (
                    f"The work store {store.uri} has no row definition {digest!r}. Give the digest behind --rows in "
                    "the Spark task's log, or the one that kafka-offsets show prints.",
                )
            )
        return found
    if value_format is None and not schemas:
        return None
    if len(schemas) != (value_format in ("json", "avro")):
        raise InvalidRequest(
            (
                "How is the value decoded? Give --value-format string alone, or --value-format json or avro with "
                "--value-schema or --value-schema-file.",
            )
        )
    assert value_format is not None  # there would be a schema, and it needs one of two formats
    words: FieldWords = {"format": value_format, "schema": schemas.get("value_schema", "")}
    file = schemas.get("value_schema_file")
    return RowDefinition(format_of("value", words, saved_text("--value-schema-file", file) if file else None))


def _row(found: Record) -> dict[str, Any]:
    return {
        "topic": found.topic_partition.topic,
        "partition": found.topic_partition.partition,
        "offset": found.offset,
        "timestamp": None if found.timestamp_ms is None else iso(found.timestamp_ms),
        "timestamp_type": found.timestamp_type,
        "headers": [{"name": name, "value": _field(value)} for name, value in found.headers],
        "key": _field(found.key),
        "value": _field(found.value),
    }


def _field(data: bytes | None) -> dict[str, str] | None:
    """Text where it is UTF-8, else hexadecimal digits."""
    if data is None:
        return None
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def _as_text(name: str) -> Column:
    return Column(name, words=lambda row: None if row[name] is None else "".join(row[name].values()))


def _as_json(name: str) -> Column:
    return Column(name, words=lambda row: None if row[name] is None else json.dumps(row[name]))


def _in_words(found: Record, row: Mapping[str, Any]) -> str:
    at = f"{row['timestamp']} ({row['timestamp_type']})" if row["timestamp"] else "no timestamp"
    lines = [f"{found.topic_partition} offset {found.offset}, {at}"]
    lines += [f"header {name}: {_shown(value)}" for name, value in found.headers]
    lines += [f"key: {_shown(found.key)}", f"value: {_shown(found.value, tombstone=True)}"]
    if "fate" in row:
        what = row["reason"] or (json.dumps(row["row"], indent=2, ensure_ascii=False) if row["row"] else "")
        lines.append(f"decoded: {row['fate']}{': ' * bool(what)}{what}")
    return "\n".join(lines)


def _shown(data: bytes | None, *, tombstone: bool = False) -> str:
    field = _field(data)
    if data is None or field is None:
        return "null, a tombstone" if tombstone else "null"
    if "hex" in field:
        return f"{len(data)} bytes that are no UTF-8, in hexadecimal digits: {field['hex']}"
    return _indented(field["text"])


def _indented(text: str) -> str:
    """JSON with a member a line, and each name and number as it is written; other text stays as it is."""
    try:
        is_nested = isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return text
    if not is_nested:
        return text
    parts: list[str] = []
    depth, before = 0, ""
    for token in _TOKEN.findall(text):
        depth -= token in ("}", "]")
        is_closed_at_once = before in ("{", "[") and token in ("}", "]")
        if before in ("{", "[", ",") or token in ("}", "]"):
            parts.append("" if is_closed_at_once else "\n" + "  " * depth)
        elif before == ":":
            parts.append(" ")
        parts.append(token)
        depth += token in ("{", "[")
        before = token
    return "".join(parts)


# ── sample: the columns of a topic's JSON, as a DDL to start from ─────────────────────────────────────────────────────
# The DDL alone goes to standard output, so that ``> orders.ddl`` makes a ``schema_file``.


_RECORDS, _MOST_RECORDS = 100, 10_000
_START_OF_VALUE = 100


def sample(options: Options) -> Answer:
    """The columns of a topic's JSON values, by the newest records of each partition."""
    topic, count = options.get("topic"), options.get("records")
    if topic is None:
        raise InvalidRequest(("Which topic? Give --topic.",))
    parsed("--topic", lambda: partition_named(topic, 0))
    count = _RECORDS if count is None else count
    if not 1 <= count <= _MOST_RECORDS:
        raise InvalidRequest((f"--records is {count}; give a number from 1 to {_MOST_RECORDS}.",))
    seen = JsonSample()
    with KafkaCluster(client_config(options)) as cluster:
        partitions = cluster.describe(TopicList((topic,))).partitions()
        ends = {tp: end.offset for tp, end in cluster.end_offsets(partitions, "read_uncommitted").items()}
        starts = cluster.log_start_offsets(partitions)
        wanted = {tp: max(starts[tp], ends[tp] - count) for tp in partitions if starts[tp] < ends[tp]}
        records = 0
        for tp, found in cluster.records_from(wanted, count):
            records += len(found)
            for one in found:
                seen.add(one.value, f"{tp}: offset {one.offset}")
    said = _said(seen, f"{records} records of topic {topic}")
    if not seen.ddl:
        raise NothingToDiscover(
            [f"There is no DDL to start from: {said[0]}", *said[1:]],
            "Look at one record: kafka-offsets record TOPIC-PARTITION:OFFSET.",
        )
    facts = {
        "topic": topic,
        "records": records,
        "json_objects": seen.objects,
        "tombstones": seen.tombstones,
        "others": seen.others,
        "schema_ids": {str(number): seen.schema_ids[number] for number in sorted(seen.schema_ids)},
        "ddl": seen.ddl,
        "notes": said,
    }
    rows = [{"name": name, "type": kind, "seen": seen_in} for name, kind, seen_in in seen.columns]
    text = harmless(seen.ddl) if (options.get("output") or "table") == "table" else None
    return Answer([Table(columns("name", "type", "seen"), rows, "columns")], facts, text=text, messages=said)


def _said(seen: JsonSample, of_what: str) -> list[str]:
    said = [
        f"of {of_what}, JSON objects: {seen.objects}, tombstones: {seen.tombstones}, others: {seen.others}",
        *seen.notes,
    ]
    if seen.first_other is not None:
        where, value, why = seen.first_other
        start = value[:_START_OF_VALUE].decode(errors="replace")
        more = "…" * (len(value) > _START_OF_VALUE)
        said.append(f"the first that is no JSON object is at {where}: it {why}: {start!r}{more}")
    if seen.schema_ids:
        ids = ", ".join(f"{number} in {count}" for number, count in sorted(seen.schema_ids.items()))
        said.append(
            f"{seen.schema_ids.total()} values begin with a schema registry's five bytes (schema id {ids}): their "
            'schema is in the registry, and value={"format": …, "registry": CONNECTION} reads it there'
        )
    return said


# ── what a row definition makes of one record: Spark decodes it here, by the code of the pipeline's job ───────────────


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decoded_record(record: Record, definition: RowDefinition) -> dict[str, Any]:
    """``fate`` is ``row``, ``set aside`` or ``left out``; with the ``reason``, and the ``row``, where there is one.

    :raises InvalidRequest: there is no Spark here, or it does not take the definition.
    """
    of_topic = definition.of_topic(record.topic_partition.topic)
    if of_topic is None:
        topics = ", ".join(sorted(definition.topics))
        raise InvalidRequest((f"That row definition has the topics {topics}: give the one of a batch of this topic.",))
    spark = local_spark(of_topic.formats, "--rows and --value-format decode", "then the record is shown as it is")
    from pyspark.sql import functions as f

    from airflow_kafka_offsets.spark.kafka_source import KAFKA_COLUMNS
    from airflow_kafka_offsets.spark.report import LEFT_OUT, ROW, SET_ASIDE
    from airflow_kafka_offsets.spark.row_frames import REASON, check_definition, row_frames

    check_definition(spark, of_topic)
    frames = row_frames(spark.createDataFrame([_as_spark_has_it(record)], KAFKA_COLUMNS), of_topic)
    as_json = f.to_json(f.struct("*"), {"ignoreNullFields": "false"})
    if found := frames.rows.select(as_json).collect():
        return {"fate": ROW, "reason": None, "row": json.loads(found[0][0])}
    reason = frames.rest.select(REASON).collect()[0][0]
    return {"fate": SET_ASIDE if reason else LEFT_OUT, "reason": reason or None, "row": None}


def _as_spark_has_it(record: Record) -> tuple[Any, ...]:
    at = None if record.timestamp_ms is None else _EPOCH + timedelta(milliseconds=record.timestamp_ms)
    kind = {"CreateTime": 0, "LogAppendTime": 1}.get(record.timestamp_type or "", -1)
    return record.key, record.value, *record.topic_partition, record.offset, at, kind
