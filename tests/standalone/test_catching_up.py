"""Catching up on a real scheduler and triggerer: sixteen intervals, three runs at once and sixteen; and through a cap.

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


def test_one_run_by_hand_reads_a_backlog_of_several_caps_to_the_end(site: Site) -> None:
    """80 records and a cap of 20: the commit of each run triggers the next one, and the last one triggers none."""
    dag_id = "catches_up_through_its_cap"
    topic = site.hours(8, DAY)
    site.run(dag_id, conf={"topic": topic})

    def all_are_over() -> bool:
        states = list(site.airflow.runs(dag_id).values())
        assert "failed" not in states, site.tries(dag_id)
        return states == ["success"] * 4

    site.airflow.wait_until("three more runs have come", all_are_over, 240)
    rows = site.rows(dag_id, topic)
    assert [len(values) for _, values in sorted(rows.items())] == [20] * 4
    everything = sorted(value for hour in range(8) for value in of_hour(DAY + hour * HOUR))
    assert sorted(value for values in rows.values() for value in values) == everything
    assert site.committed(dag_id, topic) == dict.fromkeys(range(PARTITIONS), 8 * RECORDS)
    followed = sorted(run for run in site.airflow.runs(dag_id) if run.startswith("catch_up__"))
    assert [run.split("-")[0] for run in followed] == [f"catch_up__{number:010}" for number in (1, 2, 3)]
    last = site.log_of(dag_id, followed[-1], "orders.commit")
    assert "No run follows at once: its batch had all that was there when it was planned" in last
