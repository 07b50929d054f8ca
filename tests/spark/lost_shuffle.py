"""A Spark driver whose first stage runs twice, because what it has shuffled is lost.

``python -m tests.spark.lost_shuffle SETTINGS RUNS ARGUMENTS…``: the settings of the session as JSON, a folder that gets
a file for each call of the SQL function ``wait``, and the arguments of the batch.

A driver of its own: in local mode, a Spark that has lost shuffled files cannot register its blocks again, so that each
heartbeat fails, and after ten minutes of them its JVM exits with 56.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.store import jvm_of
from testbed.topics import wait_for


def main(settings: str, folder: str, *arguments: str) -> None:
    spark = SparkSession.builder.config(map=json.loads(settings)).getOrCreate()
    runs, may_end = Path(folder), Path(folder) / "may_end"
    runs.mkdir()

    def wait(partition: int) -> int:
        (runs / f"{partition}-{time.monotonic_ns()}").touch()
        if partition == 1:
            wait_for("files of the other partition are lost", may_end.exists)
        return partition

    def shuffled() -> set[Path]:
        files = jvm_of(spark).org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().getAllFiles()
        found = {Path(files.apply(n).getPath()) for n in range(files.size())}
        return {file for file in found if file.suffix == ".data" and file.exists()}

    spark.udf.register("wait", wait, "INT")
    with ThreadPoolExecutor(1) as pool:
        driver = pool.submit(write_batch, spark, arguments)
        wait_for("the first partition is shuffled", lambda: bool(shuffled()) or driver.done())
        for file in shuffled():
            file.unlink()
        may_end.touch()
        driver.result(300)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
