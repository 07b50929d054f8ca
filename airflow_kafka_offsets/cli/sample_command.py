"""``sample``: the columns of a topic's JSON, as a DDL to start from. It only reads, joins no group and commits nothing.

The DDL alone goes to standard output, so that ``> orders.ddl`` makes a ``schema_file``.
"""

from __future__ import annotations

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import client_config, parsed
from airflow_kafka_offsets.cli.printing import Answer, Table, columns, harmless
from airflow_kafka_offsets.errors import InvalidRequest, NothingToDiscover
from airflow_kafka_offsets.request.offset_maps import partition_named
from airflow_kafka_offsets.request.subscription import TopicList
from airflow_kafka_offsets.values.json_sample import JsonSample

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
