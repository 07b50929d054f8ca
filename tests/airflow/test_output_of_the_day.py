"""A template that gives each run an output of its own: an unfinished batch stays in the one that it was begun in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from testbed.dag_runs import RunResult
from tests.airflow.conftest import Orders
from tests.airflow.reader import all_rows

FIRST, SECOND, THIRD = (datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2, 3))


def test_an_unfinished_batch_is_written_into_its_own_path_by_the_next_run_of_a_sink(
    orders: Orders, xcom: Callable[..., Any]
) -> None:
    orders.dag_id = "batch_into_sink_of_the_day"

    def paths_of(run: RunResult) -> tuple[str, list[str]]:
        """The output in the plan, and the paths in the arguments of the run's Spark jobs."""
        jobs = xcom(orders.dag_id, run, "orders.resolve")
        return str(orders.newest.log.plan.asked.output), [job[job.index("--sink-path") + 1] for job in jobs]

    day_1, day_2, day_3 = (orders.output / day for day in ("2026-11-01", "2026-11-02", "2026-11-03"))
    orders.produce(5)
    first = orders.run(reject=True, logical_date=FIRST)
    assert (first.state, paths_of(first)) == ("failed", (str(day_1), [str(day_1)]))
    orders.produce(3)

    second = orders.run(logical_date=SECOND)

    assert (second.state, paths_of(second)) == ("success", (str(day_1), [str(day_1)]))
    assert (len(all_rows(day_1)), day_2.exists(), orders.committed) == (5, False, {0: 5})
    third = orders.run(logical_date=THIRD)
    assert (third.state, paths_of(third)) == ("success", (str(day_3), [str(day_3)]))
    assert sorted(all_rows(day_1) + all_rows(day_3)) == sorted(map(str, range(8)))


def test_an_unfinished_batch_with_a_templated_output_is_refused_and_the_run_to_clear_is_named(
    orders: Orders, said: Callable[[], str]
) -> None:
    orders.dag_id = "batch_into_output_of_the_day"
    orders.produce(5)
    first = orders.run(reject=True, logical_date=FIRST)
    said()

    refused = orders.run(logical_date=SECOND)

    assert (first.state, refused.states("orders.resolve")) == ("failed", ["failed"])
    words = said()
    assert "The path comes from a template, so only the run that planned the batch gives it again: clear " in words
    assert f"clear run {orders.dag_id}/{first.run_id}" in words
    assert (orders.committed, Path(orders.output / "2026-11-02").exists()) == ({}, False)

    assert orders.clear(first, "orders.wait_for_partitions", reject=False).state == "success"
    assert (len(all_rows(orders.output / "2026-11-01")), orders.committed) == (5, {0: 5})
