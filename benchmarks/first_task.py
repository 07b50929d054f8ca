"""From the plan of 10,000 partitions to Spark's first task, beside Spark's own source that is given a pattern.

``python -m benchmarks.first_task`` (``make bench-tasks``). Ours: resolve, recorded in a folder; the plan read from
there, the attempt begun; a count of the records. Beside it: the same count of the source by ``subscribePattern``. Both
end when Spark has launched the first task of the count, which is then called off. Requests to Kafka are counted in a
run of their own, through a proxy. Processor time is that of this process and of Spark's.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.store.open import open_store
from benchmarks.clusters import PATTERN, many_partitions
from benchmarks.measured import Run, Way, options, say, show, take_turns
from benchmarks.pipeline import Pipeline
from testbed.jars import spark_jars
from testbed.java import find_java
from testbed.spark import spark_conf, spark_env

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESOLVE, BEGIN, LAUNCH = "resolve", "begin the attempt", "until the first task"


def main() -> int:
    parser = options(__doc__, rounds=5)
    parser.add_argument("--partitions", type=int, default=10_000)
    asked = parser.parse_args()
    java = find_java(say)
    os.environ.update(spark_env(java))
    from pyspark.sql import SparkSession

    with many_partitions(java, asked.partitions, counts=True) as cluster:
        settings = {**spark_conf(spark_jars(java, say)), "spark.log.level": "ERROR"}
        spark = SparkSession.builder.appName("first task").config(map=settings).getOrCreate()
        pid = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        ours = Way("ours", lambda run: _ours(run, spark, cluster.near))
        sparks = Way("Spark's own source", lambda run: _sparks(run, spark, cluster.near))
        take_turns([ours, sparks], asked.rounds, pid=pid)
        asks = []
        for way in (_ours, _sparks):
            before = cluster.proxy.requests.total()
            way(Run(pid), spark, cluster.far)
            asks.append(cluster.proxy.requests.total() - before)
        spark.stop()
    rows = [(part, f"{ours.part_s(part):.2f}", "", "", "", "") for part in (RESOLVE, BEGIN, LAUNCH)]
    for name, way, times, count in (
        ("together", ours, f"{ours.times(sparks):.1f}", asks[0]),
        (sparks.name, sparks, "", asks[1]),
    ):
        processor_s = statistics.median(run.processor for run in way.runs)
        rows.append((name, f"{way.median_s:.2f}", way.spread, times, f"{processor_s:.2f}", f"{count:,}"))
    columns = (
        f"{asked.partitions:,} partitions",
        "median, s",
        "quartiles",
        "times",
        "processor, s",
        "requests to Kafka",
    )
    sentence = (
        "Spark's own source asks for two ends of each partition and keeps nothing; the rest is the plan's record."
    )
    show("first_task", "From the plan to Spark's first task", columns, rows, sentence, "pyspark", write=asked.write)
    return 0


def _ours(run: Run, spark: SparkSession, servers: str) -> None:
    from airflow_kafka_offsets.spark.run import open_work

    with tempfile.TemporaryDirectory(prefix="bench-first-task-") as folder:
        began, used = time.time(), time.process_time()
        with run:
            pipeline = Pipeline(servers, {"topics": f"^{PATTERN}", "group_id": "bench"}, open_store(f"file://{folder}"))
            arguments = pipeline.arguments(pipeline.resolve())
            resolved = time.time()
            batch = open_work(spark, arguments, None).begin(None)
            read = time.time()
            launched = _first_task_of_count(batch.records)
        run.processor += time.process_time() - used
    run.parts = {RESOLVE: resolved - began, BEGIN: read - resolved, LAUNCH: launched - read}
    run.seconds = launched - began


def _sparks(run: Run, spark: SparkSession, servers: str) -> None:
    began, used = time.time(), time.process_time()
    with run:
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
        records = source.option("subscribePattern", PATTERN).option("startingOffsets", "earliest").load()
        launched = _first_task_of_count(records)
    run.processor += time.process_time() - used
    run.seconds = launched - began


def _first_task_of_count(records: DataFrame) -> float:
    """When the first task of a count was launched, in seconds of the epoch; the count is then called off."""
    from pyspark import InheritableThread

    context, group = records.sparkSession.sparkContext, uuid.uuid4().hex

    def count() -> None:
        context.setJobGroup(group, "first task", interruptOnCancel=True)
        with suppress(Exception):  # it was called off
            records.count()

    counting = InheritableThread(target=count)
    counting.start()
    while (launched := _launched(context, group)) is None:
        if not counting.is_alive():
            raise RuntimeError("the count has ended, and no task of it is known")
        time.sleep(0.01)  # Spark itself says when it was
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
