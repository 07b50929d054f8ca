"""A log of batches with its table, the entity table that is merged from it, and the query that it has to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from airflow_kafka_offsets.spark.history import Commit, commits
from airflow_kafka_offsets.spark.merge import merge_batches
from airflow_kafka_offsets.spark.sinks import plain_sink
from airflow_kafka_offsets.spark.sinks.table import TableSink
from tests.docs.pages import DOCS, blocks_of
from tests.spark.plans import PlannedBatch
from tests.spark.sinks.outputs import Output

UNKNOWN = "__debezium_unavailable_value"
COLUMNS = "offset BIGINT, id STRING, kafka_op STRING, name STRING, doc STRING, lsn BIGINT, partition INT, topic STRING"


def record(
    offset: int,
    id: str | None,
    name: str | None,
    op: str | None = None,
    doc: str | None = "-",
    lsn: int | None = None,
    partition: int = 0,
    topic: str = "orders",
) -> tuple[Any, ...]:
    """A row of the log table; without a name, a delete."""
    return (offset, id, op or ("d" if name is None else "u"), name, doc, lsn, partition, topic)


@dataclass
class KeyedBatch(PlannedBatch):
    """A batch of one of several logs, whose keys end differently."""

    ending: str = "0123456789ab"
    base: int = 0

    @property
    def key(self) -> str:
        return f"{self.number + self.base:010}-{self.ending}"

    @property
    def is_committed(self) -> bool:
        return any(self.read(f"{k}.json")["entry"] == "commit" for k in range(1, self.entries + 1))


@dataclass
class Log:
    """Batches of pipeline `orders`, written and committed without Kafka."""

    spark: SparkSession
    folder: Path
    kind: str
    keys: Sequence[str] = ("id",)
    order_by: Sequence[str] = ()
    delete_when: str | None = "kafka_op IS NULL OR kafka_op = 'd'"
    truncate_when: str | None = "kafka_op = 't'"
    placeholder: str | None = UNKNOWN
    batches: dict[int, KeyedBatch] = field(default_factory=dict)
    job_uri: str = ""
    ending: str = "0123456789ab"
    bases: Sequence[int] = (0,)
    adopted: dict[str, str] = field(default_factory=dict)

    @property
    def job(self) -> dict[str, Any]:
        words = {"delete_when": self.delete_when, "truncate_when": self.truncate_when, "placeholder": self.placeholder}
        merge = {"sink": self.sink_at("customers"), "keys": [*self.keys], "order_by": [*self.order_by], **words}
        return {"output": self.output, "sink": self.sink_at("log"), "rows": None, "merge": merge}

    @property
    def output(self) -> str:
        return f"{self.kind}:log"

    @property
    def sink(self) -> TableSink:
        return self._plain("log", self.output)

    @property
    def table(self) -> TableSink:
        return self._plain("customers")

    def write(self, number: int, records: Sequence[tuple[Any, ...]] | DataFrame) -> KeyedBatch:
        """Spark writes a batch, once more if it was committed, and nobody has committed it yet."""
        if number not in self.batches:
            more = {"bases": [*self.bases], "adopted": self.adopted}
            batch = KeyedBatch(
                self.folder / "checkpoint", "nowhere:1", "orders", number, ending=self.ending, base=self.bases[-1]
            )
            batch.plan({("orders", 0): (0, 100)}, **more)
            self.batches[number] = batch
            self.job_uri = batch.job(self.job)
        batch = self.batches[number]
        if isinstance(records, list):
            records = self.spark.createDataFrame(records, COLUMNS)
        attempt = len(batch.names("begun")) + 1
        batch.begun(attempt, self.output)
        Output(self.spark, self.sink).write(batch.key, records, attempt=attempt)
        return batch

    def commit(self, number: int, records: Sequence[tuple[Any, ...]] | DataFrame) -> str:
        """A whole run up to its commit. Returns the key of the batch."""
        batch = self.write(number, records)
        self.commit_written(number)
        return batch.key

    def commit_written(self, number: int) -> None:
        batch = self.batches[number]
        version = next(c.place[0] for c in commits(self.spark, self.sink) if c.batch == batch.key)
        rows = self.spark.table(self.sink.name).where(f"kafka_batch = '{batch.key}'").count()
        attempt = len(batch.names("begun"))
        batch.append("commit", output=self.output, snapshot=str(version), rows=rows, attempt=attempt)

    def replan(self, number: int) -> None:
        """The run of a committed batch is cleared: its batch is about to be written again."""
        plan = self.batches[number].read("1.json")
        self.batches[number].append("plan", **{name: plan[name] for name in plan if name not in ("version", "entry")})

    def merge(self, number: int | None = None, spark: SparkSession | None = None) -> list[int]:
        """The merge task of the run that has this batch; the numbers of the batches that it has merged."""
        batch = self.batches[number or max(self.batches)]
        merged = merge_batches(spark or self.spark, batch.arguments(self.job_uri, entry=1))
        return [int(key[:10]) - self.bases[-1] for key in merged]

    def differences(self, *, at_receipt: bool = False) -> list[Row]:
        """What the entity table has and Q(the log table) has not, and the other way round.

        :param at_receipt: of the log table as it was merged last, not as it is.
        """
        left_out = {batch.key for batch in self.batches.values() if not batch.is_committed}
        version = ""
        if at_receipt:
            receipt = next(c.receipt for c in self.entity_commits if c.receipt)
            version, left_out = f"VERSION AS OF {receipt['read'][0]}", set(receipt["open"])
        names = ", ".join(f"'{key}'" for key in sorted(left_out)) or "''"
        log = f"(SELECT * FROM {self.sink.name} {version} WHERE kafka_batch NOT IN ({names}))"
        wanted = self.spark.sql(view(log, "lsn, kafka_batch, `partition`, offset" if self.order_by else ""))
        found = self.entity_rows.select(*wanted.columns)
        return wanted.exceptAll(found).collect() + found.exceptAll(wanted).collect()

    def restore(self, back: int = 1) -> None:
        """The entity table becomes what it was so many merges ago."""
        versions = [c.place[0] for c in self.entity_commits if c.receipt]
        if self.kind == "delta":
            self.spark.sql(f"RESTORE TABLE {self.table.name} TO VERSION AS OF {versions[back]}")
        else:
            name = self.table.name.partition(".")[2]
            self.spark.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {versions[back]})")

    def compact(self) -> None:
        """The log table's small files become one."""
        if self.kind == "delta":
            self.spark.sql(f"OPTIMIZE {self.sink.name}")
        else:
            name = self.sink.name.partition(".")[2]
            self.spark.sql(f"CALL lake.system.rewrite_data_files('{name}', options => map('rewrite-all', 'true'))")

    @property
    def entity_commits(self) -> list[Commit]:
        return [*commits(self.spark, self.table)]

    @property
    def entity_rows(self) -> DataFrame:
        rows = self.table.read(self.spark)
        assert rows is not None
        return rows

    @property
    def rows(self) -> list[Row]:
        return self.entity_rows.collect()

    @property
    def entities(self) -> dict[str, str]:
        """By id, the name."""
        rows = self.rows
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["name"] for row in rows}

    def _plain(self, name: str, output: str | None = None) -> TableSink:
        return plain_sink(self.sink_at(name), output)

    def sink_at(self, name: str) -> dict[str, Any]:
        place: dict[str, Any] = {"format": self.kind, "path": f"{self.folder}/{name}", "table": None}
        if self.kind == "iceberg":
            place |= {"path": None, "table": f"lake.db.{self.folder.name.replace('-', '_')}_{name}"}
        return {**place, "partition_by": [], "evolve": "add", "keeps_rows": True}


def view(log: str, order: str = "") -> str:
    """The query of docs/entity-tables.md, over this log table."""
    (block,) = (block for block in blocks_of(DOCS / "entity-tables.md") if "AS known" in block.code)
    text = block.code.partition(" AS\n")[2].replace("lake.customer_changes", log)
    return text.replace("kafka_batch, offset", order) if order else text
