"""A pipeline of a test's own in a real Airflow: its topic, group, output and runs, and what the truth about them is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from testbed.dag_runs import RunResult, clear_tasks, continue_run, load_dag, run_dag
from tests.airflow.fixtures import AIRFLOW_HOME, TEST_DAGS
from tests.airflow.reader import rows_of

# Read when Airflow is first imported, as its other settings are: what the operators say is in the tasks' output.
os.environ["AIRFLOW__LOGGING__NAMESPACE_LEVELS"] = (
    "airflow_kafka_offsets=INFO airflow.task.operators.airflow_kafka_offsets=INFO"
)
if version("apache-airflow").startswith("3.1."):  # which does not know that setting
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "INFO"

WIRING = TEST_DAGS / "wiring.py"
STORE = AIRFLOW_HOME / "kafka_offsets"


@dataclass
class Orders:
    """One pipeline of a DAG in `wiring.py`; the values of its records count from 0."""

    broker: KafkaBroker
    topic: str
    group: str
    output: Path
    dag_id: str = "batch"
    produced: int = 0

    def produce(self, count: int, timestamp_ms: int | None = None) -> None:
        first = self.produced
        records = [(0, None, str(first + n).encode(), timestamp_ms) for n in range(count)]
        self.broker.produce(self.topic, records)
        self.produced += count

    def run(self, words: Any = None, logical_date: datetime | None = None, **conf: Any) -> RunResult:
        """One run; `words` is what its conf says under `kafka_offsets`."""
        return run_dag(load_dag(WIRING, self.dag_id), conf=self._conf(words, conf), logical_date=logical_date)

    def clear(
        self, run: RunResult, *task_ids: str, words: Any = None, downstream: bool = True, **conf: Any
    ) -> RunResult:
        """Clear tasks of a run and what comes after them, as a person does, and let it go on to its end."""
        dag = load_dag(WIRING, self.dag_id)
        clear_tasks(dag, run.run_id, *task_ids, conf=self._conf(words, conf), downstream=downstream)
        return continue_run(dag, run.run_id)

    def _conf(self, words: Any, conf: dict[str, Any]) -> dict[str, Any]:
        names = {"topic": self.topic, "group": self.group, "output": str(self.output)}
        return {**names, **({} if words is None else {"kafka_offsets": words}), **conf}

    def run_printed(self, said: str, **conf: Any) -> RunResult:
        """One run with the first conf that a refusal has printed, as it stands."""
        printed, _ = json.JSONDecoder().raw_decode(said, said.index('{"kafka_offsets": '))
        return self.run(printed["kafka_offsets"], **conf)

    @property
    def rows(self) -> dict[str, list[int]]:
        return rows_of(self.output)

    @property
    def committed(self) -> dict[int, int]:
        return committed_offsets(self.broker, self.group, self.topic)

    def is_exact(self) -> bool:
        """Whether a reader of the whole base folder finds every record once."""
        return sorted(value for values in self.rows.values() for value in values) == list(range(self.produced))


@pytest.fixture
def orders(airflow: Path, broker: KafkaBroker, topic: Callable[..., str], group: str, tmp_path: Path) -> Orders:
    return Orders(broker, topic(1), group, tmp_path / "orders")


@pytest.fixture
def set_states(airflow: Path) -> Callable[..., None]:
    """`set_states(result, state, {task_id: state})`: what Airflow knows of a run, whatever has become of it."""

    def change(result: RunResult, state: str, of_tasks: dict[str, str | None]) -> None:
        from airflow.models.dagrun import DagRun
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import update

        with create_session() as session:
            session.execute(update(DagRun).where(DagRun.run_id == result.run_id).values(state=state))
            for task_id, of_task in of_tasks.items():
                instance = (TaskInstance.run_id == result.run_id) & (TaskInstance.task_id == task_id)
                session.execute(update(TaskInstance).where(instance).values(state=of_task))

    return change


@pytest.fixture
def events(airflow: Path) -> Callable[[RunResult], list[dict[str, Any]]]:
    """`events(result)`: the extras of the asset events of a run, in their order."""

    def of_run(result: RunResult) -> list[dict[str, Any]]:
        from airflow.models.asset import AssetEvent
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            query = select(AssetEvent).where(AssetEvent.source_run_id == result.run_id).order_by(AssetEvent.id)
            return [event.extra for event in session.scalars(query)]

    return of_run
