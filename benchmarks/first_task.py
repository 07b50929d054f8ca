"""From a plan to Spark's first task, beside Spark's own source: ``python -m benchmarks.first_task``.

A real local Spark. Ours: the plan on record, its arguments, the batch read back from the work store, ``read_batch``, a
count. Beside it: the source over the same records as a user would write it, and the same count. Both end when Spark has
launched the first task of it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.clusters import one_broker
from benchmarks.measured import say, spread, title
from benchmarks.ours import Ours
from testbed.jars import spark_jars
from testbed.java import Java, find_java
from testbed.spark import spark_conf, spark_env

PLAN, READ_BACK, READ_BATCH, LAUNCH, OURS, SPARKS = (
    "plan, on record, arguments",
    "the plan read by the driver",
    "read_batch",
    "until the first task",
    "together",
    "Spark's own source, until the first task",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    java = find_java(say)
    os.environ.update(spark_env(java))
    print(title("From a plan to Spark's first task", "pyspark"))
    print("| partitions | part | median, s | quartiles |\n|---:|---|---:|---:|")
    for size in options.sizes:
        for what, values in _of(java, size, options.rounds).items():
            low, high = spread(values)
            print(f"| {size:,} | {what} | {statistics.median(values):.2f} | {low:.2f} to {high:.2f} |", flush=True)
    return 0


def _of(java: Java, size: int, rounds: int) -> dict[str, list[float]]:
    from pyspark.sql import SparkSession

    found: dict[str, list[float]] = {what: [] for what in (PLAN, READ_BACK, READ_BATCH, LAUNCH, OURS, SPARKS)}
    with one_broker(java, size, 0.5, say) as measured, tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        builder = SparkSession.builder
        for name, value in spark_conf(spark_jars(java)).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        ours = Ours(measured.near)
        try:
            for number in range(rounds + 1):
                say(f"{size:,} partitions, " + ("to warm up" if number == 0 else f"round {number} of {rounds}"))
                for what, seconds in [*_ours(spark, ours, Path(folder)), (SPARKS, _sparks(spark, measured.near, size))]:
                    if number:
                        found[what].append(seconds)
        finally:
            ours.cluster.close()
            spark.stop()
    return found


def _ours(spark: Any, ours: Ours, folder: Path) -> list[tuple[str, float]]:
    from airflow_kafka_offsets.spark import planned_batch, read_batch

    moments = [time.time()]
    arguments = ours.arguments("bench", folder)
    moments.append(time.time())
    batch = planned_batch(arguments, spark)
    moments.append(time.time())
    records = read_batch(spark, batch)
    moments.append(time.time())
    moments.append(_first_task_of_count(spark, records))
    steps = [later - before for before, later in pairwise(moments)]
    return [*zip((PLAN, READ_BACK, READ_BATCH, LAUNCH), steps, strict=True), (OURS, moments[-1] - moments[0])]


def _sparks(spark: Any, servers: str, size: int) -> float:
    began = time.time()
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    records = source.option("subscribePattern", "t[0-9]+").option("startingOffsets", "earliest").load()
    return _first_task_of_count(spark, records) - began


def _first_task_of_count(spark: Any, records: Any) -> float:
    """When the first task of a count was launched, in seconds of the epoch; the count is then called off."""
    from pyspark import InheritableThread

    context, group = spark.sparkContext, uuid.uuid4().hex

    def count() -> None:
        context.setJobGroup(group, "first task", interruptOnCancel=True)
        with suppress(Exception):  # it was called off
            records.count()

    counting = InheritableThread(target=count)
    counting.start()
    while (launched := _launched(context, group)) is None:
        if not counting.is_alive():
            raise RuntimeError("the count has ended, and no task of it is known")
        time.sleep(0.01)  # it says itself when that was
    context.cancelJobGroup(group)
    counting.join()
    return launched


def _launched(context: Any, group: str) -> float | None:
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).stageIds:
            if tracker.getStageInfo(stage) is None:  # a job names its stages before Spark's store has them
                continue
            time_ms = store.lastStageAttempt(stage).firstTaskLaunchedTime()
            if time_ms.isDefined():
                return float(time_ms.get().getTime() / 1000)
    return None


if __name__ == "__main__":
    sys.exit(main())
