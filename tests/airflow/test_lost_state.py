"""The work store is lost, or another Airflow's: what Airflow and the group still know, and the way on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.dag_runs import RunResult, load_dag, run_dag
from tests.airflow.conftest import STORE, Orders

Said = Callable[[], str]
Purge = Callable[[RunResult], None]


def lose_store(orders: Orders) -> None:
    """All that the work store has of this pipeline."""
    shutil.rmtree(STORE / orders.log.root)


def lose_group(orders: Orders) -> None:
    """As Kafka does after seven days without a member."""
    admin = orders.broker.admin()
    admin.delete_consumer_groups([orders.group])[orders.group].result(30)


def test_a_position_that_nobody_knows_any_more_is_not_made_up(orders: Orders, said: Said) -> None:
    orders.produce(5)
    assert orders.run().state == "success"
    lose_store(orders)
    lose_group(orders)
    orders.produce(1)
    said()

    refused = orders.run()

    assert refused.states("orders.resolve") == ["failed"]
    text = said()
    assert f"Pipeline '{orders.group}/batch/orders.resolve' has no batch in work store file://{STORE}" in text
    assert "task orders.resolve has succeeded before" in text
    assert '{"kafka_offsets": {"restart": true}}' in text
    assert orders.log.newest() is None


def test_the_way_on_after_a_loss_is_a_restart(orders: Orders) -> None:
    orders.produce(5)
    assert orders.run().state == "success"
    lose_store(orders)
    lose_group(orders)
    assert orders.run({"restart": True}).state == "success"
    assert (orders.committed, len(orders.rows[orders.key])) == ({0: 5}, 5)
    orders.produce(2)
    assert orders.run().state == "success"
    assert (orders.committed, len(orders.rows[orders.key])) == ({0: 7}, 2)


def test_where_the_groups_marks_are_left_they_are_the_position(orders: Orders, said: Said) -> None:
    orders.produce(5)
    assert orders.run().state == "success"
    lose_store(orders)
    orders.produce(2)
    said()

    assert orders.run().state == "success"

    assert "it goes on from the group's offsets, after 0000000001-" in said()
    assert orders.key.startswith("0000000002-"), "no number comes back"
    assert orders.is_exact()
    assert orders.committed == {0: 7}


def test_a_cleared_first_run_does_not_take_a_lost_position_for_a_first_start(orders: Orders, said: Said) -> None:
    """There is no run before it; but there are runs after it."""
    orders.produce(5)
    first = orders.run()
    orders.produce(2)
    assert orders.run().state == "success"
    lose_store(orders)
    lose_group(orders)
    said()
    assert orders.clear(first, "orders.wait_for_partitions").states("orders.resolve") == ["failed"]
    assert "Its position is lost" in said()


def test_a_second_pipeline_of_one_dag_has_a_first_run_of_its_own(orders: Orders, group: str) -> None:
    """The group, and with it the pipeline, is a template: the DAG reads whatever its conf names."""
    orders.produce(2)
    assert orders.run().state == "success"
    orders.group, orders.output = f"{group}-second", orders.output.with_name("second")
    assert orders.run().state == "success"
    assert orders.committed == {0: 2}


ONE_TASK = """
from datetime import datetime
from airflow.sdk import DAG
from airflow_kafka_offsets import ResolveStartupOffsetsOperator

with DAG("TOPIC", schedule=None, start_date=datetime(2026, 1, 1)):
    ResolveStartupOffsetsOperator(
        task_id="resolve", topics="TOPIC", group_id="GROUP", startup_mode="earliest-offset", OUTPUT
    )
"""


@pytest.mark.parametrize("output", ["", 'output_name="/lake/{{ run_id }}"'], ids=["no output", "one for each run"])
def test_another_group_in_the_dag_is_no_first_start(orders: Orders, airflow: Path, said: Said, output: str) -> None:
    """The default pipeline_id has the group's name in it: the topic was read once more from its start, all green."""
    dag = airflow / "dags" / f"{orders.topic}.py"

    def run_with(group: str, **words: Any) -> RunResult:
        dag.write_text(ONE_TASK.replace("TOPIC", orders.topic).replace("GROUP", group).replace("OUTPUT", output))
        return run_dag(load_dag(dag, orders.topic), conf={"kafka_offsets": words})

    orders.produce(5)
    assert run_with(orders.group).state == "success"
    said()

    refused = run_with(f"{orders.group}-2")

    assert refused.states("resolve") == ["failed"]
    assert "If pipeline_id, group_id or work_store was changed, set it back" in said()
    assert run_with(f"{orders.group}-2", restart=True).state == "success"
    dag.unlink()


def test_where_the_xcoms_of_all_runs_are_gone_a_success_is_enough_to_refuse(
    orders: Orders, purge: Purge, said: Said
) -> None:
    """Then nobody knows whether it was this pipeline's."""
    orders.dag_id = "batch_of_nobody_else"
    orders.produce(5)
    first = orders.run()
    assert first.state == "success"
    purge(first)
    lose_store(orders)
    lose_group(orders)
    said()
    assert orders.run().states("orders.resolve") == ["failed"]
    assert "Its position is lost" in said()


def test_the_first_run_of_all_is_no_loss_however_often_it_is_tried(orders: Orders) -> None:
    """Its own task's earlier success is none of another run."""
    orders.produce(2)
    first = orders.run()
    lose_store(orders)
    lose_group(orders)
    shutil.rmtree(orders.output)
    assert orders.clear(first, "orders.wait_for_partitions").state == "success"
    assert orders.is_exact()


def test_another_airflow_is_told_whose_pipeline_it_is_and_may_take_it_over(
    orders: Orders, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move_to(instance: str) -> None:
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE", instance)

    move_to("production")
    orders.produce(2)
    assert orders.run().state == "success"
    orders.produce(1)
    move_to("staging")
    said()

    assert orders.run().states("orders.resolve") == ["failed"]
    text = said()
    assert f"Pipeline '{orders.group}/batch/orders.resolve' belongs to Airflow production" in text
    assert "this is Airflow staging" in text
    assert orders.committed == {0: 2}

    assert orders.run({"policies": {"another_airflow": "take-over"}}).state == "success"
    orders.produce(1)
    assert orders.run().state == "success", "once is enough"
    assert orders.is_exact()
    assert orders.committed == {0: 4}
    move_to("production")
    said()
    assert orders.run().states("orders.resolve") == ["failed"]
    assert "belongs to Airflow staging" in said()


def test_an_unfinished_batch_of_another_airflow_is_not_done_by_this_one(
    orders: Orders, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE", "production")
    orders.produce(2)
    orders.run(reject=True)
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE", "staging")
    said()
    assert orders.run().states("orders.resolve") == ["failed"]
    assert "belongs to Airflow production" in said()
    assert orders.attempts() == 1
