"""Rows and bad records in tables: who reads both whole sees each record once, whatever the drivers do."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.topic_outputs import of_topic
from airflow_kafka_offsets.stores.objects import create_object
from airflow_kafka_offsets.values.row_definition import RowDefinition
from testbed.broker import KafkaBroker
from testbed.jars import spark_jars as kafka_jars
from testbed.java import Java
from testbed.postgres import PASSWORD, Postgres
from tests.spark.conftest import Plans, committed, planned_anew, proofs, require_read
from tests.spark.rows.conftest import json_rows
from tests.spark.sinks.lab import Failed, Killed, Lab
from tests.spark.sinks.outputs import conf

STRICT = json_rows("id BIGINT, n INT", expect={"n is positive": "value.n > 0"})
MENDED = json_rows("id BIGINT, n INT")
VALUES = [b'{"id":0,"n":1}', b'{"id":1,"n":-1}', b'{"id":2,"n":3}']

Words = Mapping[str, Any]


@pytest.fixture(scope="module")
def make_lab(
    java: Java, spark_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Lab]:
    """`make_lab()`: a driver with all the tables, and Kafka."""
    root = tmp_path_factory.mktemp("tables")
    settings = conf(java, root)
    settings["spark.jars"] = ",".join([settings["spark.jars"], *map(str, kafka_jars(java))])
    secrets = {"spark.kafka_offsets.jdbc.user": "postgres", "spark.kafka_offsets.jdbc.password": PASSWORD}
    return lambda: Lab({**settings, **secrets}, spark_environment, root)


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[], Lab]) -> Iterator[Lab]:
    with make_lab() as running:
        yield running


@pytest.fixture
def batch(plans: Plans, produced: Any) -> StoredBatch:
    for definition in (STRICT, MENDED):
        create_object(plans.store, definition.object_name, definition.to_dict())
    stored: StoredBatch = plans.batch({(produced(VALUES), 0): (0, 3)})
    return stored


@pytest.fixture
def words(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], list[Words]]:
    """`words(kind)`: a table for rows, and one for bad records."""

    def make(kind: str) -> list[Words]:
        name = f"t{uuid.uuid4().hex[:8]}"
        if kind == "delta":
            return [{"format": "delta", "path": f"{tmp_path}/{table}"} for table in ("good", "bad")]
        if kind == "iceberg":
            return [{"format": "iceberg", "table": f"lake.db.{name}_{table}"} for table in ("good", "bad")]
        postgres: Postgres = request.getfixturevalue("postgres")
        return [{"format": "jdbc", "url": postgres.url, "table": f"{name}_{table}"} for table in ("good", "bad")]

    return make


@pytest.fixture
def by_topic(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Words]:
    """`by_topic(kind)`: a table for each topic."""

    def make(kind: str) -> Words:
        if kind == "delta":
            return {"format": "delta", "path": f"{tmp_path}/{{topic}}"}
        if kind == "iceberg":
            return {"format": "iceberg", "table": "lake.db.{topic}"}
        postgres: Postgres = request.getfixturevalue("postgres")
        return {"format": "jdbc", "url": postgres.url, "table": '"{topic}"'}

    return make


def job(plans: Plans, batch: StoredBatch, definition: RowDefinition, sink: Words, **more: Any) -> dict[str, Any]:
    """The command for a driver."""
    return {
        "do": "row_job",
        "argv": [*plans.arguments(batch), "--rows", definition.digest],
        "sink": sink,
        **more,
    }


def offsets(lab: Lab, *outputs: Words) -> list[list[int]]:
    return [[offset for (offset,) in lab.ask("rows_of", words=words)] for words in outputs]


def entities(lab: Lab, by_topic: Words, topic: str) -> list[list[Any]]:
    """What a reader of the topic's table sees, by offset."""
    words = {name: of_topic(word, topic).strip('"') for name, word in by_topic.items() if name != "upsert"}
    columns = "id; offset; coalesce(name, 'null'); CAST(kafka_deleted AS INT)"
    return list(lab.ask("rows_of", words=words, columns=columns))


