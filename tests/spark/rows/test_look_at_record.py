"""`kafka-offsets record` says what a pipeline makes of a record, and the DDL of `sample` reads what was sampled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.spark.kafka_source import KAFKA_COLUMNS
from airflow_kafka_offsets.spark.row_frames import row_frames
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.objects import create_object
from airflow_kafka_offsets.values.json_sample import JsonSample
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition
from testbed.broker import KafkaBroker
from tests.spark.rows.conftest import SCHEMA, json_rows, order

Look = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def look(spark: SparkSession, broker: KafkaBroker, capfd: pytest.CaptureFixture[str]) -> Look:
    """`look(topic, offset, …)`: exit status, what JSON has of the record, messages; in the session's Spark."""

    def call(topic: str, offset: int, *words: str) -> tuple[int, Any, str]:
        capfd.readouterr()
        at = ("--bootstrap-servers", broker.bootstrap_servers, "--output", "json")
        status = main(["record", f"{topic}-0:{offset}", *at, *words])
        output, messages = capfd.readouterr()
        return status, json.loads(output)["records"][0] if output else None, messages

    return call


def fate(found: tuple[int, Any, str]) -> tuple[int, str, str | None, Any]:
    status, record, _ = found
    return status, record["fate"], record["reason"], record["row"]


def test_by_a_pipelines_row_definition_a_record_has_the_fate_that_it_has_there(
    look: Look, produced: Any, tmp_path: Path
) -> None:
    definition = json_rows(
        select=("value.*", "CAST(key AS STRING) AS k", "timestamp > TIMESTAMP'2020-01-01' AS is_new"),
        where="value.kind = 'order'",
        expect={"amount is positive": "value.amount > 0"},
        tombstones="leave-out",
    )
    create_object(LocalStore(tmp_path), definition.object_name, definition.to_dict())
    by = ("--rows", definition.digest, "--work-store", str(tmp_path))
    topic = produced([order(0, "12.50"), b"no json", order(2, -1), order(3, kind="refund"), None])
    row = {"id": 0, "amount": 12.5, "kind": "order", "k": "0", "is_new": True}
    assert fate(look(topic, 0, *by)) == (0, "row", None, {**row, "topic": topic, "partition": 0, "offset": 0})
    assert fate(look(topic, 1, *by)) == (0, "set aside", "the value is not JSON of this schema", None)
    assert fate(look(topic, 2, *by)) == (0, "set aside", "the expectation 'amount is positive' is not met", None)
    assert fate(look(topic, 3, *by)) == (0, "left out", None, None)
    assert fate(look(topic, 4, *by)) == (0, "left out", None, None)


def test_by_a_format_and_a_schema_of_ones_own(look: Look, produced: Any, tmp_path: Path) -> None:
    topic = produced([order(0), b'{"id": "x"}', None, b"\xff"])
    ddl = tmp_path / "orders.ddl"
    ddl.write_text(f"{SCHEMA}\n")
    by_file = ("--value-format", "json", "--value-schema-file", str(ddl))
    for words in (("--value-format", "json", "--value-schema", SCHEMA), by_file):
        assert fate(look(topic, 1, *words)) == (0, "set aside", "the value is not JSON of this schema", None)
    place = {"topic": topic, "partition": 0, "offset": 2}
    nothing = {"id": None, "amount": None, "kind": None}
    assert fate(look(topic, 2, *by_file)) == (0, "row", None, {**nothing, **place})
    assert fate(look(topic, 3, "--value-format", "string")) == (0, "set aside", "the value is no valid UTF-8", None)


