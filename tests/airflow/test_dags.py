"""The DAGs of `dags/` as they stand, with a real Spark."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.plan.topic_outputs import of_topic
from testbed.airflow_home import spark_defaults
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets, duplicated_or_missing, rows_by_batch, rows_of_delta
from testbed.dag_runs import RunResult
from testbed.jars import delta_jars
from testbed.java import Java
from testbed.spark import spark_conf

DAGS = Path(__file__).resolve().parents[2] / "dags"

SetVariables = Callable[..., None]


@pytest.fixture
def set_variables(monkeypatch: pytest.MonkeyPatch) -> SetVariables:
    """Airflow variables of the DAGs, without their common prefix."""

    def set_them(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"AIRFLOW_VAR_KAFKA_OFFSETS_{name}", value)

    return set_them


@pytest.fixture
def spark_with_delta(java: Java, spark_jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = spark_conf([*spark_jars, *delta_jars(java)])
    for name, value in spark_defaults(tmp_path / "spark", settings).items():
        monkeypatch.setenv(name, value)


def test_the_hourly_batch_writes_every_record_once_and_commits_the_ends(
    run: Callable[..., RunResult],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    tmp_path: Path,
    set_variables: SetVariables,
) -> None:
    name, output = topic(3), tmp_path / "orders"
    set_variables(TOPICS=name, GROUP=group, OUTPUT=str(output))
    broker.produce_many(name, 1_000, partitions=2, value=lambda n: str(n).encode())

    first = run("kafka_hourly_batch", file=DAGS / "hourly_batch.py")
    broker.produce_many(name, 300, partitions=3, value=lambda n: str(1_000 + n).encode())
    second = run("kafka_hourly_batch", {"splits": 2}, file=DAGS / "hourly_batch.py")

    assert (first.state, second.state) == ("success", "success")
    assert second.states("orders.spark") == ["success", "success"]
    assert list(rows_by_batch(output).values()) == [1_000, 300]
    assert duplicated_or_missing(output, 1_300) == (0, 0)
    assert committed_offsets(broker, group, name) == {0: 600, 1: 600, 2: 100}


def test_the_typed_batch_makes_rows_of_good_orders_and_sets_bad_ones_aside(
    run: Callable[..., RunResult],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    tmp_path: Path,
    set_variables: SetVariables,
    xcom: Callable[..., Any],
    spark_with_delta: None,
) -> None:
    name, table = topic(2), tmp_path / "typed"
    set_variables(JSON_TOPIC=name, JSON_GROUP=group, TABLE=str(table))
    broker.produce_many(name, 200, partitions=2, value=lambda n: b"no json" if n in (7, 100) else json_order(n))

    result = run("kafka_typed_orders", file=DAGS / "typed_orders.py")

    assert result.state == "success"
    rows = rows_of_delta(table)
    assert sorted(row["id"] for row in rows) == [n for n in range(200) if n not in (7, 100)]
    assert {str(row["day"]) for row in rows} == {"2026-11-20", "2026-11-21"}
    assert sum(rows_by_batch(Path(f"{table}_bad")).values()) == 2
    assert "2 set aside as bad" in xcom("kafka_typed_orders", result, "orders.commit", "summary")
    committed = xcom("kafka_typed_orders", result, "orders.commit")
    assert (committed["set_aside"], committed["left_out"]) == (2, 0)
    assert committed_offsets(broker, group, name) == {0: 100, 1: 100}


def test_the_entity_tables_have_a_table_for_each_topic_and_what_is_deleted_stays_deleted(
    run: Callable[..., RunResult],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    tmp_path: Path,
    set_variables: SetVariables,
    xcom: Callable[..., Any],
    spark_with_delta: None,
) -> None:
    customers, places = topic(1), topic(1)
    set_variables(ENTITY_TOPICS=f"{customers}|{places}", ENTITY_GROUP=group, ENTITIES=str(tmp_path / "lake"))
    entities = {name: tmp_path / "lake" / of_topic("{topic}", name) for name in (customers, places)}
    changes = [(b"1", b'{"name": "Ann"}'), (b"2", b'{"name": "Bob"}'), (b"3", b'{"name": "Cid"}'), (b"4", b"no json")]
    broker.produce(customers, [(0, key, value, None) for key, value in changes])
    broker.produce(places, [(0, b"1", b'{"name": "Rome"}', None)])

    first = run("kafka_entity_tables", file=DAGS / "entity_tables.py")
    deletes = [(b"1", None), (b"2", b'{"op": "d"}'), (b"3", b'{"name": "Cy"}')]
    broker.produce(customers, [(0, key, value, None) for key, value in deletes])
    second = run("kafka_entity_tables", file=DAGS / "entity_tables.py")

    assert (first.state, second.state) == ("success", "success")
    rows = {row["id"]: (row["name"], row["kafka_deleted"]) for row in rows_of_delta(entities[customers])}
    assert rows == {"1": (None, True), "2": (None, True), "3": ("Cy", False)}
    assert [row["name"] for row in rows_of_delta(entities[places])] == ["Rome"]
    assert sum(rows_by_batch(tmp_path / "lake_bad").values()) == 1
    counted = xcom("kafka_entity_tables", first, "entities.commit")
    assert counted["proof"].startswith("scanned and merged by key")
    assert {name: (of["rows"], of["set_aside"]) for name, of in counted["topics"].items()} == {
        customers: (3, 1),
        places: (1, 0),
    }


def json_order(number: int) -> bytes:
    return json.dumps({"id": number, "amount": 1 + number / 4, "at": f"2026-11-{20 + number % 2}T10:00:00Z"}).encode()


def test_each_record_is_in_the_output_of_exactly_one_window(
    run: Callable[..., RunResult],
    broker: KafkaBroker,
    topic: Any,
    tmp_path: Path,
    set_variables: SetVariables,
) -> None:
    name, output = topic(2), tmp_path / "by-hour"
    set_variables(TOPICS=name, BACKFILL_OUTPUT=str(output))
    # Three hours of 60 records, one a minute, the first of each hour exactly on it.
    begin = datetime(2026, 11, 20, 10, tzinfo=UTC)
    start_ms = int(begin.timestamp() * 1000)
    broker.produce_many(
        name, 180, partitions=2, value=lambda n: str(n).encode(), timestamp_ms=lambda n: start_ms + n * 60_000
    )

    results = [
        # A manual run's interval is the last complete one before its logical date.
        run(
            "kafka_backfill_by_timestamp",
            logical_date=begin + timedelta(hours=hour + 1),
            file=DAGS / "backfill_by_timestamp.py",
        )
        for hour in (2, 0, 1)  # in any order
    ]

    assert [result.state for result in results] == ["success"] * 3
    rows = rows_by_batch(output)
    assert list(rows.values()) == [60, 60, 60]
    assert [key.partition("--")[0] for key in rows] == [f"20261120T{hour}0000Z" for hour in (10, 11, 12)], list(rows)
    assert duplicated_or_missing(output, 180) == (0, 0)
    assert committed_offsets(broker, "connection-group", name) == {}


def test_the_lag_driven_batch_reads_what_is_there_commits_it_and_says_so(
    run: Callable[..., RunResult],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    tmp_path: Path,
    set_variables: SetVariables,
) -> None:
    name, output = topic(2), tmp_path / "micro-batch"
    set_variables(TOPICS=name, MICRO_BATCH_GROUP=group, MICRO_BATCH_OUTPUT=str(output))
    broker.produce_many(name, 500, partitions=2, value=lambda n: str(n).encode())

    result = run("kafka_lag_driven_micro_batch", file=DAGS / "lag_driven_micro_batch.py")

    assert result.state == "success"
    assert list(rows_by_batch(output).values()) == [500]
    assert duplicated_or_missing(output, 500) == (0, 0)
    assert committed_offsets(broker, group, name) == {0: 250, 1: 250}
