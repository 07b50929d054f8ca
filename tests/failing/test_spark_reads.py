"""A real Spark reads a batch while the partition's leader dies or hangs: the package's own job, by spark-submit.

The batch is many small tasks over one partition, with small fetches. A broker fails when some tasks have written their
files and most have not begun. Their records are in no client's memory: Spark has to get them from the next leader.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.spark.jobs import write_batch
from airflow_kafka_offsets.spark.sinks.sink_arguments import sink_arguments
from testbed.broker import KafkaBroker
from testbed.leash import Leashed
from testbed.spark_cluster import QUICK
from testbed.spark_killer import finished_files
from testbed.topics import wait_for
from tests.builders import job_arguments
from tests.contract.pipeline import Run
from tests.failing.site import Site

ROOT = Path(__file__).resolve().parents[2]
TASKS, RECORDS_OF_A_TASK, VALUE = 100, 500, "x" * 200
FETCH_BYTES = "65536"
NOT_BEGUN = 20
"""Tasks that have to be left when a broker fails; two run, and their clients hold less than a task's records each."""
SOURCE = {
    "maxRecordsPerPartition": str(RECORDS_OF_A_TASK),
    "kafka.fetch.max.bytes": FETCH_BYTES,
    "kafka.max.partition.fetch.bytes": FETCH_BYTES,
}
IMPATIENT = {
    "kafkaConsumer.pollTimeoutMs": "3000",
    "kafka.request.timeout.ms": "10000",
    "kafka.default.api.timeout.ms": "10000",
}
SPARK_S = 300.0


@dataclass
class Spark:
    """The Spark tasks of a run: each attempt is a driver of its own.

    :ivar output: where the job writes files, one for each task.
    :ivar log: what the drivers print.
    """

    settings: Mapping[str, str]
    environment: Mapping[str, str]
    output: Path
    log: Path
    driver: Leashed | None = None

    def start(self, site: Site, run: Run, **source: str) -> None:
        batch = run.batch
        settings = {
            **self.settings,
            "spark.driver.extraJavaOptions": QUICK,
            **{f"spark.kafka_offsets.source.{name}": value for name, value in {**SOURCE, **source}.items()},
        }
        servers = site.kafka.client_config["bootstrap.servers"]
        arguments = job_arguments(batch.plan_object, run.plan.plan_id, 0, run.pipeline.store.uri, servers)
        command = [
            "spark-submit",
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            str(write_batch.__file__),
            *sink_arguments({"format": "parquet", "path": self.output}),
            *arguments,
        ]
        env = {**os.environ, **self.environment, "PYTHONPATH": str(ROOT)}
        self.driver = Leashed.start(command, env=env, log=self.log, cwd=self.log.parent)

    @property
    def status(self) -> int | None:
        assert self.driver is not None
        return self.driver.returncode

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until_it_reads(self) -> None:
        """Some tasks are finished, and most have not begun."""

        def some() -> bool:
            assert self.status is None, self.said
            return bool(finished_files(self.output))

        wait_for("a task has written its file", some, SPARK_S)

    def require_reads(self) -> None:
        """Records that no client holds are still to be read."""
        done = len(finished_files(self.output))
        assert 0 < done <= TASKS - NOT_BEGUN, f"{done} of {TASKS} tasks are done: the broker failed too late"
        assert self.status is None, self.said

    def wait(self) -> int:
        wait_for("Spark's driver has ended", lambda: self.status is not None, SPARK_S)
        assert self.status is not None
        return self.status

    def rows(self) -> dict[tuple[str, int], list[tuple[TopicPartition, int]]]:
        """What a reader of the whole output finds."""
        table = ds.dataset(self.output, ignore_prefixes=["_", "."]).to_table(columns=["topic", "partition", "offset"])
        columns = (table.column(name).to_pylist() for name in ("topic", "partition", "offset"))
        return {("all", 0): [(TopicPartition(t, p), offset) for t, p, offset in zip(*columns, strict=True)]}


@pytest.fixture
def spark(spark_settings: Mapping[str, str], spark_environment: Mapping[str, str], tmp_path: Path) -> Iterator[Spark]:
    found = Spark(spark_settings, spark_environment, tmp_path / "output", tmp_path / "spark.log")
    yield found
    if found.driver is not None:
        found.driver.kill()


def begun(site: Site) -> Run:
    """A run whose resolve task has ended."""
    site.kafka.produce(site.topic, [(0, None, VALUE, None)] * (TASKS * RECORDS_OF_A_TASK))
    site.produced = {0: TASKS * RECORDS_OF_A_TASK, 1: 0, 2: 0}
    site.produce()
    return site.pipeline.resolve("first")


def require_exact(site: Site, spark: Spark) -> None:
    site.pipeline.lake.rows = spark.rows()
    site.require_exact()


def nothing(broker: KafkaBroker) -> None:
    """It stays as it is until Spark has read all."""


@pytest.mark.parametrize(
    ("fault", "afterwards"),
    [
        pytest.param(KafkaBroker.kill, nothing, id="killed"),
        pytest.param(KafkaBroker.pause, nothing, id="hangs"),
        pytest.param(KafkaBroker.pause, KafkaBroker.resume, id="hangs, then goes on"),
        pytest.param(KafkaBroker.pause, KafkaBroker.kill, id="hangs, then is killed"),
    ],
)
def test_spark_reads_on_from_the_next_leader(
    new_site: Callable[..., Site],
    spark: Spark,
    fault: Callable[[KafkaBroker], None],
    afterwards: Callable[[KafkaBroker], None],
) -> None:
    """In one attempt; every record is in the output once, and log and group are at the end."""
    site = new_site(deadline_s=20.0)
    run = begun(site)
    leader = site.kafka.leader(site.topic)
    spark.start(site, run)
    spark.wait_until_it_reads()
    fault(site.kafka.nodes[leader])
    spark.require_reads()
    wait_for("another broker leads", lambda: site.kafka.leader(site.topic) not in (leader, -1))
    afterwards(site.kafka.nodes[leader])
    assert spark.wait() == 0, spark.said
    run.commit()
    site.kafka.heal()
    require_exact(site, spark)


def test_a_read_that_fails_names_kafka_is_not_committed_and_its_retry_is_exact(
    new_site: Callable[..., Site], spark: Spark
) -> None:
    """All brokers hang for longer than Spark's Kafka client waits: by its settings, 10 s rather than minutes."""
    site = new_site(deadline_s=20.0)
    run = begun(site)
    spark.start(site, run, **IMPATIENT)
    spark.wait_until_it_reads()
    for broker in site.kafka.nodes.values():
        broker.pause()
    try:
        spark.require_reads()
        assert spark.wait() != 0
    finally:
        site.kafka.heal()
    named = rf"Job aborted due to stage failure: .*org\.apache\.kafka\.\S*TimeoutException: .*\b{site.topic}-0\b"
    assert re.search(named, spark.said), spark.said
    with pytest.raises(ReadNotVerified):
        run.commit()
    assert site.pipeline.newest.log.committed is None
    assert site.pipeline.held() == {}

    spark.start(site, run)
    assert spark.wait() == 0, spark.said
    run.commit()
    require_exact(site, spark)
