"""Schedules, a backfill and runs by hand on many machines, while workers, drivers and the queue's broker are killed.

Whatever is killed, the output holds every record once, each batch in one place, and the group is at the log's ends.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil
import pytest

from tests.machines.conftest import OTHER_USERS
from tests.machines.site import DEADLINE_S, HOUR, HOURS, LAST, RECORDS, START, WORKERS, Pipeline, Site


def test_a_schedule_loses_a_worker_in_spark_and_then_the_broker_of_its_queue(machines: Site) -> None:
    """The other worker goes on where the first one was killed. Redis is down until the second run's driver is done."""
    hourly = machines.pipeline("hourly")
    for hour in range(HOURS):
        hourly.produce_hour(START + hour * HOUR)
    machines.airflow.set_variable("machines_topic", hourly.topic)
    machines.airflow.pause("hourly", paused=False)

    driver = hourly.driver_that_reads()
    killed = machines.airflow.part_of(driver.pid)
    if os.getuid() == 0:
        hourly.wait_for("both Spark workers have an executor", lambda: _users_of_executors() == set(OTHER_USERS))
    assert killed in WORKERS
    machines.airflow.kill_part(killed)
    assert not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE

    hourly.wait_for("the first run has succeeded", lambda: _states(hourly)[:1] == ["success"])
    (first, *_) = sorted(machines.airflow.runs("hourly"))
    assert hourly.task(first, "spark").tries == 2
    machines.airflow.start_part(killed)

    hourly.driver_that_reads(attempt=3)
    machines.redis.kill()
    hourly.wait_for("the driver is done", lambda: len(hourly.names(".report.json")) == 2)
    machines.redis.start()

    hourly.wait_for("all runs have succeeded", lambda: _states(hourly) == ["success"] * HOURS)
    hourly.require_exact([RECORDS] * HOURS)
    assert hourly.committed() == hourly.at_the_end()
    used = {part for part in WORKERS if list(machines.airflow.machine_of(part).rglob("dag_id=hourly"))}
    assert used == set(WORKERS)


def test_a_backfill_loses_a_driver_and_one_of_its_runs_is_cleared(machines: Site) -> None:
    windows = machines.pipeline("windows")
    for hour in range(HOURS):
        windows.produce_hour(START + hour * HOUR)
    backfill = machines.airflow.create_backfill(
        "windows", START, LAST - HOUR, dag_run_conf={"topic": windows.topic}, max_active_runs=2
    )
    machines.airflow.pause("windows", paused=False)  # not before: its schedule would make the last interval's run

    windows.driver_that_reads().kill()

    windows.wait_for("all windows have been read", lambda: _states(windows) == ["success"] * HOURS)
    windows.wait_for("the backfill is over", lambda: machines.airflow.backfill_is_over(backfill))
    runs = sorted(machines.airflow.runs("windows"))
    assert sorted(windows.task(run, "spark").tries for run in runs) == [1] * (HOURS - 1) + [2]
    windows.require_exact([RECORDS] * HOURS)
    before, reports = windows.rows(), len(windows.names(".report.json"))

    machines.airflow.clear_run("windows", runs[1])
    windows.wait(runs[1])

    assert len(windows.names(".report.json")) == reports + 1, "it was read once more"
    assert windows.rows() == before
    windows.require_exact([RECORDS] * HOURS)
    assert windows.committed() == {}, "windows are no position"


@pytest.mark.parametrize("task", ["resolve", "commit"])
def test_a_worker_is_killed_while_it_runs(machines: Site, task: str) -> None:
    by_hand = machines.pipeline("by_hand")
    by_hand.produce_hour(START)
    run_id = by_hand.trigger()

    killed = by_hand.worker_of(run_id, f"orders.{task}")
    machines.airflow.kill_part(killed)
    by_hand.wait(run_id)
    machines.airflow.start_part(killed)

    assert by_hand.task(run_id, task).tries == 2
    by_hand.require_exact([RECORDS])
    assert by_hand.committed() == by_hand.at_the_end()


def test_a_run_waits_in_the_triggerer_for_another_ones_batch(machines: Site) -> None:
    """The triggerer has a home of its own, and finds the work store by the same setting and connection."""
    by_hand = machines.pipeline("by_hand")
    by_hand.produce_hour(START)
    first = by_hand.trigger()
    driver = by_hand.driver_that_reads()
    driver.send_signal(signal.SIGSTOP)
    by_hand.produce_hour(START + HOUR)
    second = by_hand.trigger()
    by_hand.wait_for("it waits", lambda: by_hand.task(second, "resolve").state == "deferred")
    by_hand.wait_for("the triggerer waits", lambda: bool(_logs_of_triggers(machines, "by_hand", second)))

    driver.send_signal(signal.SIGCONT)

    by_hand.wait(first)
    by_hand.wait(second)
    assert by_hand.task(second, "resolve").tries == 1
    by_hand.require_exact([RECORDS] * 2)
    assert by_hand.committed() == by_hand.at_the_end()


def test_a_deferrable_sensor_waits_in_the_triggerer(machines: Site) -> None:
    waits = Pipeline(machines, "waits", create=False)
    run_id = waits.trigger()
    machines.airflow.wait_for_task(
        "waits", run_id, "wait", lambda task: task.state == "deferred", deadline_s=DEADLINE_S
    )

    waits.create_topic()

    waits.wait(run_id)
    assert _logs_of_triggers(machines, "waits", run_id)


def _states(pipeline: Pipeline) -> list[str]:
    """Of the DAG's runs, in the order of their intervals."""
    return [state for _, state in sorted(pipeline.site.airflow.runs(pipeline.dag_id).items())]


def _logs_of_triggers(machines: Site, dag_id: str, run_id: str) -> list[str]:
    """The logs of a run's triggers, which only the triggerer's machine may have."""
    found = {
        part: [
            path.name
            for path in machines.airflow.machine_of(part).glob(
                f"airflow/logs/dag_id={dag_id}/run_id={run_id}/**/*.trigger.*"
            )
        ]
        for part in (*WORKERS, "triggerer")
    }
    assert not any(found[worker] for worker in WORKERS)
    return found["triggerer"]


def _users_of_executors() -> set[str]:
    users = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline():
                users.add(process.username())
    return users
