"""Kafka is asked by a thread of its own, at most every ten seconds for a pipeline, and nobody waits for it for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.batch_lines import BatchLine, line_of
from airflow_kafka_offsets.page import kafka_look
from airflow_kafka_offsets.page.kafka_look import MOVED, NOT_OFTENER_S, KafkaAnswer, KafkaLooks
from testbed.topics import wait_for
from tests.contract.pipeline import Pipeline
from tests.page.conftest import LONG_S, TOPIC, produce, run


class Asked:
    """A cluster, how often it was opened, and a clock that stands until it is set."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.times, self.now_s = pipeline, 0, 100.0
        self.looks = KafkaLooks(LONG_S, clock=lambda: self.now_s)

    @contextmanager
    def open(self) -> Iterator[Any]:
        self.times += 1
        yield self.pipeline.cluster

    @property
    def newest(self) -> BatchLine:
        return line_of(self.pipeline.newest)

    def answer(self, **pipeline: Any) -> KafkaAnswer:
        log = replace(self.pipeline, **pipeline).log
        found = self.looks.answer(log, self.newest, self.open)
        assert found is not None
        return found


def asked(pipeline: Pipeline) -> Asked:
    produce(pipeline)
    pipeline.run(run(10))
    produce(pipeline)
    return Asked(pipeline)


def test_one_pipeline_is_asked_about_once_in_ten_seconds_however_often_its_page_is_loaded(pipeline: Pipeline) -> None:
    look = asked(pipeline)
    first = look.answer()
    produce(pipeline)
    look.now_s += NOT_OFTENER_S - 0.1
    assert look.answer() is first
    assert look.times == 1
    look.now_s += 0.1
    again = look.answer()
    assert look.times == 2
    assert first.measured is not None
    assert again.measured is not None
    assert (first.measured.together.lag, again.measured.together.lag) == (6, 12)


def test_another_pipeline_is_asked_about_at_once(pipeline: Pipeline) -> None:
    look = asked(pipeline)
    look.answer()
    replace(pipeline, pipeline_id="other", group="other").run(run(11))
    look.answer(pipeline_id="other")
    assert look.times == 2


def test_it_is_never_asked_twice_at_once_also_where_it_takes_longer_than_that(pipeline: Pipeline) -> None:
    look, go_on = asked(pipeline), threading.Event()

    @contextmanager
    def slow() -> Iterator[Any]:
        look.times += 1
        go_on.wait(LONG_S)
        yield pipeline.cluster

    looks = KafkaLooks(wait_s=0.0, clock=lambda: look.now_s)
    assert looks.answer(pipeline.log, look.newest, slow) is None
    first = looks.begin(pipeline.log, look.newest, slow)
    look.now_s += 100 * NOT_OFTENER_S
    assert looks.begin(pipeline.log, look.newest, slow) is first
    go_on.set()
    assert first.over.wait(LONG_S)
    assert look.times == 1
    assert looks.begin(pipeline.log, look.newest, slow) is not first


def test_a_position_that_has_moved_since_has_no_lag_before_kafka_may_be_asked_again(pipeline: Pipeline) -> None:
    look = asked(pipeline)
    look.answer()
    pipeline.run(run(11))
    moved = look.answer()
    assert (moved.measured, moved.offsets, moved.not_known) == (None, None, (MOVED,))
    assert moved.logs, "the ends are what they were"
    look.now_s += NOT_OFTENER_S
    found = look.answer()
    assert found.measured is not None
    assert (found.measured.together.lag, found.not_known) == (0, ())


def test_many_partitions_are_not_asked_about_while_the_page_reads_its_log(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_look, "MANY", 1)
    monkeypatch.setattr(kafka_look, "WAIT_S", LONG_S)
    look, read = asked(pipeline), False
    opened_after = list[bool]()

    @contextmanager
    def opened() -> Iterator[Any]:
        opened_after.append(read)
        yield pipeline.cluster

    begun = look.looks.begin(pipeline.log, look.newest, opened)
    wait_for("the thread has the plan", lambda: begun.batch is not None)
    read = True
    found = look.looks.answer(pipeline.log, look.newest, opened)
    assert found is not None
    assert found.measured is not None
    assert opened_after == [True]


def test_a_plan_that_is_known_is_not_read_again(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    look, read = asked(pipeline), list[str]()
    look.answer()
    get = type(pipeline.store).get
    monkeypatch.setattr(type(pipeline.store), "get", lambda store, name: (read.append(name), get(store, name))[1])
    newest = look.newest
    read.clear()
    look.now_s += NOT_OFTENER_S
    again = look.looks.answer(pipeline.log, newest, look.open)
    assert again is not None
    assert (again.measured is not None, look.times, read) == (True, 2, [])


def test_what_it_does_not_say_is_named(pipeline: Pipeline) -> None:
    look = asked(pipeline)
    pipeline.cluster.elect(TopicPartition(TOPIC, 0), None)
    pipeline.cluster.hidden.add(TOPIC)
    found = look.answer()
    assert found.not_known[0] == "1 partitions have no leader: what they hold is not known."
    assert "DescribeConfigs" in found.not_known[1]
    assert TopicPartition(TOPIC, 0) not in found.logs


def test_a_topic_that_was_created_again_is_said_and_counts_for_nothing(pipeline: Pipeline) -> None:
    look = asked(pipeline)
    pipeline.cluster.recreate_topic(TOPIC)
    produce(pipeline)
    found = look.answer()
    assert found.not_known == (f"Topic {TOPIC} was deleted and created again: the position is of the old one.",)
    assert found.measured is not None
    assert found.measured.together.lag is None
