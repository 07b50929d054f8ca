"""Readers of an Iceberg table see rows that are proven, and each once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import ConditionNotMet, InvalidJob, LateAttempt
from airflow_kafka_offsets.spark.history import commits
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from tests.spark.killed_driver import run_and_kill
from tests.spark.plans import Plans
from tests.spark.sinks.history import SIZE, History
from tests.spark.sinks.test_drivers import at_look

pytestmark = pytest.mark.long

Filled = Callable[..., str]
ROWS = {"key": None, "value": None, "select": None, "where": None, "expect": {}, "bad": None}
TOO_MANY = {**ROWS, "ensure": {"there are few": "count(*) < 3"}}


@pytest.fixture
def history(spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path) -> History:
    return History(spark, plans, "iceberg", tmp_path, filled(20 * SIZE))


@pytest.fixture
def polled(history: History) -> Iterator[Callable[[], list[dict[int, list[int]]]]]:
    """`polled()` ends a reader that has looked at the table all the time; what it has seen. The table has a batch."""
    history.run(1)
    reader, may_end, seen = replace(history, spark=history.spark.newSession()), threading.Event(), [history.seen]

    def poll() -> None:
        while not may_end.is_set():
            seen.append(reader.seen)

    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(poll)

        def end() -> list[dict[int, list[int]]]:
            may_end.set()
            polling.result(60)
            return [*seen, history.seen]

        yield end
        may_end.set()


def only_whole(seen: list[dict[int, list[int]]], history: History) -> bool:
    return all(found == history.offsets(*found) for found in seen)


def test_no_row_of_an_attempt_that_fails_or_is_late_is_ever_seen(
    history: History, polled: Callable[[], list[dict[int, list[int]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    history.rows = TOO_MANY
    history.plan(2)
    with pytest.raises(ConditionNotMet, match=r"count\(\*\) < 3 \(count\(\*\) = 3\).*No reader sees"):
        history.drive(2)
    history.rows = {**ROWS, "select": ["explode(array(value, value)) AS value"], "ensure": {}}  # each record twice
    with pytest.raises(InvalidJob, match="several rows of one record"):
        history.drive(2)
    history.rows = {**ROWS, "ensure": {}}
    at_look(monkeypatch, attempt=2, number=3, act=lambda: history.drive(2))  # staged and proved, not published
    with pytest.raises(LateAttempt):
        history.drive(2)
    assert (history.batches[2].attempts, history.batches[2].problems()) == ([1, 2, 3], [])
    seen = polled()
    assert only_whole(seen, history)
    assert seen[-1] == history.offsets(1, 2)


@pytest.mark.slow
def test_no_row_of_a_run_that_is_killed_is_ever_seen(
    history: History, polled: Callable[[], list[dict[int, list[int]]]], session_settings: Mapping[str, str]
) -> None:
    """First when its rows are staged, then when they are published and nothing is reported."""
    batch = history.plan(2)
    arguments = batch.arguments(batch.job(history.job()))
    for moment in ("staged", "written"):
        run_and_kill(moment, session_settings, history.folder / "nowhere", arguments)
    history.drive(2)
    assert (batch.attempts, batch.problems()) == ([1, 2, 3], [])
    seen = polled()
    assert only_whole(seen, history)
    assert seen[-1] == history.offsets(1, 2)


@pytest.mark.slow
def test_sixteen_windows_at_once_are_each_seen_whole(
    history: History, polled: Callable[[], list[dict[int, list[int]]]]
) -> None:
    numbers = range(2, 18)
    arguments = {}
    for number in numbers:
        batch = history.plan(number, expects=None, newest=False)
        arguments[number] = batch.arguments(batch.job(history.job()))
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: write_batch(history.spark.newSession(), arguments[n]), numbers))
    assert [history.batches[number].problems() for number in numbers] == [[]] * 16
    seen = polled()
    assert only_whole(seen, history)
    assert seen[-1] == history.offsets(1, *numbers)
    named = {int(history.batches[number].report()["snapshot"]): history.batches[number].key for number in numbers}
    of_table = {commit.place[0]: commit.batch for commit in commits(history.spark, history.output.sink)}
    assert named == {snapshot: key for snapshot, key in of_table.items() if key in named.values()}


def test_incremental_and_streaming_readers_see_each_row_once(history: History, tmp_path: Path) -> None:
    history.run(1)
    name, first = history.output.sink.name, history.batches[1].report()["snapshot"]
    late = history.plan(2, expects=None, newest=False)
    history.run(3, expects=None)
    history.drive(2)  # staged on another head than it is published on
    assert late.problems() == []
    behind = history.spark.read.option("start-snapshot-id", first).table(name)
    assert sorted(row["offset"] for row in behind.collect()) == [*range(SIZE, 3 * SIZE)]
    stream = history.spark.readStream.table(name).writeStream.format("parquet").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{tmp_path}/stream").start(f"{tmp_path}/copied").awaitTermination(120)
    copied = history.spark.read.parquet(f"{tmp_path}/copied")
    assert sorted(row["offset"] for row in copied.collect()) == [*range(3 * SIZE)]


def test_a_staged_snapshot_that_has_expired_is_written_again(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expiry removes what no reference holds; by default it spares five days."""
    history.run(1)
    table = history.output.sink.name.replace("`", "").removeprefix("lake.")

    def expire() -> None:
        monkeypatch.undo()
        call = f"expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
        history.spark.sql(f"CALL lake.system.{call}").collect()

    at_look(monkeypatch, attempt=1, number=3, act=expire)
    history.run(2)
    history.plan(1, expects=None, newest=False)
    history.drive(1)  # what says that it is published has expired, too
    assert history.seen == history.offsets(1, 2)


@pytest.mark.parametrize("name", ["spark.wap.id", "spark.wap.branch"])
def test_a_session_that_stages_by_itself_is_refused(history: History, name: str) -> None:
    history.plan(1)
    history.spark.conf.set(name, "mine")
    try:
        with pytest.raises(InvalidJob, match=f"{name}=mine"):
            history.drive(1)
    finally:
        history.spark.conf.unset(name)
    assert history.batches[1].attempts == []
