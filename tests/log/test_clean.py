"""What cleaning removes, in which order, and what it puts back where a run writes the batch again meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.clean import clean
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import PlanBody, PlannedRange
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.log.test_entries import A, commit, plan

BODY = PlanBody({TopicPartition("orders", 0): PlannedRange(0, 5)})


class Deletes(MemoryStore):
    """:ivar names: what was deleted, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def delete(self, name: str) -> None:
        self.names.append(name.rpartition("/")[2])
        super().delete(name)


@pytest.fixture
def log() -> PipelineLog:
    """Three committed batches, which need no report; drivers began each twice."""
    log = PipelineLog(Deletes(), "orders")
    for number in (1, 2, 3):
        body = log.write_body(number, 1, BODY)
        log.append(number, 1, plan(number=number, require_report=False, ranges=body))
        log.append(number, 2, commit(A))
        for attempt in (1, 2):
            log.store.create(f"{log.folder(number)}/{attempt}-00.begun.json", b"{}")
    return log


def test_the_ranges_go_first_and_the_headers_stay(log: PipelineLog) -> None:
    body = log.existing(1).plan.ranges.name
    assert clean(log, 10, execute=True).objects == 3
    assert log.store.names[0] == body
    assert log.store.list(log.folder(1)) == ["1.json", "2.json"]
    assert clean(log, 10, execute=True).batches == ()
    assert log.cleaned() == (1, [])


def test_what_was_cleaned_before_is_not_read_again(log: PipelineLog) -> None:
    clean(log, 10, execute=True)
    for number in (4, 5):
        log.append(number, 1, plan(number=number, require_report=False, ranges=log.write_body(number, 1, BODY)))
        log.append(number, 2, commit(A))
    log.store.objects.pop(f"{log.folder(1)}/1.json")  # it would be missed
    assert clean(log, 10, execute=True).batches == (2, 3)


def test_a_batch_that_cannot_be_cleaned_has_no_later_ones_read_again(log: PipelineLog) -> None:
    """One that was never finished is looked at each time, until it is."""
    body = log.write_body(4, 1, BODY)
    log.append(4, 1, plan(number=4, require_report=False, ranges=body))
    for number in (5, 6, 7):
        log.append(number, 1, plan(number=number, require_report=False, ranges=log.write_body(number, 1, BODY)))
        log.append(number, 2, commit(A))
    assert clean(log, 10, execute=True).batches == (1, 2, 3, 5)
    log.store.objects.pop(f"{log.folder(5)}/1.json")  # it would be missed
    assert clean(log, 10, execute=True).batches == ()
    log.append(4, 2, commit(A))
    assert clean(log, 10, execute=True).batches == (4,)


def test_a_batch_that_is_finished_late_holds_up_no_others(log: PipelineLog) -> None:
    for number in range(4, 8):
        body = log.write_body(number, 1, BODY)
        log.append(number, 1, plan(number=number, require_report=False, ranges=body))
        if number != 4:
            log.append(number, 2, commit(A))
    clean(log, 10, execute=True)
    log.append(4, 2, replace(commit(A), at_ms=20))  # not old enough
    for number in (8, 9):
        log.append(number, 1, plan(number=number, require_report=False, ranges=log.write_body(number, 1, BODY)))
        log.append(number, 2, commit(A))
    assert clean(log, 10, execute=True).batches == (6, 7)
    assert log.cleaned() == (7, [4])
    assert clean(log, 30, execute=True).batches == (4,)


def test_a_batch_that_is_written_again_while_it_is_cleaned_keeps_its_ranges(
    log: PipelineLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = log.store.delete

    def delete_late(name: str) -> None:
        log.append(1, 3, plan(A, ranges=log.existing(1).plan.ranges))
        delete(name)

    monkeypatch.setattr(log.store, "delete", delete_late)
    assert clean(log, 10, execute=True).batches == ()
    again = PipelineLog(log.store, "orders")
    assert again.body(again.existing(1)) == BODY
    assert len(again.existing(1).attempts) == 2
