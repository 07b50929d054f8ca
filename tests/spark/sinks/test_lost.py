"""A table that has lost rows, or has more than the log: named before anything is written, and before the report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import LateAttempt, LogBehind, OutputLost
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from testbed.broker import KafkaBroker
from tests.spark.plans import Plans
from tests.spark.sinks.conftest import KINDS
from tests.spark.sinks.history import SIZE, History
from tests.spark.sinks.test_drivers import at_look

pytestmark = pytest.mark.long

Make = Callable[..., History]


@pytest.fixture
def history_of(spark: SparkSession, plans: Plans, filled: Callable[..., str], tmp_path: Path) -> Make:
    """`history_of(kind)`: no batch yet, and a topic with records for five."""
    return lambda kind: History(spark, plans, kind, tmp_path, filled(5 * SIZE))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_was_rolled_back_is_named_with_its_batches_and_clearing_them_brings_the_rows_back(
    history_of: Make, broker: KafkaBroker, kind: str
) -> None:
    history = history_of(kind)
    for number in (1, 2, 3):
        history.run(number)
    history.roll_back(1)
    broker.delete_records({(history.topic, 0): SIZE + 1})  # the first of batch 2
    lost, kept = (history.batches[number].key for number in (2, 3))
    batch = history.plan(4, identity=7)
    with pytest.raises(OutputLost) as raised:
        history.drive(4)
    assert batch.attempts == []
    gone, there = "(run run-2), whose records Kafka has no more", "(run run-3), whose records Kafka has"
    assert f"{lost} {gone}; {kept} {there}" in raised.value.cause
    act = json.loads(raised.value.remedy.partition(" with the conf ")[2])["kafka_offsets"]
    assert (act["after"], act["acknowledge"]) == (7, {"rows": [lost, kept]})

    history.plan(3, expects=None, newest=False)  # its run is cleared; the rows of batch 2 are given up
    history.drive(3)
    history.drive(4)
    assert (history.batches[3].problems(), batch.problems()) == ([], [])
    assert history.seen == history.offsets(1, 3, 4)


def test_a_batch_whose_rows_were_given_up_is_not_named_again(history_of: Make) -> None:
    history = history_of("delta")
    for number in (1, 2, 3):
        history.run(number)
    history.roll_back(1)
    history.plan(4, given_up=[history.batches[2].key])
    with pytest.raises(OutputLost) as raised:
        history.drive(4)
    assert history.batches[2].key not in str(raised.value)
    assert history.batches[3].key in raised.value.cause


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_was_dropped_is_not_made_again(history_of: Make, kind: str) -> None:
    history = history_of(kind)
    history.run(1)
    sink = history.output.sink
    history.spark.sql(f"DROP TABLE {sink.name}") if sink.path is None else shutil.rmtree(sink.path)
    history.plan(2)
    with pytest.raises(OutputLost, match=history.batches[1].key):
        history.drive(2)
    assert (sink.read(history.spark), history.batches[2].attempts) == (None, [])


def test_a_batch_that_is_written_and_whose_records_are_gone_is_looked_for(history_of: Make) -> None:
    history = history_of("delta")
    history.run(1)
    batch = history.run(2)
    arguments = [*batch.arguments(batch.job(history.job()), entry=1), "--nothing-to-do"]
    store = history.plans.store(history.spark)
    assert write_batch(history.spark, arguments, store) is None
    history.roll_back(1)
    with pytest.raises(OutputLost, match=f"{batch.key} is written, and its records are gone"):
        write_batch(history.spark, arguments, store)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_is_rolled_back_while_a_batch_is_written_is_not_reported(
    history_of: Make, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    history = history_of(kind)
    history.run(1)
    history.run(2)
    history.plan(3)
    at_look(monkeypatch, attempt=1, number=2, act=lambda: history.roll_back(1))
    with pytest.raises(OutputLost):
        history.drive(3)
    assert history.batches[3].names("report") == []


@pytest.mark.parametrize("kind", KINDS)
def test_rows_behind_the_newest_batch_say_that_the_log_is_an_older_copy(history_of: Make, kind: str) -> None:
    history = history_of(kind)
    history.run(1)
    history.run(2)
    copy = History(history.spark, Plans(history.plans.root.with_name("copy"), history.plans.servers), kind,
                   history.folder, history.topic)  # fmt: skip
    copy.plan(1)
    with pytest.raises(LogBehind, match=history.batches[2].key) as raised:
        copy.drive(1)
    history.spark.sql(f"DELETE FROM {raised.value.remedy.partition('DELETE FROM ')[2]}")
    if kind == "delta":  # it has the transaction of this key's first attempt, and skips it: a retry has a higher number
        with pytest.raises(LateAttempt, match="has skipped the write"):
            copy.drive(1)
    copy.drive(1)
    assert (copy.batches[1].attempts, copy.seen) == ([1, 2] if kind == "delta" else [1], copy.offsets(1))


def test_rows_that_a_person_has_adopted_are_no_later_batches(history_of: Make) -> None:
    """A batch that has begun before the adoption keeps its key."""
    history = history_of("delta")
    history.run(2)
    history.plan(1, bases=[0, 2])
    history.drive(1)
    assert history.seen == history.offsets(1, 2)


@pytest.mark.parametrize("kind", [pytest.param("delta", marks=pytest.mark.slow), "iceberg"])
def test_rows_that_are_deleted_by_retention_or_belong_to_another_shard_are_not_looked_for(
    history_of: Make, kind: str
) -> None:
    history = history_of(kind)
    history.run(1)
    history.spark.sql(f"DELETE FROM {history.output.sink.name} WHERE true")
    history.plan(2)
    history.drive(2, keeps_rows=False)
    assert history.batches[2].problems() == []
    other = History(history.spark, history.plans, kind, history.folder, history.topic)
    other.plan(1, key="0000000001-0of2-3f9a01c2d4e5", pipeline="orders/0-of-2")
    other.drive(1)
    assert history.seen == history.offsets(1, 2)
