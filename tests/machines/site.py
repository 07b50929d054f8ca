"""Several machines, and what the tests know of them: the truth is Kafka's, the output's and the log's."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import psutil

from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.stores.store import Store
from testbed.broker import KafkaBroker
from testbed.celery_airflow import CeleryAirflow
from testbed.checks import committed_offsets, duplicated_or_missing, names_below, rows_by_batch
from testbed.redis_server import RedisServer
from testbed.spark_cluster import SparkCluster
from testbed.standalone import TaskState

HOUR = timedelta(hours=1)
LAST = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)  # the end of the last interval that is over
HOURS = 3
START = LAST - HOURS * HOUR
PARTITIONS = 2
RECORDS = 60  # an hour, over all partitions
DEADLINE_S = 420.0  # against hanging, on a machine that is busy
WORKERS = ("worker-1", "worker-2")


@dataclass
class Site:
    """:ivar store: the work store, by the server's own address."""

    airflow: CeleryAirflow
    broker: KafkaBroker
    redis: RedisServer
    spark: SparkCluster
    store: Store
    bucket: str

    def pipeline(self, dag_id: str) -> Pipeline:
        return Pipeline(self, dag_id)


@dataclass
class Pipeline:
    """A topic of a test's own, and what a DAG has made of it."""

    site: Site
    dag_id: str
    topic: str = field(default_factory=lambda: f"machines-{uuid.uuid4().hex[:8]}")
    produced: int = 0
    create: bool = True

    def __post_init__(self) -> None:
        if self.create:
            self.create_topic()

    def create_topic(self) -> None:
        self.site.broker.create_topic(self.topic, PARTITIONS, {"retention.ms": "-1"})

    def produce_hour(self, begin: datetime) -> None:
        """As many records as an hour has, spread over it; a record's value is its number."""
        first, step = self.produced, 3_600_000 // RECORDS
        self.site.broker.produce_many(
            self.topic,
            RECORDS,
            partitions=PARTITIONS,
            value=lambda n: b"%d" % (first + n),
            timestamp_ms=lambda n: int(begin.timestamp() * 1000) + n * step,
        )
        self.produced += RECORDS

    @property
    def output(self) -> str:
        return f"s3a://{self.site.bucket}/{self.dag_id}/{self.topic}"

    def log(self) -> PipelineLog:
        group = f"{self.topic}-{self.dag_id}"
        return PipelineLog(self.site.store, f"{group}/{self.dag_id}/orders.resolve")

    def names(self, ending: str) -> list[str]:
        """Objects of the log whose name ends so."""
        found = names_below(f"s3://{self.site.bucket}/kafka_offsets/{self.log().root}")[1]
        return [name for name in found if name.endswith(ending)]

    def rows(self) -> dict[str, int]:
        return rows_by_batch(self.output)

    def committed(self) -> dict[int, int]:
        return committed_offsets(self.site.broker, f"{self.topic}-{self.dag_id}", self.topic)

    def at_the_end(self) -> dict[int, int]:
        return dict.fromkeys(range(PARTITIONS), self.produced // PARTITIONS)

    def require_exact(self, batches: list[int]) -> None:
        """Every record once, each batch in one place and of this size, in the order of their keys."""
        assert duplicated_or_missing(self.output, self.produced) == (0, 0)
        assert [rows for _, rows in sorted(self.rows().items())] == batches

    def task(self, run_id: str, name: str) -> TaskState:
        return self.site.airflow.task(self.dag_id, run_id, f"orders.{name}", 0 if name == "spark" else -1)

    def trigger(self) -> str:
        return self.site.airflow.trigger(self.dag_id, {"topic": self.topic})

    def wait(self, run_id: str, state: str = "success") -> None:
        found = self.site.airflow.wait_for_run(self.dag_id, run_id, deadline_s=DEADLINE_S)
        assert found == state, (found, self.site.airflow.tasks(self.dag_id, run_id), self.logs(run_id))

    def logs(self, run_id: str) -> str:
        tasks = self.site.airflow.tasks(self.dag_id, run_id)
        return "\n".join(
            self.site.airflow.task_log(self.dag_id, run_id, task.task_id, task.tries, task.map_index)[-3000:]
            for task in tasks
            if task.state in ("failed", "up_for_retry")
        )

    def wait_for(self, what: str, is_so: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Asks five times a second: what is waited for needs the processors itself."""
        end = time.monotonic() + deadline_s
        while not is_so():
            assert time.monotonic() < end, f"after {deadline_s:.0f} s still not so: {what}"
            time.sleep(0.2)

    def worker_of(self, run_id: str, task_id: str) -> str:
        """Whose the process of a running task is."""
        found: list[str] = []

        def known() -> bool:
            pid = self.site.airflow.task_pid(self.dag_id, run_id, task_id)
            if pid is not None and psutil.pid_exists(pid):
                found.append(self.site.airflow.part_of(pid))
            return bool(found)

        self.wait_for(f"a worker runs {task_id}", known)
        return found[0]

    def driver_that_reads(self, attempt: int = 1) -> psutil.Process:
        """A Spark driver of this pipeline, once the log has so many attempts, of all its batches."""
        self.wait_for("a driver reads", lambda: len(self.names(".begun.json")) >= attempt and bool(self.drivers()))
        return self.drivers()[0]

    def drivers(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                if "org.apache.spark.deploy.SparkSubmit" in words and self.topic in " ".join(words):
                    found.append(process)
        return found
