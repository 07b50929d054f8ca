"""The first line of a run says what it does and why, the last one what is left: over a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import ClusterUnavailable, ReadNotVerified
from airflow_kafka_offsets.kafka_values import RunKey, TopicPartition
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin, together
from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from airflow_kafka_offsets.request.times import iso
from tests.cluster.memory import InMemoryCluster
from tests.contract.pipeline import Pipeline
from tests.contract.troubles import produce
from tests.engine import Assignment, committed_sentence, first_sentence, last_sentence, left_by, preview
from tests.stores.builders import as_it_is_now

NOTHING = LagAndMargin(0)


def first_of(assignment: Assignment) -> str:
    return first_sentence(assignment.sentence, assignment.waiting)


def test_a_first_batch_says_what_decides_its_start_and_the_next_one_where_it_goes_on(
    memory: Any, in_memory: Pipeline
) -> None:
    one = in_memory.run("one")
    assert one.sentence == "plans batch 1: it is the pipeline's first, so earliest-offset decides where it starts"
    produce(memory, in_memory)
    assert in_memory.run("two").sentence == "plans batch 2, from where batch 1 ended"


def test_a_batch_that_another_run_left_says_whose_it_was_and_where_that_run_failed(
    memory: Any, in_memory: Pipeline
) -> None:
    left = in_memory.resolve("left")
    produce(memory, in_memory)
    in_memory.airflow.failed = {"left": ["orders.spark"]}
    taken = iso(left.plan.resolved_at_ms // 60_000 * 60_000)
    assert first_of(in_memory.resolve("next").assignment) == (
        f"This run does batch 1 again: run dag/left/resolve, which took it at {taken}, failed in orders.spark; 6 "
        "records have come since, for the next run."
    )


def test_where_airflow_knows_of_no_failed_task_none_is_named(memory: Any, in_memory: Pipeline) -> None:
    in_memory.resolve("left")
    assert in_memory.resolve("next").sentence.endswith(", did not commit it")


def test_the_tasks_of_another_airflows_run_are_not_asked_for(in_memory: Pipeline) -> None:
    in_memory.resolve("left")
    in_memory.airflow.failed = {"left": ["of another run with that name"]}
    in_memory.airflow.instance = "staging"
    assert in_memory.resolve("next", another_airflow="take-over").sentence.endswith(", did not commit it")


def test_a_restart_and_an_adopted_group_are_the_reason_that_is_given(memory: Any, in_memory: Pipeline) -> None:
    in_memory.run("one")
    assert in_memory.run("two", restart="today").sentence == (
        "plans batch 2 under restart 'today': earliest-offset decides once more where it starts"
    )
    memory.commit_as_somebody(in_memory.group, {TopicPartition(in_memory.topic, 0): 1})
    assert in_memory.run("three", group_moved="adopt-group").sentence == (
        "plans batch 3 from the group's offsets: somebody has moved them, and the policy adopts them"
    )


def test_the_last_sentence_of_a_plan_says_how_many_jobs_read_what(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one", splits=2)
    said = last_sentence(run.plan, len(run.splits))
    assert said == "2 Spark jobs read up to 12 records of 3 partitions; nothing is lost or skipped."
    assert last_sentence(None, 0) == "There is nothing to read, so no Spark job is started."


def test_a_commit_says_what_is_left_for_the_next_run(memory: Any, in_memory: Pipeline) -> None:
    run = in_memory.resolve("one").spark()
    produce(memory, in_memory)
    outcome = run.commit()
    left = left_by(outcome.plan, in_memory.cluster, in_memory.now_ms)
    assert left is not None
    assert [left[tp].lag for tp in sorted(left)] == [2, 2, 2]
    assert committed_sentence(outcome, together(left.values())) == (
        "This run committed batch 1: up to 12 records of 3 partitions; nothing is lost or skipped; read back; 6 "
        "records are left for the next run."
    )
    again = run.commit()
    assert committed_sentence(again, NOTHING).startswith("Batch 1 was committed before: up to 12 records")
    assert committed_sentence(again, NOTHING).endswith("; nothing is left in Kafka for the next run.")


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        ("rows", "nothing is lost or skipped; read back"),
        ("compared", "nothing is lost or skipped; read back, and compared with a scan"),
        ("scan", "the plan leaves no record out; scanned, not read back"),
        (None, "the plan leaves no record out; no report was asked for"),
    ],
)
def test_a_commit_says_what_was_proved_and_no_more(in_memory: Pipeline, proof: Any, words: str) -> None:
    """A function that filters and returns nothing has lost rows that a scan knows nothing of."""
    run = in_memory.resolve("one", splits=2)
    if proof is not None:
        run.job(0).begin().write().report("rows")
        run.job(1).begin().write().report(proof)
    outcome = run.commit(require_report=proof is not None)
    assert outcome.proof == proof, "that of the split that shows least"
    assert committed_sentence(outcome, NOTHING) == (
        f"This run committed batch 1: up to 12 records of 3 partitions; {words}; nothing is left in Kafka for the next "
        "run."
    )


def test_a_read_back_can_be_demanded(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one", splits=2)
    run.job(0).begin().write().report("compared")
    run.job(1).begin().write().report("scan")
    with pytest.raises(ReadNotVerified, match="split 1: scanned, not read back") as refused:
        run.commit(require_report="read-back")
    assert len(refused.value.partitions) == 1
    assert as_it_is_now(run.batch).log.committed is None
    run.job(1).begin().write().report("rows")
    assert run.commit(require_report="read-back").proof == "compared"


def test_what_cannot_be_asked_any_more_is_not_known_and_fails_no_commit(
    in_memory: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = in_memory.resolve("one").spark().commit()

    def nobody_answers(*_: Any) -> Any:
        raise ClusterUnavailable("Cannot list offsets at x:1", "timed out", "Try again.")

    monkeypatch.setattr(InMemoryCluster, "end_offsets", nobody_answers)
    left = left_by(outcome.plan, in_memory.cluster, in_memory.now_ms)
    assert left is None
    assert committed_sentence(outcome, together([])).endswith("; what is left in Kafka is not known now.")


def test_a_topic_that_was_created_again_since_leaves_nothing_of_the_old_one(memory: Any, in_memory: Pipeline) -> None:
    outcome = in_memory.resolve("one").spark().commit()
    in_memory.cluster.delete_topic(in_memory.topic)
    assert not left_by(outcome.plan, in_memory.cluster, in_memory.now_ms)


def test_nobody_has_failed_tasks_where_there_is_no_airflow() -> None:
    from tests.engine import NoAirflow

    assert NoAirflow().failed_tasks(RunKey("dag", "run", "task")) == []


@pytest.mark.parametrize(
    ("setting", "parameter", "why"),
    [
        ("latest", None, "no commit → latest by the client configuration's auto.offset.reset"),
        ("earliest", "latest", "no commit → latest"),
        (None, "latest", "no commit → latest"),
    ],
)
def test_records_that_are_skipped_by_a_default_are_said_to_be(
    setting: str | None, parameter: str | None, why: str, in_memory: Pipeline
) -> None:
    """Kafka's own default, without anybody's word, is refused."""
    config = {"group.id": "nobody", **({"auto.offset.reset": setting} if setting else {})}
    asked = RequestParameters(topics=[in_memory.topic], auto_offset_reset=parameter)
    plan = preview(request_for(config, asked, RunContext(now_ms())), in_memory.cluster, None)
    assert last_sentence(plan, 0) == (
        "No Spark job is started; the batch has up to 0 records of 0 partitions; up to 12 records are skipped although "
        f"still in Kafka ({why})."
    )
