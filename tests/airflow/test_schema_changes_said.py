"""What the resolve task says of a schema that is another one than rows were written with before.

A real registry, broker and Airflow; Spark's part is `tests/airflow/reader.py`, which decodes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from airflow_kafka_offsets.log.read_reports import definitions_written
from airflow_kafka_offsets.values.row_definition import object_name
from testbed.dag_runs import RunResult
from testbed.registry_server import RegistryServer
from tests.airflow.conftest import Orders

AMOUNT = "version 1 → 2: new column amount BIGINT."
OLDER = (
    "has rows that were written with version 2 of subject {topic}-value, and this run writes them anew with version 1, "
    "which is older: what only version 2 has will be missing. If that is not meant, clear the run with the DAG's newer "
    "version"
)
Said = Callable[[], str]


@pytest.fixture
def typed(orders: Orders) -> Orders:
    """A pipeline whose runs have the DDL of their conf."""
    return replace(orders, dag_id="batch_typed")


@pytest.fixture
def of_registry(orders: Orders, schema_registry: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """A pipeline whose runs have the version of their conf; there are two."""
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", "host": schema_registry.url}))
    client = SchemaRegistryClient({"url": schema_registry.url})
    for fields in (["id"], ["id", "amount"]):
        columns = [{"name": name, "type": ["null", "long"], "default": None} for name in fields]
        record = {"type": "record", "name": "Order", "fields": columns}
        client.register_schema(f"{orders.topic}-value", Schema(json.dumps(record), "AVRO"))
    return replace(orders, dag_id="batch_of_registry")


def after(orders: Orders, count: int = 3, **conf: Any) -> RunResult:
    """A run after more records have come."""
    orders.produce(count)
    return orders.run(**conf)


def summary(xcom: Callable[..., Any], orders: Orders, run: RunResult) -> str:
    return str(xcom(orders.dag_id, run, "orders.resolve", "summary"))


def forget_definitions(orders: Orders) -> None:
    """Remove the row definitions of the newest batch, as a person may who takes them for rubbish."""
    newest = orders.newest
    digests = {*newest.log.history.definitions, *definitions_written(newest)}
    assert digests
    for digest in digests:
        newest.store.delete(object_name(digest))


def test_a_batch_of_a_newer_version_says_which_columns_are_new(of_registry: Orders, said: Said) -> None:
    assert after(of_registry, version=1).state == "success"
    assert after(of_registry, version=1).state == "success"
    assert "Schema of" not in said()
    run = after(of_registry, version=2)
    assert run.state == "success"
    found = said()
    assert f"Schema of {of_registry.topic}-value: {AMOUNT}" in found
    assert "which is older" not in found
    assert after(of_registry, version=2).state == "success"
    assert "Schema of" not in said()


def test_without_a_registry_a_changed_schema_is_said(typed: Orders, said: Said) -> None:
    after(typed, schema="id BIGINT")
    after(typed, schema="id BIGINT, note STRING")
    assert "The schema of value has changed: new column note STRING." in said()


def test_a_clear_with_an_older_version_is_warned_of_in_the_summary(
    of_registry: Orders, said: Said, xcom: Callable[..., Any]
) -> None:
    run = after(of_registry, version=2)
    key = of_registry.key
    said()
    again = of_registry.clear(run, "orders.resolve", version=1)
    assert again.state == "success"
    older = OLDER.format(topic=of_registry.topic)
    assert older in said()
    assert older in summary(xcom, of_registry, again)
    assert f"batch 1 {OLDER[:8]}" in summary(xcom, of_registry, again)
    assert of_registry.key == key
    of_registry.clear(run, "orders.resolve", version=2)
    found = said()
    assert AMOUNT in found, "the batch's own rows are of version 1 by now"
    assert "which is older" not in found


def test_the_next_run_that_does_a_failed_one_s_batch_is_warned_by_what_that_has_written(
    of_registry: Orders, said: Said, xcom: Callable[..., Any]
) -> None:
    after(of_registry, version=1)
    assert after(of_registry, version=2, reject=True).state == "failed"
    said()
    run = of_registry.run(version=1)
    assert run.state == "success"
    assert OLDER.format(topic=of_registry.topic) in summary(xcom, of_registry, run)
    assert "version 2 → 1: column amount is gone." in said()


def test_a_first_try_that_never_reached_the_registry_takes_nothing_from_what_the_next_says(
    of_registry: Orders, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(of_registry, version=1)
    of_registry.produce(3)
    with monkeypatch.context() as away:
        away.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", "host": "http://127.0.0.1:9"}))
        assert of_registry.run(version=2).state == "failed"
    found = said()
    assert "Cannot" in found
    assert "Schema of" not in found
    assert of_registry.run(version=2).state == "success"
    assert AMOUNT in said()


def test_definitions_that_are_gone_are_not_spoken_of_and_fail_nothing(of_registry: Orders, said: Said) -> None:
    run = after(of_registry, version=2)
    forget_definitions(of_registry)
    assert of_registry.clear(run, "orders.resolve", version=1).state == "success"
    forget_definitions(of_registry)
    assert after(of_registry, version=2).state == "success"
    found = said()
    assert "Schema of" not in found
    assert "which is older" not in found
