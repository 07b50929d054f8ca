"""A job with a bug in its code: each value is wrong by a million. It writes every record, so no report shows it."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
sink = files(arguments.output)
spark = SparkSession.builder.getOrCreate()
WRONG = "binary(string(1000000 + int(string(value))))"
for_each_batch(
    spark, lambda records, batch: sink(records.selectExpr("topic", "partition", "offset", f"{WRONG} value"), batch)
)
spark.stop()
