"""The example of the parts one by one, as it stands in ``dags/``: real Airflow, Kafka and Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from airflow_kafka_offsets.errors import ReadNotVerified
from testbed import airflow_home
from testbed.dag_runs import load_dag, run_dag
from tests.airflow.conftest import Orders
from tests.airflow.fixtures import PROJECT_DAGS

pytestmark = pytest.mark.slow
DAG_ID = "kafka_sensor_resolve_spark_commit"


@pytest.fixture
def parts(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> Any:
    variables = {"topics": orders.topic, "parts_group": orders.group, "parts_output": str(orders.output)}
    for name, value in airflow_home.variables({f"kafka_offsets_{k}": v for k, v in variables.items()}).items():
        monkeypatch.setenv(name, value)
    return load_dag(PROJECT_DAGS / "sensor_resolve_spark_commit.py", DAG_ID)


def read(orders: Orders) -> list[int]:
    return sorted(map(int, ds.dataset(orders.output, partitioning="hive").to_table()["body"].to_pylist()))


def test_a_sensor_a_resolve_the_providers_own_spark_task_and_a_commit_have_each_record_once(
    parts: Any, orders: Orders, xcom: Any
) -> None:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    assert type(parts.get_task("spark")) is SparkSubmitOperator
    orders.produce(5)
    first = run_dag(parts)
    orders.produce(3)
    second = run_dag(parts)

    assert (first.state, second.state) == ("success", "success")
    assert (read(orders), orders.committed) == ([*range(8)], {0: 8})
    assert xcom(DAG_ID, second, "commit")["read"] == 3
    nothing_new = run_dag(parts)
    assert [nothing_new.states(name) for name in ("wait", "resolve", "spark", "commit")] == [
        ["success"],
        *[["skipped"]] * 3,
    ]


def test_a_job_that_wrote_too_little_is_not_committed_and_the_next_run_writes_the_batch(
    parts: Any, orders: Orders, said: Any, tmp_path: Path
) -> None:
    spark = parts.get_task("spark")
    whole = Path(spark.application)
    broken = tmp_path / "broken.py"
    broken.write_text(whole.read_text().replace("records.selectExpr(", "records.where('offset > 1').selectExpr("))
    spark.application = str(broken)
    orders.produce(5)

    assert (run_dag(parts).states("commit"), orders.committed) == (["failed"], {})
    assert ReadNotVerified.__name__ in said()
    spark.application = str(whole)
    assert (run_dag(parts).state, read(orders), orders.committed) == ("success", [*range(5)], {0: 5})
