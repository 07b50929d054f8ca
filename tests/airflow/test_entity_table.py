"""The example of an entity table, as it is written: real Airflow, Kafka and Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import rows_of_delta
from testbed.dag_runs import load_dag, run_dag
from tests.airflow.fixtures import PROJECT_DAGS

pytestmark = pytest.mark.slow


def test_one_row_per_customer_behind_the_commit(
    airflow: Path,
    broker: KafkaBroker,
    topic: Callable[..., str],
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, tables = topic(2, prefix="customers"), tmp_path / "customers"
    variables = {"topic": name, "group": group}
    given = {f"kafka_offsets_customers_{word}": value for word, value in variables.items()}
    environment = airflow_home.variables({**given, "kafka_offsets_customers": str(tables)})
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)

    def produce(*changes: tuple[int, str | None, str]) -> None:
        for key, customer, op in changes:
            event = {"op": op, "after": None if customer is None else {"id": key, "name": customer, "city": "Lyon"}}
            value = None if op == "tombstone" else json.dumps(event).encode()
            broker.produce(name, [(key % 2, b'{"id": %d}' % key, value, None)])

    dag = load_dag(PROJECT_DAGS / "entity_tables.py", "kafka_entity_tables")
    produce((1, "Ann", "c"), (2, "Bob", "r"), (3, "Cem", "c"))
    first = run_dag(dag)
    produce((1, "Anna", "u"), (2, None, "d"), (3, None, "tombstone"), (4, "Dee", "c"))
    second = run_dag(dag)

    assert (first.state, second.state) == ("success", "success")
    assert {row["id"]: row["name"] for row in rows_of_delta(tables / "current")} == {1: "Anna", 4: "Dee"}
    assert len(rows_of_delta(tables / "changes")) == 7
    assert run_dag(dag).states("customers") == ["skipped"]
