"""Which attempt verifies a batch. What its counts must be: tests/engine/test_in_sequence.py."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Attempt, Batch, Entry
from airflow_kafka_offsets.log.reports import Counts, Report, verify
from airflow_kafka_offsets.plan.body import PlanBody, PlannedRange
from tests.log.test_entries import A, claim, plan

TP = TopicPartition("orders", 0)
BODY, EMPTY = PlanBody({TP: PlannedRange(0, 5)}), PlanBody({TP: PlannedRange(5, 5)})
WHOLE = Report("1f", None, None, {TP: Counts(rows=5, offsets=5, first=0, last=4)})
DONE, RUNNING, BESIDE = Attempt(1, "a", True), Attempt(2, "b", False), Attempt(1, "b", True)


@pytest.mark.parametrize(
    ("attempts", "later", "body", "problem"),
    [
        ((DONE,), (), BODY, None),
        ((), (), BODY, "no Spark job has begun it"),
        ((DONE, RUNNING), (), BODY, "attempt 2 has not reported"),
        ((DONE, BESIDE), (), BODY, "2 Spark jobs began attempt 1 at once"),
        ((DONE,), (claim(A, after=1),), BODY, "attempts up to 1 no longer count"),
        ((DONE, RUNNING._replace(is_reported=True)), (claim(A, after=1),), BODY, None),
        ((DONE,), (plan(plan_id="2f"),), BODY, "attempt 1 read another plan"),
        ((), (), EMPTY, None),
        ((), (claim(A, after=1),), EMPTY, "no Spark job has begun it"),
    ],
)
def test_the_highest_attempt_alone_verifies(
    attempts: tuple[Attempt, ...], later: tuple[Entry, ...], body: PlanBody, problem: str | None
) -> None:
    batch = Batch(7, (plan(), *later), attempts)
    verdict = verify(batch, body, lambda _, attempt: WHOLE)
    if problem is None:
        assert (verdict.is_verified, verdict.attempt) == (True, batch.highest_attempt)
    else:
        assert problem in verdict.problems[0]


def test_an_attempt_before_the_runs_own_does_not_verify_its_work() -> None:
    batch = Batch(7, (plan(),), (DONE,))
    assert verify(batch, BODY, lambda *_: WHOLE, after=0).is_verified
    assert not verify(batch, BODY, lambda *_: WHOLE, after=1).is_verified
