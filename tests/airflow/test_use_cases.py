"""What people do to a run, and what becomes of the records: each of them is in the output once, in every case."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from testbed.dag_runs import load_dag
from tests.airflow.conftest import STORE, WIRING, Orders

pytestmark = pytest.mark.long

TASKS = ["orders.wait", "orders.resolve", "orders.read", "check", "orders.commit"]
HOUR_MS = 3_600_000
SHELL = {
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    **{name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_") or name == "HOME"},
}


def test_a_run_reads_what_is_new_and_the_group_follows(orders: Orders, xcom: Any, events: Any) -> None:
    orders.produce(5)
    first = orders.run()
    orders.produce(3)
    second = orders.run()

    assert (first.state, second.state) == ("success", "success")
    assert [*orders.rows.values()] == [[0, 1, 2, 3, 4], [5, 6, 7]]
    assert orders.committed == {0: 8}
    assert xcom("batch", second, "orders.commit")["read"] == 3
    assert [event["batch_key"] for event in events(second)] == [[*orders.rows][1]]
    assert xcom("batch", second, "orders.resolve", "batch_key") == [*orders.rows][1]


def test_with_nothing_new_all_tasks_behind_resolve_are_skipped_and_no_event_is_published(
    orders: Orders, xcom: Any, events: Any
) -> None:
    orders.produce(5)
    orders.run()
    run = orders.run()

    assert run.state == "success"
    assert [run.states(task) for task in TASKS] == [["success"], *[["skipped"]] * 4]
    assert events(run) == []
    assert "nothing new" in xcom("batch", run, "orders.resolve", "summary")


def test_a_driver_that_ends_badly_after_it_has_written_is_started_again_and_writes_into_the_same_place(
    orders: Orders,
) -> None:
    orders.dag_id = "batch_retried"
    orders.produce(5)
    run = orders.run(first_try_fails=True)

    assert run.state == "success"
    assert {task.task_id: task.tries for task in run.tasks}["orders.read"] == 2
    assert orders.is_exact()
    assert orders.committed == {0: 5}


@pytest.mark.parametrize("downstream", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", TASKS)
def test_whatever_is_cleared_after_a_success_each_record_stays_there_once(
    orders: Orders, task: str, downstream: bool
) -> None:
    orders.produce(5)
    run = orders.run()
    key = [*orders.rows]
    orders.produce(3)
    cleared = orders.clear(run, task, downstream=downstream)

    assert cleared.state == "success" or (task, downstream) == ("orders.read", False)
    assert ([*orders.rows], orders.committed) == (key, {0: 5})
    assert orders.run().state == "success"
    assert orders.is_exact()
    assert orders.committed == {0: 8}


def test_a_check_that_fails_commits_nothing_and_the_next_run_does_that_batch_again(orders: Orders) -> None:
    orders.produce(5)
    rejected = orders.run(reject=True)
    key = [*orders.rows]
    orders.produce(3)

    assert (rejected.state, orders.committed) == ("failed", {})
    assert (orders.run().state, orders.committed, [*orders.rows]) == ("success", {0: 5}, key)
    assert (orders.run().state, orders.committed) == ("success", {0: 8})
    assert orders.is_exact()


def test_a_check_that_is_skipped_fails_the_run_and_commits_nothing(orders: Orders, said: Any) -> None:
    orders.produce(5)
    run = orders.run(reject="skip")

    assert (run.states("check"), run.states("orders.commit")) == (["skipped"], ["failed"])
    assert "check was skipped" in said()
    assert (run.state, orders.committed) == ("failed", {})
    assert (orders.run().state, orders.committed, orders.is_exact()) == ("success", {0: 5}, True)


def test_in_a_mapped_group_a_skipped_check_fails_the_commit_of_its_own_index(orders: Orders) -> None:
    orders.dag_id = "batch_mapped"
    for index in range(2):
        orders.broker.create_topic(f"{orders.topic}-{index}")
        orders.broker.produce(f"{orders.topic}-{index}", [(0, None, b"%d" % index, None)])
    run = orders.run()

    assert run.states("per_topic.check") == ["success", "skipped"]
    assert run.states("per_topic.orders.commit") == ["success", "failed"]


def test_without_a_report_nothing_is_committed(orders: Orders, said: Any) -> None:
    orders.produce(5)
    run = orders.run(report=False)

    assert (run.states("orders.commit"), orders.committed) == (["failed"], {})
    assert "ReadNotVerified" in said()


@pytest.mark.parametrize("state", ["up_for_retry", None])
def test_of_two_runs_at_once_one_has_the_batch_and_the_other_one_waits_for_it(
    orders: Orders, set_states: Any, said: Any, state: str | None
) -> None:
    orders.produce(5)
    first = orders.run(reject=True)
    set_states(first, "running", {"orders.commit": state})
    second = orders.run()

    assert second.states("orders.resolve") == ["failed"]
    assert "OverlappingRun" in said()
    set_states(first, "running", {"orders.commit": "failed", "orders.wait": "success"})  # other tasks may still run
    assert orders.clear(second, "orders.resolve").state == "success"
    assert orders.is_exact()


def test_the_tasks_between_a_lone_resolve_and_its_commit_have_the_batch(
    orders: Orders, set_states: Any, said: Any
) -> None:
    orders.dag_id = "old_job"
    orders.produce(5)
    first = orders.run(reject=True)
    set_states(first, "running", {"read_options": "running"})
    second = orders.run()

    assert second.states("resolve") == ["failed"]
    assert "OverlappingRun" in said()
    set_states(first, "running", {"read_options": "success", "notify": "running"})
    assert orders.clear(second, "resolve").state == "success"
    assert orders.is_exact()


def test_airflow_remembers_the_last_batch_that_a_run_planned_and_no_batch_that_was_written_again(
    orders: Orders, xcom: Any
) -> None:
    orders.dag_id = "remembering"
    runs = []
    for _ in range(2):
        orders.produce(2)
        runs.append(orders.run())
    remembered, key = (partial(xcom, orders.dag_id, task_id="resolve", key=k) for k in ("remembered", "batch_key"))
    assert [remembered(run) for run in runs] == [None, key(runs[0])]
    orders.clear(runs[0], "resolve")
    assert remembered(orders.run()) == key(runs[1])


def test_an_old_job_that_knows_nothing_of_the_package_gets_its_offsets_and_is_trusted(orders: Orders) -> None:
    orders.dag_id = "old_job"
    orders.produce(5)

    assert (orders.run(reject=True).state, orders.committed) == ("failed", {})
    orders.produce(3)
    assert (orders.run().state, orders.committed) == ("success", {0: 5})
    assert orders.run().state == "success"
    assert orders.is_exact()


def test_offsets_inside_of_a_config_object_may_be_what_another_task_returns(orders: Orders, xcom: Any) -> None:
    orders.dag_id = "offsets_from_a_task"
    orders.produce(5)
    run = orders.run()

    assert xcom(orders.dag_id, run, "resolve", "starting_offsets") == {orders.topic: {"0": 3}}
    assert load_dag(WIRING, orders.dag_id).get_task("resolve").upstream_task_ids == {"where"}


def test_a_config_object_that_is_wrong_once_it_is_rendered_fails_without_a_retry(orders: Orders, said: Any) -> None:
    orders.dag_id = "batch_typed"
    orders.produce(5)
    run = orders.run(schema="id BIGINT NOT NULL")

    assert {task.task_id: task.tries for task in run.tasks}["orders.resolve"] == 1
    assert "Json.schema has NOT NULL" in said()


# ── what changed around a pipeline is refused, and no retry is lost on it ─────────────────────────────────────────────


def test_a_group_that_another_client_moved_is_refused_until_a_person_acknowledges_it(orders: Orders, said: Any) -> None:
    orders.dag_id = "batch_retried"
    orders.produce(5)
    orders.run()
    orders.produce(3)
    with KafkaCluster(orders.broker.client_config) as cluster:
        cluster.commit_offsets(orders.group, {TopicPartition(orders.topic, 0): CommittedOffset(2)})
    refused = orders.run()

    assert (refused.state, {task.task_id: task.tries for task in refused.tasks}["orders.resolve"]) == ("failed", 1)
    assert "GroupMoved" in (refusal := said())
    assert orders.run_printed(refusal).state == "success"
    assert orders.is_exact()
    assert orders.committed == {0: 8}


@pytest.mark.slow
def test_the_command_that_a_refusal_prints_triggers_the_act_as_it_stands(orders: Orders, said: Any) -> None:
    """In a shell that knows where Airflow is, and nothing else of this process."""
    orders.produce(5)
    orders.run()
    with KafkaCluster(orders.broker.client_config) as cluster:
        cluster.commit_offsets(orders.group, {TopicPartition(orders.topic, 0): CommittedOffset(2)})
    orders.produce(1)
    orders.run()
    command = re.search(r"or: (airflow dags trigger \S+ --conf '.*?')", said())
    assert command is not None
    subprocess.run(["airflow", "dags", "reserialize"], env=SHELL, check=True)
    subprocess.run(["bash", "-c", command[1]], env=SHELL, check=True)

    with create_session() as session:
        triggered = session.scalars(select(DagRun).where(DagRun.dag_id == "batch").order_by(DagRun.id.desc())).first()
        assert triggered is not None
        assert (triggered.run_type, list(triggered.conf["kafka_offsets"])) == (
            "manual",
            ["pipeline", "after", "reason", "acknowledge"],
        )
        assert triggered.triggering_user_name


def test_a_lost_checkpoint_location_is_refused_and_does_not_read_everything_again(orders: Orders, said: Any) -> None:
    orders.produce(5)
    orders.run()
    (STORE / orders.topic).rename(STORE / f"{orders.topic}-lost")

    assert orders.run().states("orders.resolve") == ["failed"]
    assert "CheckpointLost" in said()
    (STORE / f"{orders.topic}-lost").rename(STORE / orders.topic)
    assert orders.run().state == "success"


def test_records_that_are_gone_fail_the_run_unless_it_may_go_on_without_them(
    orders: Orders, said: Any, xcom: Any
) -> None:
    orders.produce(5)
    orders.run(reject=True)
    orders.broker.delete_records({(orders.topic, 0): 2})
    for file in [*orders.output.rglob("*.json"), *(STORE / orders.topic).rglob("*.report.json")]:
        file.unlink()  # the driver has not got so far

    assert orders.run().states("orders.resolve") == ["failed"]
    assert "DataLoss" in said()
    orders.dag_id = "batch_advancing"
    run = orders.run()
    assert run.state == "success"
    assert [*orders.rows.values()] == [[2, 3, 4]]
    assert xcom(orders.dag_id, run, "orders.commit")["lost"] == 2


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def at(hour: int) -> int:
    """A moment in that hour of the day, in milliseconds."""
    return round((DAY + timedelta(hours=hour, minutes=30)).timestamp() * 1000)


def after(hour: int) -> datetime:
    """When the run of that hour is due."""
    return DAY + timedelta(hours=hour + 1)


def test_windows_in_any_order_with_late_records_in_between_have_each_record_once(orders: Orders) -> None:
    orders.dag_id = "hours"
    for hour in range(6):
        orders.produce(4, at(hour))
    for hours, late in [((3, 1), (0, 3)), ((0, 4), (1, 4)), ((2,), (2, 5)), ((5,), ())]:
        for hour in hours:
            assert orders.run(logical_date=after(hour)).state == "success"
        for hour in late:
            orders.produce(2, at(hour))

    assert orders.is_exact()
    assert len(orders.rows) == 6


def test_a_window_that_is_run_again_reads_the_same_records_and_one_without_records_is_a_batch_too(
    orders: Orders,
) -> None:
    orders.dag_id = "hours"
    orders.produce(4, at(1))
    empty = orders.run(logical_date=after(0))
    run = orders.run(logical_date=after(1))
    before = orders.rows
    orders.produce(4, at(1))

    assert (empty.state, run.state) == ("success", "success")
    assert orders.clear(run, "orders.resolve").state == "success"
    assert orders.rows == before
    window = [(DAY + timedelta(hours=n)).isoformat() for n in (2, 5)]
    assert orders.run({"window": window}, logical_date=after(9)).state == "success"
    assert orders.is_exact()


def test_a_window_is_waited_for_until_each_partition_has_a_later_record_or_is_idle(orders: Orders) -> None:
    orders.dag_id = "hours_awaited"
    orders.produce(4, at(1))

    assert orders.run(logical_date=after(1)).state == "success"
    assert orders.is_exact()


def test_a_run_without_an_interval_has_no_window_and_says_so(orders: Orders, said: Any) -> None:
    orders.dag_id = "windows_without_intervals"
    orders.produce(1)

    assert orders.run().states("orders.resolve") == ["failed"]
    assert "InvalidRequest" in (text := said())
    assert "interval" in text
