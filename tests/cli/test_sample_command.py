"""`sample`: a DDL to start from, on standard output alone. The guesses themselves: tests/values/test_json_sample.py."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from testbed.broker import KafkaBroker
from tests.cli.conftest import Say


def test_the_ddl_goes_to_standard_output_and_what_is_a_guess_to_standard_error(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], at: tuple[str, ...]
) -> None:
    name = topic(3)
    values = [(0, b'{"id": 1, "at": "2026-11-20T10:00:00Z"}'), (1, b'{"id": "x"}'), (1, None), (0, b"no json")]
    broker.produce(name, [(partition, "k", value, None) for partition, value in values])
    status, output, messages = says("sample", *at, "--topic", name)
    assert (status, output) == (0, "id STRING,\nat TIMESTAMP\n")
    assert f"of 4 records of topic {name}, JSON objects: 2, tombstones: 1, others: 1\n" in messages
    assert "id has several types (BIGINT in 1, STRING in 1): STRING keeps the text of each\n" in messages
    first = f"the first that is no JSON object is at {name}[0]: offset 1: it is no JSON: "
    assert first in messages
    assert messages.endswith(": 'no json'\n")


def test_only_the_newest_of_each_partition_are_looked_at(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], at: tuple[str, ...]
) -> None:
    name = topic(2)
    old = [(number % 2, None, b'{"old": 1}', None) for number in range(40)]
    broker.produce(name, [*old, *((partition, None, b'{"new": 1}', None) for partition in (0, 1, 0, 1))])
    status, output, _ = says("sample", *at, "--topic", name, "--records", "2", "--output", "json")
    found = json.loads(output)
    assert (status, found["version"], found["topic"], found["records"]) == (0, 1, name, 4)
    assert (found["ddl"], found["columns"]) == ("new BIGINT", [{"name": "new", "type": "BIGINT", "seen": 4}])
    assert says("sample", *at, "--topic", name, "--records", "3", "--output", "csv")[1] == (
        "name,type,seen\nold,BIGINT,2\nnew,BIGINT,4\n"
    )


def test_many_partitions_are_all_looked_at(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], at: tuple[str, ...]
) -> None:
    name = topic(23)
    broker.produce(name, [(number, None, json.dumps({f"f{number}": number}), None) for number in range(23)])
    _, output, _ = says("sample", *at, "--topic", name)
    assert output.count("BIGINT") == 23


def test_values_of_a_schema_registry_are_said_to_be_so(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], at: tuple[str, ...]
) -> None:
    name = topic()
    broker.produce(name, [(0, None, b"\0\0\0\0\7\2\4avro", None)])
    status, output, messages = says("sample", *at, "--topic", name)
    assert (status, output) == (1, "")
    assert "There is no DDL to start from" in messages
    assert "1 values begin with a schema registry's five bytes (schema id 7 in 1)" in messages


def test_a_topic_without_records_and_one_that_does_not_exist_are_status_1(
    says: Say, topic: Callable[..., str], at: tuple[str, ...]
) -> None:
    name = topic(2)
    status, output, messages = says("sample", *at, "--topic", name)
    assert (status, output) == (1, "")
    assert f"There is no DDL to start from: of 0 records of topic {name}" in messages
    status, output, messages = says("sample", *at, "--topic", f"{name}x")
    assert (status, output) == (1, "")
    assert f"Topic {name}x does not exist" in messages


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Which topic? Give --topic."),
        (["--topic", "or ders"], "--topic has topic 'or ders'"),
        (["--topic", "orders", "--records", "0"], "--records is 0; give a number from 1 to 10000."),
        (["--topic", "orders", "--records", "10001"], "--records is 10001"),
    ],
)
def test_a_wrong_request_is_a_sentence_and_asks_no_cluster(says: Say, words: list[str], sentence: str) -> None:
    status, output, messages = says("sample", *words, "--bootstrap-servers", "127.0.0.1:1")
    assert (status, output) == (2, "")
    assert sentence in messages
