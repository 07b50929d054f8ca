"""Whom a green run calls that has lost records or set some aside, in a real Airflow: what it says, and how often."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets import CommitOffsetsOperator
from airflow_kafka_offsets.errors import InvalidRequest
from tests.airflow.conftest import STORE, Orders


@pytest.fixture
def called(orders: Orders) -> Callable[[str], list[dict[str, Any]]]:
    """`called("lost")`: what was said, a call each."""
    orders.dag_id = "batch_that_calls"

    def read(name: str) -> list[dict[str, Any]]:
        file = orders.output.with_name(f"{orders.output.name}.{name}")
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    return read


def about(orders: Orders) -> dict[str, Any]:
    return {
        "text": f"batch {orders.key} of batch_that_calls",
        "pipeline": orders.log.pipeline_id,
        "work_store": f"file://{STORE}",
        "stored_as": orders.newest.name,
        "batch": orders.key,
        "plan_id": orders.newest.log.plan.plan_id,
        "group_id": orders.group,
        "output": str(orders.output),
    }


def test_a_loss_is_told_once_and_a_call_that_fails_is_no_failure(
    orders: Orders, called: Callable[[str], list[dict[str, Any]]], caplog: pytest.LogCaptureFixture
) -> None:
    orders.produce(5)
    assert orders.run().state == "success"
    orders.produce(5)
    orders.broker.delete_records({(orders.topic, 0): 8})
    assert orders.run().state == "failed"
    assert called("lost") == []

    run = orders.run({"policies": {"data_loss": "advance"}})
    assert run.state == "success"
    (failed,) = (record for record in caplog.records if "on_loss has failed in" in record.getMessage())
    assert "nobody was called. The batch is committed." in failed.getMessage()
    assert failed.exc_info is not None
    assert "no signal" in str(failed.exc_info[1])
    (told,) = called("lost")
    ((partition, of_it),) = told["topics"].pop(orders.topic).items()
    assert "log start" in of_it.pop("reason")
    assert (partition, of_it) == ("0", {"lost": 3, "position": 5, "start_offset": 8, "end_offset": 10})
    assert told == {**about(orders), "lost": 3, "topics": {}}
    assert called("bad") == []

    orders.produce(1)
    assert orders.run().state == "success"
    assert len(called("lost")) == 1, "the next batch has lost nothing"
    assert orders.clear(run, "orders.commit").state == "success"
    assert len(called("lost")) == 2


def test_records_that_were_set_aside_are_told_with_where_they_lie(
    orders: Orders, called: Callable[[str], list[dict[str, Any]]]
) -> None:
    orders.broker.produce(orders.topic, [(0, None, value, None) for value in (b"1", b"bad", b"2", b"bad")])
    assert orders.run().state == "success"
    lies = {"topics": {orders.topic: 2}, "bad_records_output": f"{orders.output}_bad"}
    assert called("bad") == [{**about(orders), "set_aside": 2, **lies}]


def test_a_run_that_finds_its_batch_done_calls_nobody(
    orders: Orders, called: Callable[[str], list[dict[str, Any]]]
) -> None:
    orders.broker.produce(orders.topic, [(0, None, b"bad", None)])
    failed = orders.run(reject=True)
    assert failed.state == "failed"
    assert called("bad") == []
    assert orders.run().state == "success"
    assert len(called("bad")) == 1
    assert orders.clear(failed, "orders.resolve", reject=False).state == "success"
    assert len(called("bad")) == 1, "another run has done it"


def test_what_cannot_be_called_is_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(InvalidRequest) as refused:
        CommitOffsetsOperator(task_id="commit", plan={}, on_loss="me", on_bad_records=[print, 3])  # type: ignore[arg-type,list-item]
    assert "on_loss is 'me'; give a function" in str(refused.value)
    assert "on_bad_records is [<built-in function print>, 3]" in str(refused.value)
