"""A whole log is read many batches at once, and only those of the time that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.read_reports import begin_attempt, store_report
from airflow_kafka_offsets.log.whole_log import audit_log, whole_records
from tests.builders import NOW, PIPELINE
from tests.model.store import MemoryStore
from tests.stores.builders import DAY, begin, commit, read, report_of


class Counting(MemoryStore):
    """A store that is asked over a network, by several at once.

    :ivar asked: the folders that were listed.
    """

    is_remote = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def list(self, folder: str) -> list[str]:
        self.asked.append(folder)
        return super().list(folder)


@pytest.fixture
def log() -> PipelineLog:
    """250 batches, one a day. Batch 1 has day 1; each is committed an hour later."""
    made = PipelineLog(Counting(), PIPELINE)
    for number in range(1, 251):
        batch = begin(made, number, NOW + number * DAY)
        read(batch)
        commit(batch, NOW + number * DAY + DAY // 24)
    return made


def days(audited: list[Any]) -> list[int]:
    return [(one.at_ms - NOW) // DAY for one in audited]


def test_each_batch_is_there_in_its_order_whoever_is_answered_first(log: PipelineLog):
    audited, damaged = audit_log(log)
    assert (days(audited), damaged) == (list(range(1, 251)), [])


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (100, 103, [100, 101, 102]),
        (250, None, [250]),
        (None, 3, [1, 2]),
        (251, None, []),
        (None, 1, []),
    ],
)
def test_of_a_stretch_of_time_few_batches_are_read(log: PipelineLog, start, end, found):
    ms: Callable[[int | None], int | None] = lambda day: None if day is None else NOW + day * DAY  # noqa: E731
    store: Any = log.store
    store.asked.clear()
    audited, _ = audit_log(log, ms(start), ms(end))
    assert days(audited) == found
    assert len(store.asked) < 40, "two searches by halves, and not 250 batches"


def test_a_batch_that_was_planned_before_and_committed_after_is_of_the_time_of_its_commit(log: PipelineLog):
    noon = NOW + 100 * DAY + DAY // 48  # batch 100 is planned before, and committed after
    audited, _ = audit_log(log, noon, NOW + 101 * DAY)
    assert days(audited) == [100]
    assert [found.kind for found in audited[0].findings] == ["gap"], "held against batch 99: it knows no position"


def test_bad_records_may_lie_wherever_an_attempt_has_set_them_aside_up_to_the_one_that_counts():
    made = PipelineLog(Counting(), PIPELINE)
    batch = begin(made, 1)
    for number, words in ((1, {"path": "/old"}), (2, {"path": "/new"})):
        begin_attempt(batch.store, batch.folder, 0, number, "abcd", {"set_aside": words})
    store_report(batch.store, batch.folder, "abcd", report_of(batch.log.plan, 0, 2))
    begin_attempt(batch.store, batch.folder, 0, 3, "abcd", {"set_aside": {"path": "/never"}})
    store_report(batch.store, batch.folder, "abcd", report_of(batch.log.plan, 0, 3, wrote=False))
    [record] = whole_records(made, None, None)
    assert [words["path"] for words in record.set_aside] == ["/old", "/new"]
