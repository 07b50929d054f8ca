"""A log is lost, and its Delta table is left: each printed conf is carried out as it stands, and the table goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.engine.commit import commit
from airflow_kafka_offsets.engine.turn import resolve
from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.errors import CheckpointLost
from airflow_kafka_offsets.kafka_values import Planned, RunKey
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, put_job
from airflow_kafka_offsets.offsets import SpecificOffsets, Timestamp
from airflow_kafka_offsets.request import RunContext, parse_request
from airflow_kafka_offsets.rows.config import Delta, Json, Merge, Rows
from airflow_kafka_offsets.rows.job import job_object, output_name
from airflow_kafka_offsets.spark.errors import OtherOutput
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.merge import merge_batches
from airflow_kafka_offsets.store.open import open_store
from testbed.broker import KafkaBroker
from tests.engine.pipeline import AirflowOfTests

HOUR = 3_600_000
IDS, PARTITIONS = 3, 2


@dataclass
class Deployment:
    """A DAG whose runs write a table and merge it.

    :ivar hours: how many hours of records there are; a record has the number of its hour.
    """

    spark: SparkSession
    broker: KafkaBroker
    folder: Path
    topic: str
    parameters: dict[str, Any]
    by_window: bool
    checkpoint: Path
    airflow: AirflowOfTests = field(default_factory=AirflowOfTests)
    began_ms: int = field(default_factory=lambda: now_ms() - 20 * HOUR)
    hours: int = 0
    runs: int = 0

    @property
    def table(self) -> str:
        return f"delta.`{self.folder}/orders`"

    def produce(self) -> None:
        """Another hour."""
        time_ms = self.began_ms + self.hours * HOUR + 60_000
        values = [json.dumps({"id": f"customer {i}", "n": self.hours}).encode() for i in range(IDS)]
        self.broker.produce(
            self.topic, [(i % PARTITIONS, b"key", value, time_ms + i) for i, value in enumerate(values)]
        )
        self.hours += 1

    def run(self, conf: Any = None) -> None:
        """Resolve, Spark, commit and merge; by window, of the last hour. A run that is triggered has no interval."""
        self.runs += 1
        sink, interval = Delta(f"{self.folder}/orders"), None
        if self.by_window and conf is None:
            interval = self.began_ms + (self.hours - 1) * HOUR, self.began_ms + self.hours * HOUR
        request = parse_request(self.parameters, RunContext(now_ms(), interval, conf), {}, output_name(sink))
        log = PipelineLog(open_store(str(self.checkpoint)), request.pipeline_id)
        merge = Merge(f"{self.folder}/customers", ["id"], order_by=["n"])
        job = put_job(log, job_object(sink, Rows(value=Json("id STRING, n INT")), merge=merge))
        with KafkaCluster(self.broker.client_config) as kafka:
            run = RunKey("dag", f"run {self.runs}", "orders")
            work = resolve(request, run, log, kafka, self.airflow)
            assert isinstance(work, ResolvedBatch)
            self.airflow.planned = Planned(work.key, work.batch.plan.plan_id)
            arguments = work.arguments(self.broker.bootstrap_servers, job)
            write_batch(self.spark, arguments)
            commit(work.given(job=job), log, kafka)
        merge_batches(self.spark, arguments)

    def read(self) -> tuple[list[tuple[int, int]], dict[str, int]]:
        """Partition and offset of each row, and the number of each customer."""
        rows = self.spark.sql(f"SELECT `partition`, `offset` FROM {self.table}").collect()
        customers = self.spark.sql(f"SELECT id, n FROM delta.`{self.folder}/customers`").collect()
        return sorted((row[0], row[1]) for row in rows), {row["id"]: row["n"] for row in customers}

    def written(self) -> list[tuple[int, int]]:
        """What is in Kafka."""
        bounds = self.broker.offset_bounds(self.topic)
        return sorted((partition, offset) for partition, (_, end) in bounds.items() for offset in range(end))


def printed(error: Exception) -> Any:
    """The conf in a refusal."""
    text = str(error)
    conf, _ = json.JSONDecoder().raw_decode(text[text.index('{"kafka_offsets"') :])
    return conf["kafka_offsets"]


def delete_the_rows_behind_the_groups_marks(deployment: Deployment, refusal: str) -> None:
    """As the refusal says which."""
    found = re.search(r"Delete the output's rows with (.+), which are read again", refusal)
    assert found is not None, refusal
    deployment.spark.sql(f"DELETE FROM {deployment.table} WHERE {found[1]}")


def delete_the_last_batch_and_start_at_the_tables_ends(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/audit.md's way, where no group knows how far the log was."""

    def asked(*words: str) -> Any:
        capsys.readouterr()
        assert main(["audit", "--table", deployment.table, "--batch", "t.kafka_batch"], None) == 0
        query = capsys.readouterr().out.rstrip().rstrip(";")
        answer = deployment.folder / f"answer {deployment.runs} {'-'.join(words)}"
        deployment.spark.sql(query).coalesce(1).write.csv(str(answer), header=True)
        (file,) = answer.glob("*.csv")
        kafka = () if words else ("--bootstrap-servers", deployment.broker.bootstrap_servers)
        main(["audit", f"@{file}", *words, *kafka, "--output", "json"], None)
        return json.loads(capsys.readouterr().out)

    newest = max(row["batch"] for row in asked()["batches"])
    deployment.spark.sql(f"DELETE FROM {deployment.table} WHERE kafka_batch = '{newest}'")
    deployment.parameters["start"] = SpecificOffsets(asked("--ends")["offsets"], otherwise="earliest")


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    ["with a group", "without a group", "by window", "another pipeline_id", "another pipeline_id, without a group"],
)
def test_a_table_is_continued_behind_a_lost_log(
    spark: SparkSession,
    broker: KafkaBroker,
    topic: Callable[..., str],
    group: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    way: str,
) -> None:
    """Its readers find each record once, and its entity table merges on."""
    parameters: dict[str, Any] = {"topics": [topic(PARTITIONS)], "pipeline_id": "orders", "start": "earliest"}
    if way == "by window":
        parameters |= {"start": Timestamp(), "end": Timestamp()}
    elif "without a group" not in way:
        parameters["group_id"] = group
    lake = tmp_path / "lake"
    name = parameters["topics"][0]
    deployment = Deployment(spark, broker, lake, name, parameters, way == "by window", tmp_path / "checkpoint")
    (tmp_path / "checkpoint").mkdir()
    for _ in range(2):
        deployment.produce()
        deployment.run()
    if way.startswith("another pipeline_id"):
        parameters["pipeline_id"], deployment.airflow.planned = "customers", None
    else:
        deployment.checkpoint = tmp_path / "empty"
        deployment.checkpoint.mkdir()
    deployment.produce()

    conf = None
    if way != "another pipeline_id, without a group":
        with pytest.raises(CheckpointLost) as lost:
            deployment.run()
        conf = printed(lost.value)
        if "group_id" in parameters:
            delete_the_rows_behind_the_groups_marks(deployment, str(lost.value))
        elif way == "without a group":
            delete_the_last_batch_and_start_at_the_tables_ends(deployment, capsys)
        else:
            assert f"rows of windows from {conf['acknowledge']['windows_from']} on" in str(lost.value)
    with pytest.raises(OtherOutput) as other:
        deployment.run(conf)
    if deletion := re.search(r"(DELETE FROM .+); then ", str(other.value)):
        spark.sql(deletion[1])
    assert (deletion is not None) == (conf is None), str(other.value)
    deployment.run(printed(other.value))
    deployment.produce()
    deployment.run()

    rows, customers = deployment.read()
    assert rows == deployment.written()
    assert customers == {f"customer {i}": 3 for i in range(IDS)}
