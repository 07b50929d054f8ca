"""A pipeline as its runs do it: the engine resolves and commits, and a real driver writes two tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Producer

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.engine.commit import Committed, commit, needs_job
from airflow_kafka_offsets.engine.turn import resolve
from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, put_job
from airflow_kafka_offsets.request import RunContext, parse_request
from airflow_kafka_offsets.rows.config import BadRecords, Json, Merge, Rows
from airflow_kafka_offsets.rows.job import job_object, output_name
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.merge import merge_batches
from airflow_kafka_offsets.store.local import LocalStore
from testbed.broker import KafkaBroker
from tests.engine.pipeline import AirflowOfTests
from tests.spark.rows.conftest import Lake

VALUES: tuple[bytes, ...] = (b'{"id":0,"amount":1}', b'{"id":1,"amount":2.5}', b"none", b'{"id":3,"amount":-4.5}')
"""By the old definition the first one is good; by the new one all but the third."""


def old(lake: Lake, **more: Any) -> Rows:
    bad = BadRecords(lake.sink("bad"))
    rows = Rows(
        Json("id BIGINT, amount BIGINT"), select=["value.id", "CAST(value.amount AS DOUBLE) AS amount"], bad=bad
    )
    return replace(rows, **more)


def new(lake: Lake, **more: Any) -> Rows:
    return replace(old(lake), value=Json("id BIGINT, amount DOUBLE"), **more)


def lenient(lake: Lake) -> Rows:
    """By which nothing is bad."""
    return old(lake, value=None, select=["offset AS id", "CAST(NULL AS DOUBLE) AS amount"])


@dataclass
class Orders:
    """A pipeline over one topic, whose batches have the records of ``VALUES``, once more for each batch.

    :ivar definition: by which its runs make rows now.
    :ivar merge: the entity table.
    """

    lake: Lake
    broker: KafkaBroker
    topic: str
    definition: Rows
    merge: Merge | None = None
    clears: dict[str, int] = field(default_factory=dict)

    @property
    def log(self) -> PipelineLog:
        root = self.lake.folder / "checkpoint"
        root.mkdir(exist_ok=True)
        return PipelineLog(LocalStore(root), "orders")

    @property
    def job(self) -> dict[str, Any]:
        return job_object(self.lake.sink("good"), self.definition, merge=self.merge)

    def produce(self, *values: bytes) -> None:
        producer = Producer(self.broker.client_config)
        for value in values or VALUES:
            producer.produce(self.topic, value=value, key=b"k", partition=0, headers={"h": b"1"})
        assert producer.flush(30) == 0

    def forget(self, before: int) -> None:
        """Retention deletes the records."""
        self.broker.delete_records({(self.topic, 0): before})

    def resolve(self, run: str) -> ResolvedBatch:
        """A try of the run, cleared if it has run before."""
        given = {"topics": [self.topic], "start": "earliest", "pipeline_id": "orders", "max_records": len(VALUES)}
        request = parse_request(given, RunContext(now_ms()), {}, output_name(self.lake.sink("good")))
        clears = self.clears[run] = self.clears.get(run, -1) + 1
        key, airflow = RunKey("dag", run, "orders", clears=str(clears)), AirflowOfTests(jobs=self.job)
        with KafkaCluster(self.broker.client_config) as kafka:
            work = resolve(request, key, self.log, kafka, airflow)
        assert isinstance(work, ResolvedBatch), work
        return work

    def arguments(self, work: ResolvedBatch) -> list[str]:
        return work.arguments(self.broker.bootstrap_servers, put_job(self.log, self.job))

    def drive(self, work: ResolvedBatch) -> None:
        write_batch(self.lake.spark, self.arguments(work))

    def commit(self, work: ResolvedBatch) -> Committed:
        with KafkaCluster(self.broker.client_config) as kafka:
            return commit(work.given(job=put_job(self.log, self.job)), self.log, kafka)

    def needs_job(self, work: ResolvedBatch) -> bool:
        with KafkaCluster(self.broker.client_config) as kafka:
            return needs_job(work.given(job=put_job(self.log, self.job)), self.log, kafka)

    def run(self, name: str) -> ResolvedBatch:
        """Resolve, Spark and commit."""
        work = self.resolve(name)
        if self.needs_job(work):
            self.drive(work)
        self.commit(work)
        return work

    def merge_into_entities(self, work: ResolvedBatch) -> None:
        merge_batches(self.lake.spark, self.arguments(work))

    def batch(self, number: int) -> Batch:
        return self.log.existing(number)

    def committed(self, number: int) -> tuple[int, int, int]:
        last = self.batch(number).commits[-1]
        return last.rows, last.bad, last.filtered

    def offsets(self, table: str) -> list[int]:
        """What a reader of the whole table sees."""
        return sorted(row["offset"] for row in self.lake.read(table).select("offset").collect())

    def seen(self) -> tuple[list[int], list[int]]:
        return self.offsets("good"), self.offsets("bad")

    def seen_of(self, number: int) -> tuple[list[int], list[int]]:
        """Of one batch, counted from its first offset."""
        first = (number - 1) * len(VALUES)
        good, bad = ([o - first for o in offsets if 0 <= o - first < len(VALUES)] for offsets in self.seen())
        return good, bad

    def versions(self) -> dict[str, Any]:
        """What the tables are, commit by commit."""
        return {name: self._version(name) for name in ("good", "bad")}

    def _version(self, name: str) -> Any:
        spark = self.lake.spark
        if self.lake.kind == "delta":
            return spark.sql(f"DESCRIBE HISTORY {self.sql(name)} LIMIT 1").collect()[0]["version"]
        return [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {self.sql(name)}.snapshots").collect()]

    def sql(self, name: str) -> str:
        lake = self.lake
        return f"lake.db.{lake.folder.name}_{name}" if lake.kind == "iceberg" else f"delta.`{lake.folder}/{name}`"
