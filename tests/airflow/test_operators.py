"""The operators and the task group in a real Airflow, on a real broker: planned, committed, refused, skipped."""

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import BranchPythonOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka import Consumer

from airflow_kafka_offsets import CommitOffsetsOperator, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.operators.reading_tasks import is_given
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from testbed.dag_runs import RunResult
from testbed.topics import wait_for
from tests.airflow.conftest import STORE, Orders
from tests.airflow.fixtures import plan_in_store


def filled(broker: KafkaBroker, name: str, *counts: int) -> None:
    """`counts[p]` more records in partition p."""
    broker.produce(name, [(p, None, b"x", None) for p, count in enumerate(counts) for _ in range(count)])


def offsets_of(plan: Any, topic: str, column: str) -> list[int]:
    return plan_in_store(plan)["topics"][topic][column]


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


def consuming(broker: KafkaBroker, group: str, topic: str) -> Consumer:
    """A live member of the group, with its partition."""
    consumer = Consumer({**broker.client_config, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    wait_for("the consumer has its partition", lambda: bool(consumer.poll(0.1) is None and consumer.assignment()))
    return consumer


@pytest.mark.parametrize("number", [1, 2])
def test_a_live_group_is_found_before_spark_is_started_and_keeps_its_offsets(
    orders: Orders, said: Callable[[], str], number: int
) -> None:
    """By the first run, whose group holds nothing that could be signed, and by the second, whose group is signed."""
    committed = {} if number == 1 else {0: 5}
    if number == 2:
        orders.produce(5)
        assert orders.run().state == "success"
        clear_mark(orders)
    orders.produce(5)
    consumer = consuming(orders.broker, orders.group, orders.topic)
    try:
        result = orders.run()
        assert (result.states("orders.resolve"), result.states("orders.read")) == (["failed"], ["upstream_failed"])
        assert "with live members" in said()
        assert orders.committed == committed
    finally:
        consumer.close()
    assert orders.run().state == "success"
    assert orders.is_exact()


def clear_mark(orders: Orders) -> None:
    """The same offset without this pipeline's mark: what stands there is the position, and has to be signed."""
    with KafkaCluster(orders.broker.client_config) as cluster:
        cluster.commit_offsets(orders.group, {TopicPartition(orders.topic, 0): CommittedOffset(5)})


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


@pytest.mark.parametrize(("dag", "of_check"), [("read_skipped", "skipped"), ("read_skipped_late", "success")])
def test_without_reports_a_reading_task_that_was_skipped_commits_nothing(
    run: Callable[..., RunResult],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    said: Callable[[], str],
    dag: str,
    of_check: str,
) -> None:
    """Airflow's own operators skip themselves at an exit code; the commit runs all the same, and the run was green.

    So it is where a task before the one that reads has decided that there is no need, as a branch does.
    """
    name = topic(1)
    filled(broker, name, 3)
    said()

    result = run(dag, {"topic": name, "group": group})

    assert (result.states("not_today"), result.states("check")) == (["skipped"], [of_check])
    assert result.states("commit") == ["failed"]
    assert "not_today: skipped" in said().partition("ReadNotVerified:")[2]
    assert committed_offsets(broker, group, name) == {}


@pytest.mark.parametrize(
    ("chosen", "state"), [("commit", "failed"), ("succeed", "failed"), ("read_otherwise", "success")]
)
def test_without_reports_a_branch_may_choose_who_reads_and_not_that_nobody_does(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str, chosen: str, state: str
) -> None:
    """Each way from the branch to the commit succeeds; the tasks that are given the offsets tell who reads."""
    name = topic(1)
    filled(broker, name, 3)

    result = run("read_not_chosen", {"topic": name, "group": group, "chosen": chosen})

    assert (result.states("choose"), result.states("commit")) == (["success"], [state])
    assert committed_offsets(broker, group, name) == ({0: 3} if state == "success" else {})


def test_whatis_given_the_offsets_is_seen_however_itis_given_them(airflow: Any) -> None:
    pull = "{{ ti.xcom_pull('resolve', key='assign') }}"
    with DAG("given", schedule=None) as dag:
        resolve = ResolveStartupOffsetsOperator(task_id="resolve", topics="orders", group_id="group")
        BashOperator(task_id="by_reference", bash_command="read", env={"ASSIGN": resolve.output["assign"]})
        BashOperator(task_id="by_template", bash_command=f"read {pull}")
        BashOperator.partial(task_id="mapped_over").expand(bash_command=resolve.output)
        BashOperator.partial(task_id="beside", env={"ASSIGN": resolve.output["assign"]}).expand(bash_command=["a", "b"])
        BranchPythonOperator(task_id="branch", python_callable=print, op_args=[resolve.output])
        BashOperator(task_id="others", bash_command="{{ ti.xcom_pull('other') }} resolved").set_upstream(resolve)
    given = {task.task_id for task in dag.tasks if is_given(task, "resolve")}
    assert given == {"by_reference", "by_template", "mapped_over", "beside"}


def test_without_reports_a_commit_that_waits_for_no_task_that_reads_commits_nothing(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str, said: Callable[[], str]
) -> None:
    """`read >> commit` was forgotten: it committed while Spark was at work, and whatever became of that."""
    name = topic(1)
    filled(broker, name, 3)
    said()

    assert run("read_not_waited_for", {"topic": name, "group": group}).states("commit") == ["failed"]
    assert "no task that could have read stands before it (read >> commit)" in said()
    assert committed_offsets(broker, group, name) == {}


def test_without_reports_a_check_beside_the_way_may_be_skipped(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    filled(broker, name, 3)

    result = run("check_skipped", {"topic": name, "group": group})

    assert (result.states("not_today"), result.states("commit")) == (["skipped"], ["success"])
    assert committed_offsets(broker, group, name) == {0: 3}


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


def test_a_plan_that_is_none_is_named_with_what_to_give(airflow: Any) -> None:
    """``resolve.output`` is the arguments of the Spark jobs; the plan is under a key of its own."""
    operator = CommitOffsetsOperator(task_id="commit", plan=[["--plan", "x"]])
    with pytest.raises(AirflowFailException, match=r"plan is a list, and not what .*plan=resolve\.output\[\"plan\"\]"):
        operator.execute({})


def test_the_log_says_which_pipeline_it_is_what_the_run_does_and_what_it_has_done(
    orders: Orders, said: Callable[[], str], xcom: Callable[..., Any]
) -> None:
    orders.produce(3)
    result = orders.run()
    assert result.state == "success"
    text = said()
    name = f"Pipeline {orders.group}/batch/orders.resolve"
    first = "This run plans batch 1: it is the pipeline's first, so earliest-offset decides where it starts."
    last = "1 Spark job reads up to 3 records of 1 partition; nothing is lost or skipped."
    done = (
        "This run committed batch 1: up to 3 records of 1 partition; nothing is lost or skipped; read back; nothing is "
        "left in Kafka for the next run."
    )
    lines = [
        first,
        f"{name}: topics {orders.topic}, group {orders.group}, work store file://{STORE}",
        "partition from why to records lost skipped",
        f"{orders.topic}[0] 0 earliest → log start 3 3 0 0",
        last,
        f"{name}, batches/00000000/0000000001, plan {orders.newest.log.plan.plan_id}, work store file://{STORE}",
        "The group follows in 1 partition: partition before after",
        f"{orders.topic}[0] none 3",
        done,
    ]
    places = [text.find(line) for line in lines]
    assert -1 not in places, lines[places.index(-1)]
    assert places == sorted(places)
    assert name not in text[: places[0]], "the first line of the task says what the run does"
    assert xcom("batch", result, "orders.resolve", "summary") == f"{first} {last}"
    assert xcom("batch", result, "orders.commit", "summary") == done


def test_a_run_that_skips_records_by_a_default_says_so_in_its_last_line_and_in_the_ui(
    run: Callable[..., RunResult],
    xcom: Callable[..., Any],
    said: Callable[[], str],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection says ``latest``, and the group has no commit."""
    latest = airflow_home.connections({**broker.client_config, "auto.offset.reset": "latest"})
    monkeypatch.setenv("AIRFLOW_CONN_SKIPS_BY_DEFAULT", latest["AIRFLOW_CONN_KAFKA_DEFAULT"])
    name = topic(2)
    filled(broker, name, 3, 4)
    result = run("skips_by_default", {"topic": name, "group": group})
    assert result.state == "success"
    skipped = (
        "up to 7 records are skipped although still in Kafka (no commit → latest by the client configuration's "
        "auto.offset.reset)"
    )
    text = said()
    resolved = f"No Spark job is started; the batch has up to 0 records of 0 partitions; {skipped}."
    assert resolved in text
    assert xcom("skips_by_default", result, "resolve", "summary").endswith(resolved)
    done = f"This run committed batch 1: up to 0 records of 0 partitions; {skipped}; nothing is left in Kafka"
    assert done in text
    assert xcom("skips_by_default", result, "commit", "summary").startswith(done)


def test_a_mapped_spark_task_is_named_after_its_batch_and_split(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is rendered when the task has run: no Spark is needed for it."""
    monkeypatch.setattr(SparkSubmitPlanOperator, "execute", lambda task, context: None)
    name = topic(2)
    filled(broker, name, 1, 1)
    result = run("job_of_bad_manners", {"topic": name, "group": group, "splits": 2})
    assert result.states("orders.spark") == ["success"] * 2
    assert sorted(rendered_map_indexes(result, "orders.spark")) == ["batch 1, split 0", "batch 1, split 1"]


def rendered_map_indexes(result: RunResult, task_id: str) -> list[str | None]:
    """What Airflow's UI shows for the map index of each of a task's instances."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(TaskInstance.rendered_map_index).where(
            TaskInstance.run_id == result.run_id, TaskInstance.task_id == task_id
        )
        return list(session.scalars(query))


def test_a_refusal_that_time_or_a_person_may_end_is_tried_again(orders: Orders) -> None:
    """A wrong request is not: see ``test_conf_words``."""
    orders.dag_id = "batch_retried"
    orders.produce(5)
    assert orders.run().state == "success"
    orders.produce(5)
    orders.broker.delete_records({(orders.topic, 0): 8})
    refused = orders.run()
    assert [(t.state, t.tries) for t in refused.tasks if t.task_id == "orders.resolve"] == [("failed", 2)]


def test_an_end_that_is_not_reached_yet_is_said_in_the_log(orders: Orders, said: Callable[[], str]) -> None:
    """Of a window that nobody asked to be complete, and that no sensor has waited for."""
    orders.dag_id = "windows_by_hand"
    orders.produce(2)
    end = now_ms()
    result = orders.run(start=end - 3_600_000, end=end)
    assert result.state == "success"
    assert "The end is not reached yet: " in said()
