"""How far long work is, on a clock of the test's own."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_kafka_offsets.progress_log import Progress


class Clock:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "airflow_kafka_offsets.progress_log")
    return caplog


def test_work_of_less_than_two_seconds_says_nothing(clock: Clock, said: pytest.LogCaptureFixture) -> None:
    progress = Progress("look up ends", 10_000, now=clock)
    for _ in range(10_000):
        clock.s += 0.00019
        progress.add()
    assert said.messages == []


def test_longer_work_says_once_a_second_how_far_it_is_and_at_the_end_how_long_it_took(
    clock: Clock, said: pytest.LogCaptureFixture
) -> None:
    progress = Progress("look up ends", 10_000, now=clock)
    for _ in range(40):
        clock.s += 0.125
        progress.add(250)
    assert said.messages == [
        "look up ends: 4,000 of 10,000 partitions",
        "look up ends: 6,000 of 10,000 partitions",
        "look up ends: 8,000 of 10,000 partitions",
        "look up ends: 10,000 of 10,000 partitions, 5.0 s",
    ]


def test_the_end_is_said_at_once_where_lines_have_begun(clock: Clock, said: pytest.LogCaptureFixture) -> None:
    progress = Progress("clean", 3, "objects", now=clock)
    clock.s += 2.5
    progress.add(2)
    clock.s += 0.25
    progress.add()
    assert said.messages == ["clean: 2 of 3 objects", "clean: 3 of 3 objects, 2.8 s"]


def test_work_whose_size_is_not_known_says_what_is_done(clock: Clock, said: pytest.LogCaptureFixture) -> None:
    progress = Progress("list the windows", unit="objects", now=clock)
    clock.s += 2
    progress.add(1_500)
    assert said.messages == ["list the windows: 1,500 objects"]


def test_several_threads_count_together(clock: Clock, said: pytest.LogCaptureFixture) -> None:
    progress = Progress("look up ends", 8_001, now=clock)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(lambda: [progress.add() for _ in range(1_000)])
    clock.s += 3
    progress.add()
    assert said.messages == ["look up ends: 8,001 of 8,001 partitions, 3.0 s"]
