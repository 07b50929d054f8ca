"""Catching up on a real scheduler and triggerer: sixteen intervals, three runs at once and sixteen.

A run that finds another one at work on the batch waits for it, deferred. Nothing has to fail for that, and nothing is
tried twice: the grid stays green, although the tasks have no retries at all.
"""

from __future__ import annotations

import pytest

from tests.standalone.site import DAY, HOUR, PARTITIONS, RECORDS, Site, of_hour

INTERVALS = 16


@pytest.mark.parametrize("at_once", [3, 16])
def test_runs_that_catch_up_wait_for_each_other_and_none_of_their_tasks_fails_or_is_tried_again(
    site: Site, at_once: int
) -> None:
    dag_id = f"catching_up_{at_once}"
    topic = site.hours(INTERVALS, DAY)
    site.airflow.set_variable("by_time_topic", topic)
    site.airflow.pause(dag_id, paused=False)

    def over() -> bool:
        states = list(site.airflow.runs(dag_id).values())
        assert "failed" not in states, site.tries(dag_id)
        return states.count("success") == INTERVALS

    site.airflow.wait_until("all intervals have been read", over, 1200)
    site.airflow.pause(dag_id)

    tries = site.tries(dag_id)
    assert {number for *_, number in tries} <= {0, 1}, "nothing was tried twice; what has nothing to read, never"
    assert {state for _, task, state, _ in tries if task != "orders.read"} == {"success"}
    assert {state for _, task, state, _ in tries if task == "orders.read"} <= {"success", "skipped"}
    rows = sorted(value for values in site.rows(dag_id, topic).values() for value in values)
    assert rows == sorted(value for hour in range(INTERVALS) for value in of_hour(DAY + hour * HOUR))
    assert site.committed(dag_id, topic) == dict.fromkeys(range(PARTITIONS), INTERVALS * RECORDS)
    resolves = [site.log_of(dag_id, run, "orders.resolve") for run in site.airflow.runs(dag_id)]
    assert any("Waiting: AKO-" in text for text in resolves), "there was somebody to wait for"
