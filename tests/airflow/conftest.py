"""A pipeline of a test's own in a real Airflow: its topic, group, output and runs, and what the truth about them is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import attempt_numbers
from airflow_kafka_offsets.stores.open import open_store
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from testbed.dag_runs import RunResult, clear_tasks, continue_run, load_dag, run_dag
from tests.airflow.fixtures import AIRFLOW_HOME, TEST_DAGS
from tests.airflow.reader import all_rows, rows_of

# Read when Airflow is first imported, as its other settings are: what the operators say is in the tasks' output.
os.environ["AIRFLOW__LOGGING__NAMESPACE_LEVELS"] = (
    "airflow_kafka_offsets=INFO airflow.task.operators.airflow_kafka_offsets=INFO"
)

WIRING = TEST_DAGS / "wiring.py"
STORE = AIRFLOW_HOME / "kafka_offsets"


@dataclass
class Orders:
    """One pipeline of the DAGs in `wiring.py` that `batch` makes; values of its records count from 0."""

    broker: KafkaBroker
    topic: str
    group: str
    output: Path
    partitions: int = 1
    produced: int = 0
    dag_id: str = "batch"

    def produce(self, count: int) -> None:
        first = self.produced
        self.broker.produce_many(self.topic, count, partitions=self.partitions, value=lambda n: str(first + n).encode())
        self.produced += count

    def run(
        self, words: Mapping[str, Any] | None = None, logical_date: datetime | None = None, **conf: Any
    ) -> RunResult:
        """One run; `words` is what its conf says under `kafka_offsets`."""
        names = {"topic": self.topic, "group": self.group, "output": str(self.output)}
        about = {} if words is None else {"kafka_offsets": dict(words)}
        return run_dag(load_dag(WIRING, self.dag_id), conf={**names, **about, **conf}, logical_date=logical_date)

    def clear(
        self,
        run: RunResult,
        *task_ids: str,
        words: Mapping[str, Any] | None = None,
        downstream: bool = True,
        **conf: Any,
    ) -> RunResult:
        """Clear tasks of a run and what comes after them, as a person does, and let it go on to its end."""
        about = {} if words is None else {"kafka_offsets": dict(words)}
        dag = load_dag(WIRING, self.dag_id)
        clear_tasks(dag, run.run_id, *task_ids, conf={**about, **conf}, downstream=downstream)
        return continue_run(dag, run.run_id)

    @property
    def log(self) -> PipelineLog:
        return PipelineLog(open_store(str(STORE)), f"{self.group}/{self.dag_id}/orders.resolve")

    @property
    def newest(self) -> StoredBatch:
        batch = self.log.newest()
        assert batch is not None
        return batch

    @property
    def key(self) -> str:
        """Of the newest batch."""
        name = self.newest.log.plan.batch
        assert name is not None
        return name.key

    @property
    def rows(self) -> dict[str, list[str]]:
        return rows_of(self.output)

    @property
    def committed(self) -> dict[int, int]:
        return committed_offsets(self.broker, self.group, self.topic)

    def is_exact(self) -> bool:
        """Whether a reader of the whole base folder finds every record once."""
        return all_rows(self.output) == sorted(map(str, range(self.produced)))

    def attempts(self, split: int = 0) -> int:
        """How often the split of the newest batch was begun."""
        return len(attempt_numbers(self.log.store.list(self.newest.folder), split))


@pytest.fixture
def orders(airflow: Path, broker: KafkaBroker, topic: Callable[..., str], group: str, tmp_path: Path) -> Orders:
    return Orders(broker, topic(1), group, tmp_path / "orders")


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """`said()`: what tasks have logged since it was asked before, each run of white space as one blank."""
    return lambda: " ".join("".join(capfd.readouterr()).split())


@pytest.fixture
def set_run_state(airflow: Path) -> Callable[[RunResult, str], None]:
    """What Airflow knows of a run, whatever has become of it."""

    def change(result: RunResult, state: str) -> None:
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import update

        with create_session() as session:
            session.execute(update(DagRun).where(DagRun.run_id == result.run_id).values(state=state))

    return change


@pytest.fixture
def purge(airflow: Path) -> Callable[[RunResult], None]:
    """Delete the XComs of a run, as `airflow db clean` or a tidy colleague does."""

    def delete(result: RunResult) -> None:
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import delete

        with create_session() as session:
            assert session.execute(delete(XComModel).where(XComModel.run_id == result.run_id)).rowcount

    return delete


@pytest.fixture
def events(airflow: Path) -> Callable[[RunResult], list[dict[str, Any]]]:
    """`events(result)`: what the asset events of a run's commit say, in their order."""

    def of_run(result: RunResult) -> list[dict[str, Any]]:
        from airflow.models.asset import AssetEvent
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            query = select(AssetEvent).where(AssetEvent.source_run_id == result.run_id).order_by(AssetEvent.id)
            found = list(session.scalars(query))
            return [event.extra for event in found]

    return of_run
