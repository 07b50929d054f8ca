"""``catch_up=True``: the commit has Airflow make the next run, once, and the runs end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from airflow_kafka_offsets import kafka_spark_batch
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.next_run import conf_of_next, target_of
from testbed.dag_runs import continue_run, load_dag
from tests.airflow.conftest import WIRING, Orders
from tests.airflow.test_clearing import set_task_state

DAG_ID = "batch_that_catches_up"


@pytest.fixture
def catching_up(orders: Orders) -> Orders:
    orders.dag_id = DAG_ID
    return orders


@pytest.fixture
def asked_for(airflow: Path, group: str) -> Callable[[], list[Any]]:
    """`asked_for()`: the runs that commits of this test's group have asked for, the oldest first."""

    def find() -> list[Any]:
        from airflow.models.dagrun import DagRun

        runs = [run for run in DagRun.find(dag_id=DAG_ID) if run.run_id.startswith("catch_up__")]
        return sorted((run for run in runs if run.conf["group"] == group), key=lambda run: run.run_id)

    return find


def test_one_run_by_hand_reads_a_backlog_of_several_caps_to_the_end(
    catching_up: Orders,
    asked_for: Callable[[], list[Any]],
    said: Callable[[], str],
    set_run_state: Callable[[Any, str], None],
) -> None:
    catching_up.produce(10)
    catching_up.run(max_records=4)
    (second,) = asked_for()
    assert (str(second.state), second.logical_date, second.data_interval_start) == ("queued", None, None)
    pipeline = f"{catching_up.group}/{DAG_ID}/orders.resolve"
    assert (second.conf["kafka_offsets_catch_up"], second.conf["max_records"]) == ({pipeline: 6}, 4)
    assert f"Run {second.run_id} follows at once, for 6 records that are left." in said()

    dag = load_dag(WIRING, DAG_ID)
    set_run_state(second, "running")  # as the scheduler does
    assert continue_run(dag, second.run_id).state == "success"
    third = asked_for()[1]
    assert third.conf["kafka_offsets_catch_up"] == {pipeline: 2}
    set_run_state(third, "running")
    assert continue_run(dag, third.run_id).state == "success"

    assert len(asked_for()) == 2, "the last one had all that was there"
    assert "No run follows at once: its batch had all that was there when it was planned" in said()
    assert catching_up.committed == {0: 10}
    assert catching_up.is_exact()


def test_a_commit_that_is_tried_again_asks_for_one_run(
    catching_up: Orders, asked_for: Callable[[], list[Any]], said: Callable[[], str]
) -> None:
    catching_up.produce(10)
    run = catching_up.run(max_records=4)
    again = catching_up.clear(run, "orders.commit")
    assert again.states("orders.commit") == ["success"]
    assert len(asked_for()) == 1
    assert "was asked for before" in said()


def test_words_for_one_run_are_not_for_the_next(catching_up: Orders, asked_for: Callable[[], list[Any]]) -> None:
    catching_up.produce(10)
    catching_up.run({"restart": True}, max_records=4)
    (second,) = asked_for()
    assert "kafka_offsets" not in second.conf


def test_where_airflow_refuses_the_run_the_commit_is_a_success_and_says_so(
    catching_up: Orders, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.execution_time.comms import ErrorResponse

    def refuses(*_: Any) -> bool:
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"reason": "denied_run_type"}))

    monkeypatch.setattr("airflow_kafka_offsets.operators.commit.trigger_run", refuses)
    catching_up.produce(10)
    assert catching_up.run(max_records=4).states("orders.commit") == ["success"]
    assert "No run follows at once: Airflow refuses it: " in said()
    assert catching_up.committed == {0: 4}


def test_a_backfill_asks_for_none(
    catching_up: Orders, asked_for: Callable[[], list[Any]], said: Callable[[], str]
) -> None:
    """As one that reprocesses: it clears the run, whose type is then backfill."""
    catching_up.produce(10)
    run = catching_up.run(max_records=4, reject=True)
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == run.run_id).values(run_type="backfill"))
    set_task_state(run, "check", "success")
    catching_up.clear(run, "orders.commit", reject=False)
    assert catching_up.committed == {0: 4}
    assert asked_for() == []
    assert "No run follows at once: a backfill has its own runs" in said()


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"bounded_mode": "timestamp"}, "bounded_mode='timestamp'"),
        ({"startup_mode": "timestamp"}, "startup_mode='timestamp' without a time"),
    ],
)
def test_bounds_by_the_runs_interval_are_refused_when_the_dag_is_parsed(
    airflow: Path, bounds: dict[str, str], words: str
) -> None:
    from airflow.sdk import DAG

    with DAG("any", schedule=None), pytest.raises(InvalidRequest, match=words):
        kafka_spark_batch(
            "a", topics="t", group_id="g", sink={"format": "parquet", "path": "/a"}, catch_up=True, **bounds
        )


def test_a_runs_conf_tells_its_target_for_each_pipeline_alone() -> None:
    conf = conf_of_next({"topic": "orders", "kafka_offsets": {"redo": True}}, "a", 7)
    assert conf == {"topic": "orders", "kafka_offsets_catch_up": {"a": 7}}
    assert (target_of(conf, "a"), target_of(conf, "b"), target_of({}, "a"), target_of(None, "a")) == (
        7,
        None,
        None,
        None,
    )
    assert [target_of({"kafka_offsets_catch_up": odd}, "a") for odd in (7, {"a": "7"}, {"a": True}, None)] == [None] * 4
