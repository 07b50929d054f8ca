"""Scenes: what happens to a log table, and merges. After each merge the entity table has to be the query.

Each is there for something that a merge could leave out: `tests/spark/merge/test_twins.py` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import LateAttempt
from airflow_kafka_offsets.spark.merge import Merge
from tests.spark.merge.logs import UNKNOWN, Log, record

ORDER = "lsn"


def merged(log: Log) -> list[int]:
    numbers = log.merge()
    assert log.differences() == []
    return numbers


@contextmanager
def stalled(before: str, *happens: Callable[[], Any]) -> Iterator[None]:
    """Before the next call of this step of a merge, this happens."""
    with pytest.MonkeyPatch.context() as patch:
        step = getattr(Merge, before)

        def late(*arguments: Any) -> Any:
            patch.undo()
            for happen in happens:
                happen()
            return step(*arguments)

        patch.setattr(Merge, before, late)
        yield


def corrected(log: Log) -> None:
    """A batch is written again: it lacks keys, has others, and later batches have newer rows of some."""
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1"), record(2, "c", "1"), record(3, "d", "1")])
    log.commit(2, [record(4, "a", "bad"), record(5, "wrong", "bad"), record(6, "c", None), record(7, "d", "2")])
    log.commit(3, [record(8, "b", None), record(9, "e", "3")])
    assert merged(log) == [1, 2, 3]
    log.commit(2, [record(6, "d", "2!"), record(7, "e", "2!"), record(5, "b", "2!")])
    assert merged(log) == [2]
    assert log.entities == {"a": "1", "c": "1", "d": "2!", "e": "3"}
    log.commit(1, [])
    log.compact()
    log.commit(4, [record(10, "f", "4")])
    assert merged(log) == [1, 4]
    assert log.entities == {"d": "2!", "e": "3", "f": "4"}


def placeholders(log: Log) -> None:
    log.commit(1, [record(0, "a", "1", doc="x"), record(1, "b", "1", doc=None), record(2, "c", "1", doc=UNKNOWN)])
    log.commit(2, [record(3, "a", "2", doc=UNKNOWN), record(4, "b", "2", doc=UNKNOWN)])
    merged(log)
    log.commit(3, [record(5, "a", "3", doc=UNKNOWN), record(6, "b", "3", doc=UNKNOWN), record(7, "d", "3", doc="y")])
    merged(log)
    log.commit(4, [record(8, "d", None, doc=None), record(9, "d", "4", doc=UNKNOWN)])
    merged(log)
    log.commit(1, [record(0, "a", "1", doc="x!"), record(1, "b", "1", doc="z")])
    merged(log)
    assert {row["id"]: row["doc"] for row in log.rows} == {"a": "x!", "b": "z", "d": UNKNOWN}


def truncated(log: Log) -> None:
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1")])
    merged(log)
    log.commit(2, [record(2, "c", "2"), record(3, None, None, "t"), record(4, "b", "2")])
    merged(log)
    assert log.entities == {"b": "2"}
    log.commit(1, [record(0, "a", "1!"), record(1, "new", "1!")])
    merged(log)
    assert log.entities == {"b": "2"}
    log.commit(2, [record(2, "c", "2"), record(4, "b", "2")])  # without it
    merged(log)
    assert log.entities == {"a": "1!", "b": "2", "c": "2", "new": "1!"}


def tombstones(log: Log) -> None:
    """One whose delete was compacted away."""
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1")])
    merged(log)
    alone = (2, "a", None, None, None, None, 0, "orders")
    log.commit(2, [alone])
    merged(log)
    assert log.entities == {"b": "1"}


def left_open(log: Log) -> None:
    """By window: a batch is written, and committed long after later ones."""
    log.commit(1, [record(0, "a", "1", lsn=1)])
    log.write(2, [record(1, "a", "2", lsn=2), record(2, "b", "2", lsn=3)])
    log.commit(3, [record(3, "c", "3", lsn=4)])
    assert merged(log) == [1, 3]
    assert merged(log) == []
    log.commit_written(2)
    assert merged(log) == [2]
    assert log.entities == {"a": "2", "b": "2", "c": "3"}


def written_again(log: Log) -> None:
    """A committed batch has rows that nobody has committed."""
    log.commit(1, [record(0, "a", "1")])
    log.replan(1)
    log.write(1, [record(0, "a", "unverified")])
    log.commit(2, [record(1, "b", "2")])
    with pytest.raises(LateAttempt, match="being rewritten"):
        log.merge()
    log.commit_written(1)
    assert merged(log) == [1, 2]


def two_partitions(log: Log) -> None:
    """By `order_by`: a record of a later batch is older, and a key is corrected."""
    log.commit(1, [record(0, "a", "new", lsn=20), record(1, "b", "1", lsn=3)])
    merged(log)
    log.commit(2, [record(0, "a", "old", lsn=10, partition=1), record(1, "b", None, lsn=5, partition=1)])
    merged(log)
    log.commit(3, [record(2, "b", "older", lsn=4)])
    merged(log)
    assert log.entities == {"a": "new"}


def overtaken(log: Log) -> None:
    """A merge has read its batches, and publishes when they were corrected and merged, and later ones, too."""
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1")])
    merged(log)
    log.commit(2, [record(2, "a", "old"), record(3, "wrong", "old")])
    later = lambda: log.commit(3, [record(4, "b", None)])  # noqa: E731
    with stalled("publish", lambda: log.commit(2, [record(2, "a", "new")]), later, log.merge):
        log.merge(2)
    assert log.differences() == []
    assert log.entities == {"a": "new"}


def log_moves(log: Log) -> None:
    """A merge has pinned the entity table. Before it looks at the log, a delete is merged, and a batch corrected."""
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1")])
    log.commit(2, [record(2, "a", "2")])
    merged(log)
    log.commit(3, [record(3, "c", "3")])
    with stalled("changes", lambda: log.commit(4, [record(4, "b", None)]), log.merge):
        log.merge()
    assert log.differences() == []
    log.commit(5, [record(5, "d", "5")])
    with stalled("changes", lambda: log.commit(1, [record(1, "b", "1!")]), log.merge):
        log.merge()
    assert log.differences() == []


def restored(log: Log) -> None:
    log.commit(1, [record(0, "a", "1")])
    merged(log)
    log.commit(2, [record(1, "b", "2"), record(2, "a", None)])
    merged(log)
    log.restore()
    assert log.entities == {"a": "1"}
    log.commit(3, [record(3, "c", "3")])
    assert merged(log) == [2, 3]
    log.commit(4, [record(4, "d", "4")])
    with stalled("publish", log.restore):
        log.merge()
    log.commit(5, [record(5, "e", "5")])
    merged(log)


def failed_before_empty_runs(log: Log) -> None:
    """Nobody retries it: the table stays at its receipt, and the merge of any later run ends it."""
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1")])
    merged(log)
    log.commit(2, [record(2, "a", "2"), record(3, "b", None)])
    for step in ("changes", "rows", "publish"):
        with stalled(step, kill), pytest.raises(Killed):
            log.merge(2)
        assert log.differences(at_receipt=True) == []
    assert log.merge(1) == [2]  # of a run that was cleared
    assert log.differences() == []
    log.commit(3, [record(4, "c", "3")])
    with stalled("publish", kill), pytest.raises(Killed):
        log.merge(3)
    log.commit(4, [])
    assert merged(log) == [3, 4]
    assert merged(log) == []


def killed_before_its_receipt(log: Log) -> None:
    """Then the batch is written again, without a key that the killed merge has merged."""
    log.commit(1, [record(0, "a", "1")])
    merged(log)
    log.commit(2, [record(1, "b", "2"), record(2, "wrong", "2")])
    with killed_at("fast_forward" if log.kind == "iceberg" else "MERGE INTO"), pytest.raises(Killed):
        log.merge()
    assert log.differences(at_receipt=True) == []
    log.commit(2, [record(1, "b", "2")])
    assert merged(log) == [2]
    assert log.entities == {"a": "1", "b": "2"}


class Killed(BaseException):
    """Nothing that a merge has for errors is carried out."""


def kill() -> None:
    raise Killed


@contextmanager
def killed_at(words: str) -> Iterator[None]:
    """Before a statement with these words."""
    with pytest.MonkeyPatch.context() as patch:
        sql = SparkSession.sql

        def sql_but(self: SparkSession, text: str, *more: Any) -> Any:
            return kill() if words in text else sql(self, text, *more)

        patch.setattr(SparkSession, "sql", sql_but)
        yield


def written_by_others(log: Log) -> None:
    """The entity table is changed while a merge runs: columns of the user's own stay, and what was erased."""
    name, sql = log.table.name, log.spark.sql
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1"), record(2, "erased", "1")])
    merged(log)
    sql(f"ALTER TABLE {name} ADD COLUMNS (note STRING)")
    log.commit(2, [record(3, "a", "2"), record(4, "c", "2")])
    with stalled("publish", lambda: sql(f"UPDATE {name} SET note = 'mine' WHERE id != 'erased'")):
        assert merged(log) == [2]
    log.commit(3, [record(5, "b", "3", doc=UNKNOWN), record(6, "c", None)])
    erase = [f"DELETE FROM {table} WHERE id = 'erased'" for table in (log.sink.name, name)]
    with stalled("publish", *(lambda text=text: sql(text) for text in erase)):
        log.merge()
    assert log.differences() == []
    assert {row["id"]: (row["name"], row["doc"], row["note"]) for row in log.rows} == {
        "a": ("2", "-", "mine"), "b": ("3", "-", "mine")
    }  # fmt: skip


SCENES = {
    scene.__name__: scene
    for scene in (
        corrected, placeholders, truncated, tombstones, left_open, written_again, two_partitions, overtaken, log_moves,
        restored, failed_before_empty_runs, written_by_others,
        killed_before_its_receipt
    )
}  # fmt: skip


def play(log: Log, name: str) -> None:
    if name in ("left_open", "two_partitions"):
        log.order_by = [ORDER]
    SCENES[name](log)
