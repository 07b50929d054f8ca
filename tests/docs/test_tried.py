"""Pages tried as a reader tries them, on a real Kafka, Spark and Airflow: their code is run, and their commands.

Only names that a test must not share with another one are replaced: the DAG, the topic, the group, the lake.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import indent
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest
from confluent_kafka import Consumer, TopicPartition

from airflow_kafka_offsets.cli.main import main
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets, rows_of_delta
from testbed.dag_runs import RunResult, load_dag, run_dag
from tests.docs.pages import DOCS, Block, blocks_of, commands


@dataclass
class Reader:
    """Somebody who copies from the pages."""

    dags: Path
    broker: KafkaBroker
    topic: str
    group: str
    lake: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def dag_id(self) -> str:
        return self.topic.replace("-", "_")

    @property
    def file(self) -> Path:
        return self.dags / f"{self.dag_id}.py"

    def own(self, text: str) -> str:
        """The text with names of the test's own."""
        names = {
            "localhost:9092": self.broker.bootstrap_servers,
            "orders_to_lake": self.dag_id,
            "orders_by_my_job": self.dag_id,
            "orders_by_hour": self.dag_id,
            "orders_continued": self.dag_id,
            "\"'orders'\"": f"\"'{self.topic}'\"",
            "@answer.csv": f"@{self.lake}/answer.csv",
            "orders-to-lake": self.group,
            '"orders", f': f'"{self.topic}", f',
            '["orders"]': f'["{self.topic}"]',
            "orders-3:4711": f"{self.topic}-0:3",
            "orders-1:337": f"{self.topic}-0:1",
            "/tmp/lake": str(self.lake),
            '"/lake': f'"{self.lake}',
            "jobs/orders.py": str(self.lake / "orders_job.py"),
        }
        for theirs, own in names.items():
            text = text.replace(theirs, own)
        return text

    def block(self, page: str, having: str) -> Block:
        found = [block for block in blocks_of(DOCS / page) if block.language == "python" and having in block.code]
        return found[0]

    def python(self, page: str, having: str) -> None:
        exec(compile(self.own(self.block(page, having).code), page, "exec"), {"__name__": page})

    def run(
        self, page: str, having: str, at: datetime | None = None, conf: dict[str, Any] | None = None, **other: str
    ) -> RunResult:
        """One run of the page's DAG.

        :param at: when it runs: its data interval is the one that ends then.
        :param conf: of the run.
        :param other: texts that are another one in this run.
        """
        code = self.own(self.block(page, having).code)
        for text, instead in other.items():
            code = code.replace(f'"{text}": 2', f'"{text}": {instead}')
        self.file.write_text(code)
        return run_dag(load_dag(self.file, self.dag_id), logical_date=at, conf=conf)

    def conf(self, page: str, having: str) -> dict[str, Any]:
        """The conf of the page's first command that triggers a run with these words."""
        lines = [line for where, line in commands("airflow") if where.startswith(f"docs/{page}:") and having in line]
        words = shlex.split(self.own(lines[0]))
        conf: dict[str, Any] = json.loads(words[words.index("--conf") + 1])
        return conf

    def command(self, page: str, having: str, status: int = 0) -> str:
        """What the page's first command with these words prints."""
        lines = [
            line for where, line in commands("kafka-offsets") if where.startswith(f"docs/{page}:") and having in line
        ]
        words = shlex.split(self.own(lines[0]))[1:]
        self.capsys.readouterr()
        assert main(words) == status, words
        return self.capsys.readouterr().out

    @property
    def committed(self) -> dict[int, int]:
        return committed_offsets(self.broker, self.group, self.topic)

    def values(self, output: str) -> list[Any]:
        return rows_of_delta(self.lake / output)


@pytest.fixture
def reader(
    airflow: Path, broker: KafkaBroker, topic: Callable[..., str], group: str, tmp_path: Path, capsys: Any
) -> Iterator[Reader]:
    somebody = Reader(airflow / "dags", broker, topic(1, prefix="tried"), group, tmp_path / "lake", capsys)
    somebody.lake.mkdir()
    yield somebody
    somebody.file.unlink(missing_ok=True)


@pytest.mark.slow
def test_the_first_batch_from_the_producer_to_the_lag(reader: Reader) -> None:
    reader.python("first-batch.md", "Producer")
    assert reader.run("first-batch.md", "with DAG(").state == "success"
    assert reader.run("first-batch.md", "with DAG(").states("orders") == ["skipped"]

    assert sorted(row["id"] for row in reader.values("orders")) == [0, 1, 2]
    assert reader.committed == {0: 3}
    assert "committed" in reader.command("first-batch.md", "show")
    assert "0 unread records" in reader.command("first-batch.md", "lag")
    assert reader.topic in reader.command("monitor.md", "show orders_to_lake.orders --offset").replace("\n", "")
    assert reader.command("monitor.md", "audit orders_to_lake.orders")
    assert "SELECT" in reader.command("monitor.md", "--table")


