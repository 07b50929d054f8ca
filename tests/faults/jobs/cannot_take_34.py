"""A job that fails at a record that it can never process, the one with the value 34, and has written nothing then."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
sink = files(arguments.output)
spark = SparkSession.builder.getOrCreate()
PARSED = "if(string(value) = '34', binary(raise_error('cannot parse 34')), value)"
for_each_batch(
    spark, lambda records, batch: sink(records.selectExpr("topic", "partition", "offset", f"{PARSED} value"), batch)
)
spark.stop()
