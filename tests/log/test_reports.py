"""Which attempt verifies a batch. What its counts must be: tests/engine/test_in_sequence.py."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Attempt, Batch, Entry
from airflow_kafka_offsets.log.reports import Counts, Report, verify
from airflow_kafka_offsets.plan.body import PlanBody, PlannedRange
from tests.log.test_entries import B, plan

TP = TopicPartition("orders", 0)
BODY = PlanBody({TP: PlannedRange(0, 5)})
WHOLE = Report("1f", None, None, counts={TP: Counts(rows=5, offsets=5, first=0, last=4)})
DONE, RUNNING, BESIDE = Attempt(1, "a", True), Attempt(2, "b", False), Attempt(1, "b", True)


@pytest.mark.parametrize(
    ("attempts", "entries", "problem"),
    [
        ((DONE,), (plan(),), None),
        ((), (plan(),), "no Spark job has begun it"),
        ((DONE, RUNNING), (plan(),), "attempt 2 has not reported"),
        ((DONE, BESIDE), (plan(),), "2 Spark jobs began attempt 1 at once"),
        ((DONE,), (plan(), plan(B)), None),  # another run continues: the plan's id is the same
        ((DONE,), (plan(), plan(plan_id="2f")), "attempt 1 has written another plan"),
        ((), (plan(offsets=0),), None),
        ((), (plan(), plan(offsets=0, plan_id="2f")), "no Spark job has begun it"),  # a driver may have
    ],
)
def test_the_highest_attempt_alone_verifies(
    attempts: tuple[Attempt, ...], entries: tuple[Entry, ...], problem: str | None
) -> None:
    batch = Batch(7, entries, attempts)
    verdict = verify(batch, BODY, lambda _, attempt: WHOLE)
    if problem is None:
        assert (verdict.is_verified, verdict.attempt) == (True, batch.highest_attempt)
    else:
        assert problem in verdict.problems[0]
