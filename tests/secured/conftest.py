"""One secured Kafka for all tests of this folder, and pipelines on it by the DAG of docs/secured-kafka.md."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home
from testbed.cache import Say
from testbed.checks import committed_offsets, duplicated_or_missing
from testbed.dag_runs import RunResult, load_dag, run_dag
from testbed.java import Java
from testbed.secured_broker import SecuredBroker
from testbed.spark import PATIENT
from tests.airflow.fixtures import AIRFLOW_HOME
from tests.conftest import unique_name
from tests.secured.page import DAG_ID, connection, dag_text

# Read when Airflow is first imported, as its other settings are: what the driver says is in the tasks' output.
os.environ["AIRFLOW__LOGGING__NAMESPACE_LEVELS"] = " ".join(
    f"{name}=INFO"
    for name in (
        "airflow_kafka_offsets",
        "airflow.task.operators.airflow_kafka_offsets",
        "airflow.task.hooks.airflow.providers.apache.spark",
    )
)

# Each has what quoting can get wrong; they are looked for in what runs leave.
PASSWORDS = {"airflow": 'hunter2-"airflow\\', "spark": "hunter2 'spark'=;#\\u0041ü", "etl": "hunter2-etl"}


@pytest.fixture(scope="session")
def kafka(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured"), PASSWORDS, java, say) as running:
        yield running


@pytest.fixture(scope="session")
def secured_airflow(
    spark_environment: Mapping[str, str], spark_settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A migrated Airflow without connections, `spark-submit` on the PATH; its home."""
    spark = airflow_home.spark_defaults(tmp_path_factory.mktemp("spark"), {**spark_settings, **PATIENT})
    environment = {**airflow_home.connections({}), **spark_environment, **spark}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        (AIRFLOW_HOME / "dags").mkdir(exist_ok=True)
        airflow_home.migrate(os.environ)
        yield AIRFLOW_HOME
        (AIRFLOW_HOME / "dags" / "secured.py").unlink(missing_ok=True)


@dataclass
class Pipeline:
    """The page's pipeline, with a topic, group and output of its own."""

    kafka: SecuredBroker
    topic: str
    group: str
    folder: Path
    dags: Path
    connect: Callable[[str, Mapping[str, Any]], None]
    said: Callable[[], str]
    produced: int = 0
    words: dict[str, str] = field(default_factory=dict)

    @property
    def output(self) -> Path:
        return self.folder / "lake" / "orders"

    def rights(self, name: str) -> list[tuple[str, str, str]]:
        """What the page says that this principal needs."""
        of_topic = ("topic", self.topic, "read")
        return [of_topic, ("group", self.group, "read")] if name == "airflow" else [of_topic]

    def produce(self, count: int) -> None:
        first = self.produced
        value = lambda n: str(first + n).encode()  # noqa: E731
        self.kafka.plain.produce_many(self.topic, count, partitions=2, value=value)
        self.produced += count

    def as_principals(self, listener: str, **changed: Mapping[str, Any]) -> None:
        """Write the page's two connections; `changed` has settings of `airflow` or `spark` that are otherwise."""
        for conn_id, name in (("kafka_default", "airflow"), ("kafka_spark", "spark")):
            self.connect(conn_id, {**connection(self.kafka, listener, name), **changed.get(name, {})})

    def run(self) -> RunResult:
        """One run."""
        file = self.dags / "secured.py"
        names = {
            '"orders-to-lake"': f'"{self.group}"',
            'topics=["orders"]': f'topics=["{self.topic}"]',
            "/tmp/lake": str(self.folder / "lake"),
            "retries=2,": "retries=0,",
            'schedule="@hourly"': "schedule=None",
        }
        file.write_text(dag_text(names | self.words))
        return run_dag(load_dag(file, DAG_ID))

    @property
    def is_exact(self) -> bool:
        return duplicated_or_missing(self.output, self.produced) == (0, 0)

    @property
    def committed(self) -> dict[int, int]:
        return committed_offsets(self.kafka.plain, self.group, self.topic)


@pytest.fixture
def pipeline(
    kafka: SecuredBroker,
    secured_airflow: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Pipeline]:
    def connect(conn_id: str, extra: Mapping[str, Any]) -> None:
        value = {"conn_type": "kafka", "extra": json.dumps(dict(extra))}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(value))

    def said() -> str:
        return " ".join("".join(capfd.readouterr()).split())

    made = Pipeline(
        kafka, unique_name("topic"), unique_name("group"), tmp_path, secured_airflow / "dags", connect, said
    )
    kafka.plain.create_topic(made.topic, 2)
    for name in PASSWORDS:
        kafka.allow(name, *made.rights(name))
    yield made
    for name in PASSWORDS:
        kafka.deny(name, *made.rights(name))
