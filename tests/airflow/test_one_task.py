"""A run that is one task: what people and schedulers do to it, and what becomes of the records."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testbed.dag_runs import RunResult
from tests.airflow.conftest import Orders

DAY = datetime(2026, 3, 1, tzinfo=UTC)
SUBMIT = """#!/bin/sh
while [ "${1##*/}" != reader_job.py ]; do shift; done
exec %s "$@"
"""


@pytest.fixture
def one(orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """The DAG ``one``; what stands for ``spark-submit`` runs its job with Python."""
    (tmp_path / "bin").mkdir()
    submit = tmp_path / "bin" / "spark-submit"
    submit.write_text(SUBMIT % sys.executable)
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", f"{submit.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    orders.dag_id = "one"
    return orders


def jobs(orders: Orders) -> int:
    """How many Spark jobs there were."""
    log = Path(f"{orders.output}.jobs")
    return len(log.read_text().splitlines()) if log.exists() else 0


def ends(run: RunResult) -> list[tuple[str, str, int]]:
    return [(task.task_id, task.state, task.tries) for task in run.tasks]


def test_a_run_reads_what_is_new_and_with_nothing_new_it_is_skipped(one: Orders, xcom: Any, events: Any) -> None:
    one.produce(5)
    first = one.run()
    one.produce(3)
    second = one.run()
    third = one.run()

    assert [ends(run) for run in (first, second)] == [[("orders", "success", 1)]] * 2
    assert [*one.rows.values()] == [[0, 1, 2, 3, 4], [5, 6, 7]]
    assert one.committed == {0: 8}
    assert xcom("one", second, "orders")["read"] == 3
    assert [event["batch_key"] for event in events(second)] == [[*one.rows][1]]
    assert (ends(third), events(third)) == ([("orders", "skipped", 1)], [])


def test_a_retry_commits_what_an_earlier_try_has_written(one: Orders) -> None:
    one.produce(5)
    run = one.run(first_try_fails=True)

    assert ends(run) == [("orders", "success", 2)]
    assert (jobs(one), one.is_exact(), one.committed) == (1, True, {0: 5})


def test_a_clear_writes_the_batch_again_and_the_next_run_goes_on(one: Orders) -> None:
    one.produce(5)
    run = one.run()
    key = [*one.rows]
    one.produce(3)
    cleared = one.clear(run, "orders")

    assert (ends(cleared), jobs(one)) == ([("orders", "success", 2)], 2)
    assert ([*one.rows], one.committed) == (key, {0: 5})
    assert one.run().state == "success"
    assert (one.is_exact(), one.committed) == (True, {0: 8})


def test_a_clear_of_a_run_that_failed_reads_what_it_planned_and_counts_as_a_retry_no_more(one: Orders) -> None:
    one.dag_id = "one_not_retried"
    one.produce(5)
    failed = one.run(first_try_fails=True)
    assert (ends(failed), one.committed) == ([("orders", "failed", 1)], {})
    one.produce(3)
    cleared = one.clear(failed, "orders")

    assert (cleared.state, jobs(one), one.committed) == ("success", 2, {0: 5})
    assert one.run().state == "success"
    assert one.is_exact()


def test_another_run_waits_for_the_task_that_has_the_batch(one: Orders, set_states: Any, said: Any) -> None:
    one.dag_id = "one_not_retried"
    one.produce(5)
    first = one.run(first_try_fails=True)
    set_states(first, "running", {"orders": "up_for_retry"})
    second = one.run()

    assert ends(second) == [("orders", "failed", 1)]
    assert "OverlappingRun" in said()
    set_states(first, "running", {"orders": "failed"})
    assert one.clear(second, "orders").state == "success"
    assert one.is_exact()


def test_the_group_and_the_one_task_are_the_same_pipeline(one: Orders) -> None:
    for dag_id in ("batch", "one", "batch", "one"):
        one.dag_id = dag_id
        one.produce(3)
        assert one.run().state == "success"
    assert (one.is_exact(), one.committed, len(one.rows)) == (True, {0: 12}, 4)


def test_a_run_that_was_begun_by_the_group_is_finished_by_the_one_task(one: Orders) -> None:
    one.dag_id = "batch"
    one.produce(3)
    assert one.run(reject=True).state == "failed"
    one.dag_id = "one"
    assert (one.run().state, one.committed, one.is_exact()) == ("success", {0: 3}, True)


def test_mapped_tasks_have_pipelines_of_their_own_and_shards_share_one(one: Orders, said: Any) -> None:
    one.dag_id = "one_mapped"
    one.produce(4)
    run = one.run()
    assert sorted(run.states("orders")) == ["skipped", "success"]  # the topic has one partition
    assert run.states("unnamed") == ["failed"] * 2
    assert "A mapped task needs a pipeline_id" in said()
    assert (one.is_exact(), one.committed) == (True, {0: 4})


def test_by_window_it_waits_deferred_until_the_window_is_complete(one: Orders, said: Any) -> None:
    one.dag_id = "one_hours"
    one.produce(4, round((DAY + timedelta(minutes=30)).timestamp() * 1000))
    run = one.run(logical_date=DAY + timedelta(hours=1))
    assert (ends(run), one.is_exact()) == ([("orders", "success", 1)], True)

    late = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    waited = one.run(logical_date=late)
    assert waited.state == "failed"
    assert "Still missing:" in said()
