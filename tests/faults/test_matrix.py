"""Each row of the fault matrix on a real Kafka, Spark and Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.java import Java
from tests.faults.matrix import ROWS, Row
from tests.faults.scene import DAG_FILE, PARTITIONS, Scene


@pytest.fixture(scope="module")
def checkpoint_location(airflow: Path) -> Path:
    """Of the session's Airflow, which has the DAG of the matrix in its folder from now on."""
    (airflow / "dags" / "faults").symlink_to(DAG_FILE.parent)
    return airflow / "kafka_offsets"


@pytest.fixture
def own_broker(java: Java, tmp_path: Path) -> Iterator[Callable[[], KafkaBroker]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(KafkaBroker(tmp_path / "kafka", java=java))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "dag_id"), [pytest.param(row, dag_id, id=f"{row.name}-{dag_id}") for row in ROWS for dag_id in row.dags]
)
def test_after_each_fault_the_output_and_the_group_are_as_the_matrix_says(
    row: Row,
    dag_id: str,
    checkpoint_location: Path,
    broker: KafkaBroker,
    own_broker: Callable[[], KafkaBroker],
    group: str,
    said: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, kafka = group.replace("group", "orders"), own_broker() if row.stops_the_broker else broker
    kafka.create_topic(topic, PARTITIONS)
    for name, value in airflow_home.connections(kafka.client_config).items():
        monkeypatch.setenv(name, value)
    row.play(Scene(dag_id, kafka, topic, group, tmp_path / "orders", checkpoint_location / topic, said))
