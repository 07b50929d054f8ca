"""A job whose second split fails before it writes; the others are as they should be."""

import argparse
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
sink = files(arguments.output)


def write(records: Any, batch: Any) -> Any:
    if batch.split == 1:
        raise SystemExit("this split fails")
    return sink(records, batch)


spark = SparkSession.builder.getOrCreate()
for_each_batch(spark, write)
spark.stop()
