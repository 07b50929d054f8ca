"""A real Airflow with the DAGs of `tests/standalone/dags`, and what the tests know of it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.pipeline_log import BatchOfRun, PipelineLog
from airflow_kafka_offsets.log.read_reports import attempt_numbers
from airflow_kafka_offsets.stores.open import open_store
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from testbed.postgres import rows_of as rows_of_database
from testbed.standalone import StandaloneAirflow
from tests.airflow.reader import rows_of

HOUR = timedelta(hours=1)
RECORDS = 5  # an hour and partition
PARTITIONS = 2
NOW = datetime.now(UTC)
LAST = NOW.replace(minute=0, second=0, microsecond=0)  # the end of the last interval that is over
DAY = LAST - 30 * HOUR  # where the day that is backfilled begins
START = LAST - 4 * HOUR


@dataclass
class Site:
    """An Airflow, and what the tests know of it."""

    airflow: StandaloneAirflow
    broker: KafkaBroker
    output: Path
    store: Path

    def hours(self, count: int, first: datetime) -> str:
        """A topic with records in each of ``count`` hours from ``first``; a value names its hour and is unique."""
        topic = f"hours-{uuid.uuid4().hex[:8]}"
        self.broker.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})
        for number in range(count):
            begin = first + number * HOUR
            self.produce(topic, begin)
        return topic

    def produce(self, topic: str, hour: datetime) -> None:
        step = HOUR / RECORDS
        self.broker.produce(
            topic,
            [
                (partition, None, f"{hour.isoformat()} {partition} {n}", int((hour + n * step).timestamp() * 1000))
                for partition in range(PARTITIONS)
                for n in range(RECORDS)
            ],
        )

    def run(self, dag_id: str, expected: str = "success", **more: Any) -> str:
        run_id = self.airflow.trigger(dag_id, **more)
        assert self.airflow.wait_for_run(dag_id, run_id) == expected, self.airflow.tasks(dag_id, run_id)
        return run_id

    def log(self, dag_id: str, topic: str) -> PipelineLog:
        return PipelineLog(open_store(str(self.store)), f"{topic}-{dag_id}/{dag_id}/resolve")

    def batch_of(self, dag_id: str, topic: str, run_id: str) -> BatchOfRun | None:
        return self.log(dag_id, topic).batch_of_run(RunKey(dag_id, run_id, "resolve"))

    def read(self, dag_id: str, topic: str, run_id: str) -> list[str]:
        """The values under the key of the batch that the run did."""
        batch = self.batch_of(dag_id, topic, run_id)
        return self.rows(dag_id, topic).get(batch.key or "", []) if batch else []

    def rows(self, dag_id: str, topic: str) -> dict[str, list[str]]:
        return rows_of(self.output / dag_id / topic)

    def attempts(self, dag_id: str, topic: str, run_id: str) -> int:
        log, batch = self.log(dag_id, topic), self.batch_of(dag_id, topic, run_id)
        assert batch is not None
        return len(attempt_numbers(log.store.list(f"{log.root}/{batch.folder}"), 0))

    def committed(self, dag_id: str, topic: str) -> dict[int, int]:
        return committed_offsets(self.broker, f"{topic}-{dag_id}", topic)

    def tries(self, dag_id: str) -> list[tuple[str, str, str, int]]:
        """Run, task, state and number of each try of the DAG's tasks: those that are over, and those before them."""
        columns = "run_id, task_id, coalesce(state, ''), try_number"
        both = " union all ".join(
            f"select {columns} from {table} where dag_id = :dag" for table in ("task_instance", "task_instance_history")
        )
        return sorted(rows_of_database(self.airflow.database, both, dag=dag_id))

    def trigger_log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """What a task's trigger has logged."""
        folder = self.airflow.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        return "".join(file.read_text() for file in folder.glob("attempt=1.log.trigger.*"))

    def log_of_resolve(self, dag_id: str, run_id: str) -> str:
        return self.log_of(dag_id, run_id, "resolve")

    def log_of(self, dag_id: str, run_id: str, task_id: str) -> str:
        return self.airflow.task_log(dag_id, run_id, task_id).replace('\\"', '"')


def of_hour(hour: datetime) -> list[str]:
    return sorted(f"{hour.isoformat()} {partition} {n}" for partition in range(PARTITIONS) for n in range(RECORDS))
