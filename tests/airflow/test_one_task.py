"""A run that is one task: what people and schedulers do to it, and what becomes of the records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testbed.dag_runs import RunResult, clear_tasks, continue_run, load_dag
from tests.airflow.conftest import STORE, WIRING, Orders
from tests.airflow.reader import submitting

DAY = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def one(orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """The DAG ``one``; what stands for ``spark-submit`` runs its job with Python."""
    for name, value in submitting(tmp_path / "bin").items():
        monkeypatch.setenv(name, value)
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


def test_a_clear_in_a_run_that_has_not_ended_writes_the_batch_again_too(one: Orders, set_states: Any) -> None:
    one.produce(5)
    run = one.run()
    set_states(run, "running", {})
    assert (ends(one.clear(run, "orders")), jobs(one)) == ([("orders", "success", 2)], 2)


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


@pytest.mark.parametrize(("attribute", "value"), [("retries", 0), ("retries", 9), ("max_records", 2)])
def test_a_clear_under_another_version_of_the_dag_writes_the_same_records_again(
    one: Orders, attribute: str, value: int
) -> None:
    one.produce(5)
    run = one.run(first_try_fails=True)
    rows = one.rows
    one.produce(3)
    changed = load_dag(WIRING, "one")
    setattr(changed.get_task("orders"), attribute, value)
    clear_tasks(changed, run.run_id, "orders", conf={"first_try_fails": False})
    cleared = continue_run(changed, run.run_id)

    assert (cleared.state, jobs(one), one.rows, one.committed) == ("success", 2, rows, {0: 5})
    assert one.run().state == "success"
    assert one.is_exact()


@pytest.mark.parametrize("state", ["success", "failed", "skipped"])
def test_a_batch_whose_task_was_marked_by_hand_is_done_by_the_next_run(
    one: Orders, set_states: Any, state: str
) -> None:
    one.dag_id = "one_not_retried"
    one.produce(5)
    marked = one.run(first_try_fails=True)
    set_states(marked, "success" if state != "failed" else state, {"orders": state})
    one.produce(3)

    assert (one.run().state, one.committed) == ("success", {0: 5})
    assert (one.run().state, one.committed, one.is_exact()) == ("success", {0: 8}, True)


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
    runs = STORE / one.topic / "runs"
    bound = sorted(file.relative_to(runs).parts for file in runs.rglob("*.json"))
    assert [(dag_id, names) for dag_id, _, *names in bound] == [
        (dag_id, ["orders", "-1.json"]) for dag_id in ("batch", "batch", "one", "one")
    ]  # so that a run of the group, cleared when the DAG has one task, finds its batch


def test_a_run_that_was_begun_by_the_group_is_finished_by_the_one_task(one: Orders) -> None:
    one.dag_id = "batch"
    one.produce(3)
    assert one.run(reject=True).state == "failed"
    one.dag_id = "one"
    assert (one.run().state, one.committed, one.is_exact()) == ("success", {0: 3}, True)


def test_mapped_shards_share_a_pipeline_and_a_template_gives_mapped_topics_one_each(one: Orders) -> None:
    one.dag_id = "one_mapped"
    one.produce(4)
    for topic in (f"{one.topic}-b", f"{one.topic}-c"):
        one.broker.create_topic(topic, 1)
        one.broker.produce(topic, [(0, None, b"%d" % one.produced, None)])
        one.produced += 1
    run = one.run()
    assert sorted(run.states("orders")) == ["skipped", "success"]  # the topic has one partition
    assert run.states("topics") == ["success"] * 2
    assert [(STORE / f"{one.topic}-{name}" / "pipeline").exists() for name in "bc"] == [True] * 2
    assert (one.is_exact(), one.committed) == (True, {0: 4})

    one.produce(4)
    first = one.produced - 4
    reset = {"start": {f"{one.topic}-0": 6}}
    act = one.run({"pipeline": one.topic, "after": 1, "reason": "why", "reset": reset})
    assert sorted(act.states("orders")) == ["skipped", "success"]
    assert act.states("topics") == ["skipped"] * 2  # other pipelines run as usual
    assert [value for values in one.rows.values() for value in values if value >= first] == [first + 2, first + 3]
    assert one.committed == {0: 8}


def test_a_dry_run_says_what_the_act_would_change_and_the_act_says_it_again(one: Orders, said: Any, xcom: Any) -> None:
    one.produce(5)
    assert one.run().state == "success"
    reset = {"start": {f"{one.topic}-0": 7}}
    act = {"pipeline": one.topic, "after": 1, "reason": "why", "reset": reset}
    one.produce(3)
    tried = one.run({**act, "dry_run": True})
    assert ends(tried) == [("orders", "failed", 1)]
    change = f"{one.topic}-0: 5 → 7, skipped 2 (reset, identity 2)"
    assert change in said()
    assert (jobs(one), one.committed) == (1, {0: 5})

    done = one.run(act)
    assert (done.state, one.committed) == ("success", {0: 8})
    assert xcom("one", done, "orders", "act") == [change]


def test_a_window_of_the_conf_does_not_go_into_an_output_of_another_interval(one: Orders, said: Any) -> None:
    one.dag_id = "one_hours_templated"
    refused = one.run({"window": ["2026-03-01T05:00Z", "2026-03-01T06:00Z"]}, logical_date=DAY + timedelta(hours=1))
    assert ends(refused) == [("orders", "failed", 1)]
    assert "names another window than the run's data interval" in said()


def test_by_window_it_waits_deferred_until_the_window_is_complete(one: Orders, said: Any) -> None:
    one.dag_id = "one_hours"
    one.produce(4, round((DAY + timedelta(minutes=30)).timestamp() * 1000))
    run = one.run(logical_date=DAY + timedelta(hours=1))
    assert (ends(run), one.is_exact()) == ([("orders", "success", 1)], True)

    late = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    waited = one.run(logical_date=late)
    assert waited.state == "failed"
    assert "Still missing:" in said()
