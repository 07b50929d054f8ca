"""How far a Spark job is, while it runs."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import batch_job
from testbed.topics import wait_for


class _Lines(logging.Handler):
    """Keeps the lines, and makes a file of its path once one has the words that it waits for."""

    def __init__(self, words: str, path: Path) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._words, self._path = words, path

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if self._words in self.lines[-1]:
            self._path.touch()


def test_what_takes_long_says_how_far_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A task of three goes on when it has been said that the two others are done."""
    monkeypatch.setattr(batch_job, "QUIET_S", 0.01)
    monkeypatch.setattr(batch_job, "EVERY_S", 0.05)
    seen = tmp_path / "seen"
    lines = _Lines("2 of 3 tasks are done", seen)

    def wait_if_last(number: int, rows: Iterator[int]) -> Iterator[int]:
        if number == 2:
            wait_for("the line was logged", seen.exists)
        yield from rows

    batch_job.log.addHandler(lines)
    caplog.set_level(logging.INFO, logger=batch_job.log.name)
    try:
        with batch_job.progress_lines(spark, "batch 7, split 0: writes"):
            spark.sparkContext.parallelize(range(3), 3).mapPartitionsWithIndex(wait_if_last).count()
    finally:
        batch_job.log.removeHandler(lines)
    assert lines.lines[-1].startswith("batch 7, split 0: writes for ")


def test_what_is_done_at_once_says_nothing(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), batch_job.progress_lines(spark, "batch 7, split 0: writes"):
        pass
    assert caplog.text == ""
