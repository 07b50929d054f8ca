"""The operators and the task group in a real Airflow, on a real broker: planned, committed, refused, skipped."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from airflow_kafka_offsets.cli.airflow_commands import lives_in_database
from airflow_kafka_offsets.offsets.spec import RunKey
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from testbed.dag_runs import RunResult
from testbed.topics import wait_for


def filled(broker: KafkaBroker, name: str, *counts: int) -> None:
    """`counts[p]` more records in partition p."""
    broker.produce(name, [(p, None, b"x", None) for p, count in enumerate(counts) for _ in range(count)])


def offsets_of(plan: Any, topic: str, column: str) -> list[int]:
    return plan["topics"][topic][column]


def test_a_second_run_goes_on_where_the_first_ended_whatever_the_startup_mode(
    run: Callable[..., RunResult], xcom: Callable[..., Any], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(2)
    filled(broker, name, 3, 4)
    conf = {"topic": name, "group": group, "startup_mode": "latest-offset"}
    first = run("resolve_and_commit", conf)
    assert committed_offsets(broker, group, name) == {0: 3, 1: 4}
    filled(broker, name, 2, 1)

    second = run("resolve_and_commit", conf)

    assert (first.state, second.state) == ("success", "success")
    plan = xcom("resolve_and_commit", second, "resolve", "plan")
    assert (offsets_of(plan, name, "start_offset"), offsets_of(plan, name, "end_offset")) == ([3, 4], [5, 5])
    assert committed_offsets(broker, group, name) == {0: 5, 1: 5}


def test_a_capped_run_commits_what_it_read_and_the_next_reads_the_rest(
    run: Callable[..., RunResult], xcom: Callable[..., Any], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(2)
    filled(broker, name, 10, 2)
    conf = {"topic": name, "group": group, "max_records": 6}

    run("resolve_and_commit", conf)
    assert committed_offsets(broker, group, name) == {0: 4, 1: 2}
    run("resolve_and_commit", conf)

    assert committed_offsets(broker, group, name) == {0: 10, 1: 2}


def test_committing_a_plan_twice_is_committing_it_once(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    filled(broker, name, 5)

    result = run("commit_retried", {"topic": name, "group": group})

    assert (result.states("commit"), result.states("again")) == (["success"], ["success"])
    assert committed_offsets(broker, group, name) == {0: 5}


def test_a_run_whose_work_store_is_lost_reads_the_same_records_on_its_retry(
    run: Callable[..., RunResult], xcom: Callable[..., Any], broker: KafkaBroker, topic: Any, group: str
) -> None:
    """The second copy of the plan is in Airflow's task state store."""
    name = topic(1)
    filled(broker, name, 3)

    result = run("work_store_lost", {"topic": name, "group": group})

    assert result.states("resolve") == ["success"]
    assert next(task.tries for task in result.tasks if task.task_id == "resolve") == 2
    plan = xcom("work_store_lost", result, "resolve", "plan")
    assert offsets_of(plan, name, "end_offset") == [3]  # records that came after the first try are not in it


def test_a_live_group_is_refused_and_keeps_its_offsets(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    filled(broker, name, 5)
    consumer = Consumer({**broker.client_config, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.subscribe([name])
        wait_for("the consumer has its partition", lambda: bool(consumer.poll(0.1) is None and consumer.assignment()))

        result = run("resolve_and_commit", {"topic": name, "group": group})

        assert result.states("commit") == ["failed"]
        assert committed_offsets(broker, group, name) == {}
    finally:
        consumer.close()


def test_with_nothing_to_read_spark_is_not_started_and_the_position_is_still_fixed(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(2)

    result = run("job_of_bad_manners", {"topic": name, "group": group})

    assert result.state == "success"
    assert result.states("orders.spark") == ["skipped"]
    assert committed_offsets(broker, group, name) == {0: 0, 1: 0}


def test_with_something_to_read_no_report_means_no_commit(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    filled(broker, name, 3)

    result = run("job_of_bad_manners", {"topic": name, "group": group, "job": "exits_0_at_once"})

    assert result.states("orders.spark") == ["success"]
    assert result.states("succeed") == ["success"]
    assert result.states("orders.commit") == ["failed"]
    assert committed_offsets(broker, group, name) == {}


def test_a_skipped_resolve_skips_the_commit(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    filled(broker, name, 3)

    result = run("resolve_skipped", {"topic": name, "group": group})

    assert result.state == "success"
    assert result.states("orders.commit") == ["skipped"]
    assert committed_offsets(broker, group, name) == {}


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        pytest.param({"startup_mode": "newest"}, "startup_mode is 'newest'", id="unknown mode"),
        pytest.param({"topic": "no-such-topic"}, "no-such-topic", id="unknown topic"),
    ],
)
def test_a_wrong_request_fails_the_task_and_writes_nothing(
    run: Callable[..., RunResult],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    conf: dict[str, str],
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    name = topic(1)

    result = run("resolve_and_commit", {"topic": name, "group": group, **conf})

    assert (result.states("resolve"), result.states("commit")) == (["failed"], ["upstream_failed"])
    assert committed_offsets(broker, group, name) == {}
    assert said in "".join(capfd.readouterr())


def test_a_run_waits_for_a_living_one_and_not_for_a_dead_one(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its first run has planned, fails to commit, and is then still running by all that Airflow knows."""
    name = topic(1)
    filled(broker, name, 3)
    conf = {"topic": name, "group": group}
    first = run("job_of_bad_manners", {**conf, "job": "exits_0_at_once"})
    assert first.states("orders.commit") == ["failed"]
    set_run_state(first, "running")

    waiting = run("job_of_bad_manners", {**conf, "job": "exits_0_at_once"})
    assert waiting.states("orders.resolve") == ["failed"]
    said = "".join(capfd.readouterr())
    assert f"Run job_of_bad_manners/{first.run_id}/orders.resolve of this pipeline is not over" in said
    key = RunKey("job_of_bad_manners", first.run_id, "orders.resolve")
    assert lives_in_database(key), "the command line sees the same"

    set_run_state(first, "failed")
    assert not lives_in_database(key)
    following = run("job_of_bad_manners", {**conf, "job": "exits_0_at_once"})
    assert following.states("orders.resolve") == ["success"]


def set_run_state(result: RunResult, state: str) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == result.run_id).values(state=state))
