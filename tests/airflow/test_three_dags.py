"""The three DAGs that people write, as they write them: real Airflow, Kafka and Spark.

Only the names that a test must not share with another one are replaced: the topic, the group and the root of the lake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets, rows_of_delta, values_of
from testbed.dag_runs import load_dag, run_dag

pytestmark = pytest.mark.slow
JOBS = Path(__file__).resolve().parent / "jobs"
HEAD = """
from datetime import UTC, datetime
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow_kafka_offsets import (
    CommitOffsetsOperator, Delta, Json, ResolveStartupOffsetsOperator, Rows, Timestamp, kafka_spark_batch
)
hourly = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
with DAG({dag_id!r}, schedule={schedule}, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False):
"""
TYPED = """
kafka_spark_batch("orders", topics=["orders"], group_id="orders-to-lake", start="earliest", rows=Rows(value=Json("id BIGINT, amount DECIMAL(10,2), at TIMESTAMP")), sink=Delta("/lake/orders"))
"""  # noqa: E501
OLD = """
resolve = ResolveStartupOffsetsOperator(task_id="resolve", topics=["orders"], group_id="orders-to-lake", start="earliest", require_report=False)
read = SparkSubmitOperator(task_id="read", application="jobs/old.py", application_args=["--assign", resolve.output["assign"], "--starting-offsets", resolve.output["starting_offsets"], "--ending-offsets", resolve.output["ending_offsets"], "--key", resolve.output["batch_key"]])
commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"])
resolve >> read >> commit
"""  # noqa: E501
HOURS = """
kafka_spark_batch("hours", topics=["orders"], start=Timestamp(), end=Timestamp(), sink=Delta("/lake/by-hour"))
"""

MakeDag = Callable[..., Any]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def orders(topic: Callable[..., str]) -> str:
    return topic(2, prefix="orders")


@pytest.fixture
def dag(airflow: Path, lake: Path, orders: str, group: str) -> Iterator[MakeDag]:
    """`dag(code, schedule="None")`: the DAG of that code, in Airflow's folder."""
    file = airflow / "dags" / f"{orders}.py"

    def make(code: str, schedule: str = "None") -> Any:
        for ours, theirs in (('"orders"]', f'"{orders}"]'), ("orders-to-lake", group), ("/lake", str(lake))):
            code = code.replace(ours, theirs)
        code = code.replace("jobs/old.py", str(JOBS / "old.py"))
        body = "".join(f"    {line}\n" for line in code.strip().splitlines())
        file.write_text(HEAD.format(dag_id=orders, schedule=schedule) + body)
        return load_dag(file, orders)

    yield make
    file.unlink()


def produce(broker: KafkaBroker, topic: str, values: list[str], timestamp_ms: int | None = None) -> None:
    broker.produce(topic, [(n % 2, None, value.encode(), timestamp_ms) for n, value in enumerate(values)])


def test_typed_rows_into_delta(
    dag: MakeDag, broker: KafkaBroker, orders: str, group: str, lake: Path, xcom: Any
) -> None:
    values = [json.dumps({"id": n, "amount": "9.99", "at": "2026-11-20T10:00:00Z"}) for n in range(6)]
    typed = dag(TYPED)
    produce(broker, orders, values[:4])
    first = run_dag(typed)
    produce(broker, orders, values[4:])
    second = run_dag(typed)

    assert (first.state, second.state) == ("success", "success")
    rows = rows_of_delta(lake / "orders")
    assert sorted(row["id"] for row in rows) == [*range(6)]
    assert {str(row["amount"]) for row in rows} == {"9.99"}
    assert committed_offsets(broker, group, orders) == {0: 3, 1: 3}
    assert run_dag(typed).states("orders.spark") == ["skipped"]
    key = xcom(orders, second, "orders.resolve", "batch_key")
    assert sorted(row["id"] for row in rows if row["kafka_batch"] == key) == [4, 5]


def test_an_old_job_with_the_offsets_as_xcoms(
    dag: MakeDag, broker: KafkaBroker, orders: str, group: str, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLD_JOB_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("OLD_JOB_OUTPUT", str(lake))
    old = dag(OLD)
    produce(broker, orders, ["0", "1", "2"])
    first = run_dag(old)
    produce(broker, orders, ["3", "4"])
    second = run_dag(old)

    assert (first.state, second.state) == ("success", "success")
    rows = ds.dataset(lake, partitioning="hive").to_table()
    assert sorted(map(int, rows["value"].to_pylist())) == [*range(5)]
    assert committed_offsets(broker, group, orders) == {0: 3, 1: 2}


def test_a_window_for_each_data_interval_in_any_order_with_late_records(
    dag: MakeDag, broker: KafkaBroker, orders: str, lake: Path
) -> None:
    day = datetime(2026, 3, 1, tzinfo=UTC)
    hours = dag(HOURS.replace("end=Timestamp(), ", 'end=Timestamp(), sensor={"idle_timeout": 1}, '), schedule="hourly")

    def at(hour: int) -> int:
        return round((day + timedelta(hours=hour, minutes=30)).timestamp() * 1000)

    for hour in range(3):
        produce(broker, orders, [str(4 * hour + n) for n in range(4)], at(hour))
    runs = [run_dag(hours, logical_date=day + timedelta(hours=2))]
    produce(broker, orders, ["12", "13"], at(1))  # late: its window is planned
    runs += [run_dag(hours, logical_date=day + timedelta(hours=hour)) for hour in (1, 3)]

    assert [run.state for run in runs] == ["success"] * 3
    assert values_of(lake / "by-hour") == [*range(14)]
