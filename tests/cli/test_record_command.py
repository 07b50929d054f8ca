"""`record`: one record as Kafka has it, or why there is none there. What Spark makes of it: tests/spark/rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_kafka_offsets.kafka_values import TopicPartition
from testbed.broker import KafkaBroker
from tests.cli.conftest import Say
from tests.cluster.real import RealHands

AT_MS = 1_795_168_800_123
Look = Callable[..., tuple[int, str, str]]


@pytest.fixture
def look(says: Say, at: tuple[str, ...]) -> Look:
    return lambda name, offset, *more: says("record", f"{name}-0:{offset}", *at, *more)


@pytest.fixture
def put(broker: KafkaBroker, topic: Callable[..., str]) -> Callable[..., str]:
    """`put(value, key, headers)`: a topic with this record, behind another one."""

    def one(value: bytes | None, key: bytes | None = None, headers: Any = None) -> str:
        name = topic()
        producer = Producer(broker.client_config)
        producer.produce(name, value=b"another", partition=0, timestamp=AT_MS)
        producer.produce(name, value=value, key=key, headers=headers, partition=0, timestamp=AT_MS)
        assert producer.flush(30) == 0
        return name

    return one


def test_a_record_has_its_time_its_headers_in_their_order_and_its_key(put: Any, look: Look) -> None:
    name = put(b"a text", b"k1", [("trace", b"abc"), ("trace", None), ("raw", b"\xff\x00")])
    assert look(name, 1) == (
        0,
        f"{name}[0] offset 1, 2026-11-20T10:00:00.123Z (CreateTime)\n"
        "header trace: abc\n"
        "header trace: null\n"
        "header raw: 2 bytes that are no UTF-8, in hexadecimal digits: ff00\n"
        "key: k1\n"
        "value: a text\n",
        "",
    )


def test_json_has_a_member_a_line_and_its_numbers_as_they_are_written(put: Any, look: Look) -> None:
    name = put('{"id":1,"amount":12.10,"big":123456789012345678901.50,"a":[],"b":[{"t":"h\\"é, x"}],"id":2}'.encode())
    assert look(name, 1)[1].split("value: ")[1] == (
        '{\n  "id": 1,\n  "amount": 12.10,\n  "big": 123456789012345678901.50,\n  "a": [],\n  "b": [\n    {\n'
        '      "t": "h\\"é, x"\n    }\n  ],\n  "id": 2\n}\n'
    )


@pytest.mark.parametrize(
    ("value", "shown", "field"),
    [
        (None, "null, a tombstone", None),
        (b"", "", {"text": ""}),
        (b"17", "17", {"text": "17"}),
        (b'{"id": ', '{"id": ', {"text": '{"id": '}),
        (b"\xff\xad", "2 bytes that are no UTF-8, in hexadecimal digits: ffad", {"hex": "ffad"}),
        (b"\x1b[31mred", "\\x1b[31mred", {"text": "\x1b[31mred"}),
    ],
)
def test_whatever_a_value_is_a_terminal_shows_it_and_json_has_its_bytes(
    put: Any, look: Look, value: bytes | None, shown: str, field: dict[str, str] | None
) -> None:
    name = put(value)
    status, output, messages = look(name, 1)
    assert (status, messages) == (0, "")
    assert output.endswith(f"key: null\nvalue: {shown}\n")
    status, output, messages = look(name, 1, "--output", "json")
    assert (status, messages) == (0, "")
    assert json.loads(output) == {
        "version": 1,
        "records": [
            {
                "topic": name,
                "partition": 0,
                "offset": 1,
                "timestamp": "2026-11-20T10:00:00.123Z",
                "timestamp_type": "CreateTime",
                "headers": [],
                "key": None,
                "value": field,
            }
        ],
    }


def test_a_spreadsheet_has_the_record_in_one_row(put: Any, look: Look) -> None:
    name = put(b'{"id":1}', b"\xff", [("h", b"1")])
    _, output, _ = look(name, 1, "--output", "csv")
    titles, cells = csv.reader(io.StringIO(output))
    assert titles == ["topic", "partition", "offset", "timestamp", "timestamp type", "headers", "key", "value"]
    assert cells[5:] == ['[{"name": "h", "value": {"text": "1"}}]', "ff", '{"id":1}']


def test_a_record_of_an_aborted_transaction_is_shown_and_the_gap_of_its_end_says_what_is_next(
    broker: KafkaBroker, topic: Callable[..., str], look: Look
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    hands = RealHands(broker)
    aborted = hands.begin_transaction()
    assert aborted.produce(tp, [AT_MS]) == [0]
    aborted.abort()
    committed = hands.begin_transaction()
    assert committed.produce(tp, [AT_MS]) == [2]
    committed.commit()
    assert look(name, 0)[0] == 0
    status, output, messages = look(name, 1)
    assert (status, output) == (1, "")
    assert f"AKO-105 NothingToDiscover: {tp}: offset 1 has no record; the next record has offset 2\n" in messages
    status, output, messages = look(name, 3)
    assert (status, output) == (1, "")
    assert f"{tp}: offset 3 has no record; none follows up to the end 4\n" in messages
    assert "a transaction's end stands there" in messages


def test_a_record_that_retention_removed_is_data_loss_and_says_where_the_log_starts(
    broker: KafkaBroker, topic: Callable[..., str], look: Look
) -> None:
    name = topic()
    RealHands(broker).produce(TopicPartition(name, 0), [AT_MS] * 5)
    broker.delete_records({(name, 0): 3})
    status, output, messages = look(name, 2)
    assert (status, output) == (1, "")
    assert f"AKO-103 DataLoss: {name}[0]: offset 2 is below log start offset 3\n" in messages
    assert look(name, 3)[0] == 0


def test_an_offset_that_is_not_written_yet_names_the_end(put: Any, look: Look) -> None:
    name = put(b"x")
    status, output, messages = look(name, 2)
    assert (status, output) == (1, "")
    assert f"{name}[0]: offset 2 is not written yet: the log ends at 2\n" in messages


def test_a_partition_or_a_topic_that_does_not_exist_is_status_1_and_none_is_created(
    says: Say, at: tuple[str, ...], broker: KafkaBroker, put: Any
) -> None:
    name = put(b"x")
    status, output, messages = says("record", f"{name}-7:0", *at)
    assert (status, output) == (1, "")
    assert f"{name}[7] does not exist" in messages
    status, output, messages = says("record", f"{name}x-0:0", *at)
    assert (status, output) == (1, "")
    assert f"Topic {name}x does not exist" in messages
    assert broker.offset_bounds(f"{name}x") == {}


def test_to_look_joins_no_group_and_commits_nothing(
    says: Say, broker: KafkaBroker, at: tuple[str, ...], put: Any, look: Look
) -> None:
    """The cluster would know the client's group."""
    name = put(b'{"id": 1}')
    admin = broker.admin()

    def groups() -> set[str]:
        return {found.group_id for found in admin.list_consumer_groups().result(30).valid}

    before = groups()
    assert look(name, 1)[0] == 0
    assert says("sample", *at, "--topic", name)[0] == 0
    assert groups() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["orders"], "record is 'orders'; expected <topic>-<partition>:<offset>, such as orders-3:4711."),
        (["orders-3:x"], "record has offset 'x' for orders[3]"),
        (["orders-3:-1"], "negative"),
        (["or ders-3:1"], "record has topic 'or ders'"),
        (["orders-3:1", "--value-format", "json"], "How is the value decoded?"),
        (["orders-3:1", "--value-schema", "id BIGINT"], "How is the value decoded?"),
        (["orders-3:1", "--value-format", "string", "--value-schema", "id BIGINT"], "How is the value decoded?"),
        (
            ["orders-3:1", "--value-format", "json", "--value-schema", "x INT", "--value-schema-file", "/f"],
            "How is the value decoded?",
        ),
        (["orders-3:1", "--value-format", "avro", "--value-schema", "id BIGINT"], "Avro record"),
        (["orders-3:1", "--value-format", "json", "--value-schema-file", "/nonexistent/f"], "cannot be read"),
        (["orders-3:1", "--rows", "0" * 32, "--value-format", "string"], "Give --rows, or --value-format"),
        (["orders-3:1", "--rows", "0" * 32], "has no row definition '000"),
        (["orders-3:1", "--rows", "../../x"], "has no row definition '../../x'"),
    ],
)
def test_a_wrong_request_is_a_sentence_and_asks_no_cluster(
    says: Say, tmp_path: Path, words: list[str], sentence: str
) -> None:
    store = ("--work-store", str(tmp_path))
    status, output, messages = says("record", *words, *store, "--bootstrap-servers", "127.0.0.1:1")
    assert (status, output) == (2, "")
    assert sentence in messages


def test_a_cluster_that_does_not_answer_is_status_3(says: Say) -> None:
    status, output, messages = says("record", "orders-3:1", "--bootstrap-servers", "127.0.0.1:1")
    assert (status, output) == (3, "")
    assert "No Kafka broker answers" in messages
