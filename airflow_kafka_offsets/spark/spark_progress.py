"""How far a Spark job is: a line a second for what takes longer than two.

After the first minute it is a line every ten seconds: a job of three hours would have ten thousand of them. The numbers
are those of the stages that run now, so they begin anew with each stage.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.progress_log import EVERY_S, QUIET_S
from airflow_kafka_offsets.spark.driver_jvm import jvm_of

log = logging.getLogger(__name__)

A_WHILE_S, RARELY_S = 60.0, 10.0


@contextmanager
def progress_lines(spark: SparkSession, what: str) -> Iterator[None]:
    """Log how far Spark is while the block runs.

    :param what: the beginning of each line: ``batch 7, split 0: writes``.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_log_lines, args=(spark, what, ended), name="kafka-offsets-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _log_lines(spark: SparkSession, what: str, ended: threading.Event) -> None:
    began, wait_s = time.monotonic(), QUIET_S
    while not ended.wait(wait_s):
        seconds = time.monotonic() - began
        with suppress(Exception):  # a session that is being stopped does not answer; the job must not fail by that
            log.info("%s for %.0f s%s", what, seconds, _tasks(spark))
        wait_s = EVERY_S if seconds < A_WHILE_S else RARELY_S


def _tasks(spark: SparkSession) -> str:
    if jvm_of(spark) is None:
        return ""
    tracker: Any = spark.sparkContext.statusTracker()
    stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
    if not stages:
        return ""
    done, of_all, run, failed = (
        sum(getattr(stage, name) for stage in stages)
        for name in ("numCompletedTasks", "numTasks", "numActiveTasks", "numFailedTasks")
    )
    again = f", {failed:,} have failed" if failed else ""
    return f": {done:,} of {of_all:,} tasks are done, {run:,} run{again}"
