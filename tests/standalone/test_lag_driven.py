"""`dags/lag_driven_micro_batch.py` on a real Airflow: triggerer, scheduler, and tasks that are processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets, duplicated_or_missing, rows_by_batch
from testbed.postgres import Postgres
from testbed.standalone import StandaloneAirflow
from testbed.topics import wait_for

DAGS = Path(__file__).resolve().parents[2] / "dags"
DAG_ID = "kafka_lag_driven_micro_batch"
RUN_STARTS_S = 120.0


@dataclass(frozen=True)
class Pipeline:
    airflow: StandaloneAirflow
    topic: str
    output: Path

    def wait_for_success_of_run(self, number: int) -> None:
        """The number-th run that there is, and no further one."""
        wait_for(
            f"the watcher has started run {number}",
            lambda: len(self.airflow.runs(DAG_ID)) >= number,
            deadline_s=RUN_STARTS_S,
        )
        for run_id in self.airflow.runs(DAG_ID):
            assert self.airflow.wait_for_run(DAG_ID, run_id) == "success"

    def rows(self) -> list[int]:
        """Of each batch that has any, the fewest first."""
        return sorted(rows_by_batch(self.output).values())


@pytest.fixture
def pipeline(
    broker: KafkaBroker,
    topic: Any,
    group: str,
    spark_environment: Mapping[str, str],
    spark_settings: Mapping[str, str],
    postgres: Postgres,
    tmp_path: Path,
) -> Iterator[Pipeline]:
    """The DAG of `dags/` alone, in an Airflow with a triggerer; a hundred unread records are enough."""
    name, output, dags = topic(2), tmp_path / "output", tmp_path / "lag"
    dags.mkdir()
    for part in ("lag_driven_micro_batch.py", "jobs", ".airflowignore"):
        (dags / part).symlink_to(DAGS / part)
    variables = {
        "kafka_offsets_topics": name,
        "kafka_offsets_micro_batch_group": group,
        "kafka_offsets_micro_batch_output": str(output),
        "kafka_offsets_min_records": "100",
        "kafka_offsets_max_age": "P1D",
        "kafka_offsets_poke_interval": "0.5",
    }
    environment = {
        **airflow_home.connections(broker.client_config, spark_master="local[1]"),
        **airflow_home.variables(variables),
        **spark_environment,
        **airflow_home.spark_defaults(tmp_path / "spark", spark_settings),
        "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
    }
    database = postgres.new_database()
    with StandaloneAirflow(tmp_path / "airflow", [dags], database, environment, triggerer=True) as airflow:
        airflow.wait_for_dag(DAG_ID)
        yield Pipeline(airflow, name, output)


def test_a_backlog_starts_one_run_and_a_new_triggerer_goes_on(
    pipeline: Pipeline, broker: KafkaBroker, group: str
) -> None:
    """Each batch is read by one run: had a backlog been told twice, there would be runs that read nothing."""
    produced = 0

    def produce(count: int) -> None:
        nonlocal produced
        first = produced
        broker.produce_many(pipeline.topic, count, partitions=2, value=lambda n: str(first + n).encode())
        produced += count

    produce(60)
    produce(60)  # the first sixty are not enough
    pipeline.wait_for_success_of_run(1)
    assert pipeline.rows() == [120]
    assert committed_offsets(broker, group, pipeline.topic) == {0: 60, 1: 60}

    produce(100)
    pipeline.wait_for_success_of_run(2)
    assert pipeline.rows() == [100, 120]

    pipeline.airflow.kill_part("triggerer")
    produce(110)
    pipeline.airflow.start_part("triggerer")
    pipeline.wait_for_success_of_run(3)

    runs = pipeline.airflow.runs(DAG_ID)
    assert pipeline.rows() == [100, 110, 120]
    assert list(runs.values()) == ["success"] * 3
    assert all(run_id.startswith("asset_triggered__") for run_id in runs)
    assert duplicated_or_missing(pipeline.output, produced) == (0, 0)
    assert committed_offsets(broker, group, pipeline.topic) == {0: 165, 1: 165}
    admin = broker.admin()
    assert list(admin.describe_consumer_groups([group])[group].result(30).members) == []