def ask(lab: Lab, command: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    answers: Sequence[Mapping[str, Any]] = lab.ask(**command)
    return answers


@pytest.mark.parametrize("kind", ["delta", "iceberg", "jdbc"])
def test_each_record_is_in_one_of_two_tables_whichever_driver_comes_late(
    kind: str, plans: Plans, batch: StoredBatch, lab: Lab, words: Callable[[str], list[Words]]
) -> None:
    good, bad = words(kind)
    ask(lab, job(plans, batch, STRICT, good, bad=bad))
    require_read(batch)
    assert offsets(lab, good, bad) == [[0, 2], [1]]
    columns = "offset; reason; CAST(key AS STRING); CAST(value AS STRING)"
    [row] = lab.ask("rows_of", words=bad, columns=columns)
    assert row == [1, "the expectation 'n is positive' is not met", "1", '{"id":1,"n":-1}']
    headers = '[{"key":"n","value":"MQ=="}]'  # in PostgreSQL as text, the bytes in base 64
    shown = "headers" if kind == "jdbc" else "to_json(headers)"
    assert lab.ask("rows_of", words=bad, columns=shown) == [[headers]]

    # A driver sleeps between the tables; a newer one, with a mended definition, finds nothing bad.
    newer = job(plans, batch, MENDED, good, bad=bad)
    with pytest.raises(Failed, match="LateAttempt"):
        ask(lab, job(plans, batch, STRICT, good, bad=bad, between=[newer]))
    assert offsets(lab, bad) == [[]]
    with pytest.raises(ReadNotVerified):
        require_read(batch)

    # Bad records again, and then the DAG has no place for them any more.
    ask(lab, job(plans, batch, STRICT, good, bad=bad))
    assert offsets(lab, good, bad) == [[0, 2], [1]]
    ask(lab, job(plans, batch, MENDED, good))
    require_read(batch)
    assert offsets(lab, good, bad) == [[0, 1, 2], []]


def test_a_driver_that_is_killed_between_two_tables_is_not_committed_and_the_next_puts_both_right(
    plans: Plans,
    batch: StoredBatch,
    lab: Lab,
    make_lab: Callable[[], Lab],
    words: Callable[[str], list[Words]],
) -> None:
    good, bad = words("delta")
    ask(lab, job(plans, batch, STRICT, good, bad=bad))
    with make_lab() as victim, pytest.raises(Killed):
        ask(victim, job(plans, batch, MENDED, good, bad=bad, between="kill"))
    assert offsets(lab, good, bad) == [[0, 1, 2], [1]]  # offset 1 is in both
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    ask(lab, job(plans, batch, MENDED, good, bad=bad))
    require_read(batch)
    assert offsets(lab, good, bad) == [[0, 1, 2], []]


@pytest.mark.parametrize("kind", ["delta", "iceberg", "jdbc"])
def test_rows_of_a_batch_whose_topic_was_made_anew_do_not_keep_its_new_records_away(
    kind: str, plans: Plans, produced: Any, broker: KafkaBroker, lab: Lab, by_topic: Callable[[str], Words]
) -> None:
    """Offsets begin anew, and the batch's number is the same: by both, the rows that are there would be newer."""
    definition = json_rows("id INT, name STRING", keys=("id",))
    create_object(plans.store, definition.object_name, definition.to_dict())
    topic, sink = produced([b"{}", b'{"id":1,"name":"old"}', b'{"id":2,"name":"old"}']), by_topic(kind)
    batch = plans.batch({(topic, 0): (1, 3)})
    ask(lab, job(plans, batch, definition, sink))
    broker.delete_topic(topic)
    produced([b'{"id":1,"name":"new"}'], name=topic)
    batch = planned_anew(batch, plans.plan({(topic, 0): (0, 1)}))
    with pytest.raises(Failed, match="would change none of these rows") as failed:
        ask(lab, job(plans, batch, definition, sink))
    assert f"kafka_batch = '{batch.log.plan.batch.key}'" in str(failed.value)
    for number in (1, 2):
        assert [number, number, "old", 0] in entities(lab, sink, topic)
    lab.ask("set_offsets", words=sink, topic=topic, key=batch.log.plan.batch.key)
    ask(lab, job(plans, batch, definition, sink))
    require_read(batch)
    assert entities(lab, sink, topic) == [[2, -1, "old", 0], [1, 0, "new", 0]]


@pytest.mark.parametrize("kind", ["delta", "iceberg", "jdbc"])
def test_each_topic_has_a_table_of_entities_and_what_is_deleted_stays_deleted(
    kind: str, plans: Plans, produced: Any, lab: Lab, by_topic: Callable[[str], Words]
) -> None:
    definition = json_rows("id INT, op STRING, name STRING", keys=("id",), delete_when="value.op = 'd'")
    create_object(plans.store, definition.object_name, definition.to_dict())
    one = produced([b'{"id":1,"name":"a"}', b'{"id":2,"name":"b"}', b'{"id":1,"op":"d"}', b'{"id":3,"op":"d"}'])
    two = produced([b'{"id":1,"name":"of the other topic"}', None])
    first = plans.batch({(one, 0): (0, 2), (two, 0): (0, 2)})
    second = plans.batch({(one, 0): (2, 4)}, number=2, after=first.log.plan.batch.key, characters="next")
    sink = by_topic(kind)
    ask(lab, job(plans, first, definition, sink))
    require_read(first)
    assert proofs(first) == ["merged"]
    assert [entities(lab, sink, topic) for topic in (one, two)] == [
        [[1, 0, "a", 0], [2, 1, "b", 0]],
        [[1, 0, "of the other topic", 0]],
    ]
    after = [[2, 1, "b", 0], [1, 2, "null", 1], [3, 3, "null", 1]]
    ask(lab, job(plans, second, definition, sink))
    assert entities(lab, sink, one) == after
    ask(lab, job(plans, committed(first), definition, sink))  # once more, after the newer one
    require_read(first)
    assert entities(lab, sink, one) == after


def test_a_split_of_entities_that_a_new_plan_empties_is_verified_and_its_rows_stay(
    plans: Plans, produced: Any, lab: Lab, by_topic: Callable[[str], Words]
) -> None:
    definition = json_rows("id INT, name STRING", keys=("id",))
    create_object(plans.store, definition.object_name, definition.to_dict())
    topic = produced([b'{"id":1,"name":"a"}'])
    batch, sink = plans.batch({(topic, 0): (0, 1)}), by_topic("delta")
    ask(lab, job(plans, batch, definition, sink))
    anew = planned_anew(batch, plans.plan({(topic, 0): (0, 0)}, overwrites=(0,)))
    ask(lab, job(plans, anew, definition, sink))
    require_read(anew)
    assert entities(lab, sink, topic) == [[1, 0, "a", 0]]
