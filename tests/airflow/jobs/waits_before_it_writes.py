"""A Spark job that begins to read, and writes once the file of ``--go`` is there: a driver in the middle of its work.

Without ``--go`` it writes at once, as the job in the package does.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
parser.add_argument("--go", type=Path)
arguments, _ = parser.parse_known_args()
sink = files(arguments.output)


def write(records: DataFrame, batch: Any) -> Any:
    while arguments.go is not None and not arguments.go.exists():
        time.sleep(0.05)
    return sink(records, batch)


write.output = sink.output  # type: ignore[attr-defined]  # what the report says was written
spark = SparkSession.builder.getOrCreate()
for_each_batch(spark, write)
spark.stop()