@pytest.mark.slow
def test_a_bad_record_fails_the_batch_and_is_skipped_by_the_conf_of_the_page(reader: Reader) -> None:
    reader.python("first-batch.md", "Producer")
    reader.broker.produce(reader.topic, [(0, None, b"not JSON", None)])
    failed = reader.run("first-batch.md", "with DAG(", retries="0")
    assert failed.states("orders") == ["failed"]
    assert reader.committed == {}

    assert reader.run("first-batch.md", "with DAG(", conf=reader.conf("bad-records.md", "skip")).state == "success"
    assert sorted(row["id"] for row in reader.values("orders")) == [0, 1, 2]
    assert reader.committed == {0: 4}
    assert "no order" in reader.command("first-batch.md", "show")


@pytest.mark.slow
def test_a_late_record_is_in_the_next_window_and_a_window_is_written_again_in_place(reader: Reader) -> None:
    hour, next_hour = (datetime(2026, 11, 20, n, tzinfo=UTC) for n in (10, 11))

    def produce(*times: datetime) -> None:
        records = [(0, None, at.isoformat().encode(), round(at.timestamp() * 1000)) for at in times]
        reader.broker.produce(reader.topic, records)

    def window(start: datetime) -> list[int]:
        assert reader.run("backfill.md", "with DAG(", at=start + timedelta(hours=1)).state == "success"
        return sorted(row["offset"] for row in reader.values("by-hour"))

    produce(hour)
    assert window(hour) == [0]
    produce(hour, next_hour)  # the first one is late
    assert window(next_hour) == [0, 1, 2]
    assert "is in batch 2" in reader.command("backfill.md", "--offset")
    assert window(hour) == [0, 1, 2]


@pytest.mark.slow
def test_a_job_of_the_readers_own_reports(reader: Reader) -> None:
    job = reader.block("existing-dag.md", "for_each_batch").code
    (reader.lake / "orders_job.py").write_text(reader.own(job))
    reader.broker.produce(reader.topic, [(0, None, json.dumps({"id": n}).encode(), None) for n in range(4)])
    group = indent(reader.own(reader.block("existing-dag.md", "--team").code), "    ")
    names = "from airflow.sdk import DAG\nfrom airflow_kafka_offsets import kafka_spark_batch\n"
    reader.file.write_text(f'{names}with DAG("{reader.dag_id}"):\n{group}')
    assert run_dag(load_dag(reader.file, reader.dag_id)).state == "success"
    assert ds.dataset(reader.lake / "orders").count_rows() == 4
    assert reader.committed == {0: 4}


@pytest.mark.slow
def test_a_table_that_another_job_wrote_is_audited_and_continued(reader: Reader) -> None:
    """A consumer by hand has filled it, and lost a record."""
    reader.broker.produce(reader.topic, [(0, None, json.dumps({"id": n}).encode(), None) for n in range(10)])
    consumer = Consumer({**reader.broker.client_config, "group.id": "by-hand", "enable.auto.commit": False})
    consumer.assign([TopicPartition(reader.topic, 0, 0)])
    answer = reader.lake / "answer.csv"
    with duckdb.connect() as database:

        def ask(having: str) -> None:
            query = reader.command("audit.md", having).rstrip().rstrip(";")
            database.execute(f"COPY ({query}) TO '{answer}' (HEADER)")

        database.execute("CREATE SCHEMA lake")
        kafka = 'kafka STRUCT("partition" INT, "offset" BIGINT)'
        database.execute(f"CREATE TABLE lake.orders ({kafka}, ingested_at TIMESTAMP, value BLOB)")
        for message in consumer.consume(6, 30):
            if message.offset() != 2:
                row = [message.partition(), message.offset(), message.value()]
                database.execute("INSERT INTO lake.orders VALUES (row(?, ?), now()::TIMESTAMP, ?)", row)
        consumer.close()
        ask("--table lake.orders --topic")
        assert "5 offsets in 1 partition: 1 lost, 0 never there" in reader.command("audit.md", "--kafka-config-id", 1)

        start = reader.command("audit.md", "--ends").splitlines()[0]
        assert start == f'start=SpecificOffsets({{"{reader.topic}": {{"0": 6}}}}, otherwise="earliest")'
        code = reader.own(reader.block("audit.md", "with DAG(").code)
        copied = 'start=SpecificOffsets({"orders": {"0": 4711}}, otherwise="earliest")'
        reader.file.write_text(code.replace(copied, start))
        assert run_dag(load_dag(reader.file, reader.dag_id)).state == "success"
        rows = reader.values("continued")
        assert sorted(row["id"] for row in rows) == [6, 7, 8, 9]

        database.execute("DROP TABLE lake.orders")
        columns = 'topic TEXT, "partition" INT, "offset" BIGINT, kafka_batch TEXT'
        database.execute(f"CREATE TABLE lake.orders ({columns})")
        of_rows = [[row[name] for name in ("topic", "partition", "offset", "kafka_batch")] for row in rows]
        database.executemany("INSERT INTO lake.orders VALUES (?, ?, ?, ?)", of_rows)
        ask("--batch")
        assert "the table has what the log says" in reader.command("audit.md", "audit orders_to_lake.orders @")