def test_avro_is_decoded_by_its_schema(look: Look, produced: Any) -> None:
    topic = produced([b"\x0e", b""])
    avro = json.dumps({"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]})
    words = ("--value-format", "avro", "--value-schema", avro)
    assert fate(look(topic, 0, *words)) == (0, "row", None, {"id": 7, "topic": topic, "partition": 0, "offset": 0})
    assert fate(look(topic, 1, *words)) == (0, "set aside", "the value is not Avro of this schema", None)


def test_a_schema_that_spark_does_not_read_is_a_wrong_request(look: Look, produced: Any) -> None:
    topic = produced([order(0)])
    status, record, messages = look(topic, 0, "--value-format", "json", "--value-schema", "id BIGINTS")
    assert (status, record) == (2, None)
    assert "value has a schema that Spark does not read" in messages


def outside(
    broker: KafkaBroker, topic: str, environment: Mapping[str, str], *more: str
) -> subprocess.CompletedProcess[str]:
    code = "import sys; from airflow_kafka_offsets.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["record", f"{topic}-0:0", "--bootstrap-servers", broker.bootstrap_servers, "--value-format", "string"]
    call = [sys.executable, "-c", code, *words, *more]
    return subprocess.run(call, env=environment, capture_output=True, text=True, check=False)


def test_at_a_terminal_a_spark_is_started_and_standard_output_has_the_record_alone(
    broker: KafkaBroker, produced: Any, spark_environment: Mapping[str, str]
) -> None:
    topic = produced([b"a text"])
    done = outside(broker, topic, {**os.environ, **spark_environment})
    assert done.returncode == 0, done.stderr
    shown = {"value": "a text", "topic": topic, "partition": 0, "offset": 0}
    assert done.stdout.endswith(f"\nvalue: a text\ndecoded: row: {json.dumps(shown, indent=2)}\n")
    assert done.stdout.startswith(f"{topic}[0] offset 0, ")


def test_without_java_or_without_pyspark_it_says_what_is_missing_and_the_bytes_need_neither(
    broker: KafkaBroker, produced: Any, spark_environment: Mapping[str, str], tmp_path: Path
) -> None:
    topic = produced([b"a text"])
    bare = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    done = outside(broker, topic, {**bare, "PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no Java on this worker" in done.stderr
    (tmp_path / "pyspark.py").write_text("raise ImportError('No module named pyspark')\n")
    done = outside(broker, topic, {**os.environ, **spark_environment, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert "PySpark cannot be imported: No module named pyspark. Install it: " in done.stderr


def test_a_spark_that_does_not_start_is_said_without_a_traceback(
    broker: KafkaBroker, produced: Any, spark_environment: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Xmx1m\n")
    topic = produced([b"a text"])
    done = outside(broker, topic, {**os.environ, **spark_environment, "SPARK_CONF_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert "kafka-offsets: AKO-001 InvalidRequest: Spark does not start here: " in done.stderr
    assert "Traceback" not in done.stderr


TIMES = (
    "2026-11-20T10:00:00Z",
    "2026-11-20 10:00:00",
    "2026-11-20T10:00:00.5+01:00",
    "2026-11-20T10:00:00.123456Z",
    "2026-11-20T10:00:00",
)
SAMPLED: list[dict[str, Any]] = [
    {"id": 1, "amount": 1, "at": TIMES[0], "nested": {"a b": [1], "deep": [{"x": True}]}, "none": None, "empty": {}},
    {"id": 2**63 - 1, "amount": 2.5, "at": TIMES[1], "mixed": 1, "big": 2**63, "nested": {}},
    {"id": -1, "amount": 1e300, "at": TIMES[2], "mixed": {"y": [1]}, "big": 1, "nested": {"deep": []}, "list": []},
    {"at": TIMES[3], "mixed": [1, "x"], "text": "2026-11-20", "list": [None], "order": "a reserved word", "c`d": 1},
    {"at": TIMES[4], "mixed": "x", "empty": {}, "select": 1, "Ünï": "x"},
]


def test_the_ddl_of_a_sample_reads_every_value_of_it_and_makes_nothing_null(spark: SparkSession) -> None:
    values = [json.dumps(value).encode() for value in SAMPLED]
    sample = JsonSample()
    for value in values:
        sample.add(value, "")
    records = spark.createDataFrame(
        [(None, value, "orders", 0, number, None, 0) for number, value in enumerate(values)], KAFKA_COLUMNS
    )
    frames = row_frames(records, RowDefinition(value=FieldFormat("json", sample.ddl)))
    assert frames.rest.collect() == []
    rows = [row.asDict() for row in frames.rows.orderBy("offset").collect()]
    for value, row in zip(SAMPLED, rows, strict=True):
        assert {name for name in value if value[name] is not None} == {
            name for name in row if row[name] is not None and name not in ("topic", "partition", "offset")
        }
    assert {name: rows[2][name] for name in ("id", "amount", "mixed", "big")} == {
        "id": -1,
        "amount": 1e300,
        "mixed": '{"y":[1]}',
        "big": "1",
    }
