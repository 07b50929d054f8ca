"""What it costs to know that an output has each record once: processor seconds, for 10 million rows of Parquet.

``python -m benchmarks.report_ways [--rows 10000000]`` compares what `report_batch` does with what else could be done.
Only the first two prove each offset once, whatever was retried, attempted twice or left behind by an earlier attempt.

- this package: three columns are read back, 64 offsets a word, in a hash map
- bitmaps: the same with Spark's bitmap_construct_agg, which sorts all rows
- count, first, last: a join that doubles one record and drops another passes
- footers: the same, and of Parquet and ORC only
- the sink's metrics: how many rows the last write counted of itself, as Spark's UI shows it
- observe, an accumulator: what is handed to the writer, in the write itself; not what is in the output. An accumulator
  also counts what a task wrote that is run a second time
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from airflow_kafka_offsets.spark.report import _count_by_partition
from benchmarks.measured import say, title
from testbed.java import find_java
from testbed.spark import spark_conf, spark_env

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS, ROUNDS = 100, 3


def ways(spark: SparkSession, folder: Path, rows: int) -> dict[str, Callable[[], Any]]:
    """Each way, ready to be run; the output is written here."""
    import pyarrow.parquet as parquet
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    offset = f.col("offset")
    made = spark.range(0, rows, numPartitions=PARTITIONS).select(
        f.lit("orders").alias("topic"),
        f.spark_partition_id().alias("partition"),
        (f.col("id") % (rows // PARTITIONS)).alias("offset"),
        f.concat(*(f.md5(f.concat(f.col("id"), f.lit(part))) for part in "abcdef")).alias("value"),
    )
    output = str(folder / "output")
    made.write.parquet(output)
    read = spark.read.parquet(output)

    def bitmaps() -> list[Any]:
        by = read.groupBy("topic", "partition", f.bitmap_bucket_number(offset).alias("bucket")).agg(
            f.count("*").alias("rows"),
            f.bitmap_count(f.bitmap_construct_agg(f.bitmap_bit_position(offset))).alias("offsets"),
        )
        return by.groupBy("topic", "partition").agg(f.sum("rows"), f.sum("offsets")).collect()

    def footers() -> int:
        return sum(parquet.read_metadata(path).num_rows for path in Path(output).glob("*.parquet"))

    def metrics() -> str:
        store = spark._jsparkSession.sharedState().statusStore()
        found = str(store.executionMetrics(store.executionsList().last().executionId()))
        assert f"{rows:,}" in found
        return found

    counter = spark.sparkContext.accumulator(0)

    def counting(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            counter.add(batch.num_rows)
            yield batch

    def write(frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(folder / "again"))

    return {
        "this package": lambda: _count_by_partition(read).collect(),
        "bitmaps": bitmaps,
        "count, first, last": lambda: (
            read.groupBy("topic", "partition").agg(f.count("*"), f.min(offset), f.max(offset)).collect()
        ),
        "footers": footers,
        "write without observe": lambda: write(made),
        "write with observe": lambda: write(
            made.observe(Observation(), f.count("*").alias("n"), f.bit_xor(f.xxhash64(*read.columns[:3])).alias("h"))
        ),
        "write with an accumulator": lambda: write(made.mapInArrow(counting, made.schema)),
        "the sink's metrics": metrics,
    }


def used_s() -> float:
    """Processor seconds of this process and all that it has started: Spark's JVM, and Spark's workers in Python."""
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (own, *own.children(recursive=True)))


def measure(rows: int = 10_000_000) -> dict[str, float]:
    """Median processor seconds of each way; one round before those that count."""
    os.environ.update(spark_env(find_java(say)))
    from pyspark.sql import SparkSession

    settings = {**spark_conf([]), "spark.jars": "", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    spark = SparkSession.builder.appName("bench").config(map=settings).getOrCreate()
    folder = Path(tempfile.mkdtemp(prefix="bench-report-"))
    try:
        seconds: dict[str, list[float]] = {}
        for name, way in list(ways(spark, folder, rows).items()) * (ROUNDS + 1):
            before = used_s()
            way()
            seconds.setdefault(name, []).append(used_s() - before)
        return {name: statistics.median(found[1:]) for name, found in seconds.items()}
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    found = measure(rows)
    print(title("To know that an output has each record once", "pyspark", by="bench-read"))
    print(f"Processor seconds for {rows:,} rows of Parquet.\n\n| way | s |\n|---|---:|")
    for name, seconds in found.items():
        print(f"| {name} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
