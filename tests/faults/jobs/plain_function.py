"""A job whose write is a function of its own, which does not say where it writes."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
sink = files(arguments.output)
spark = SparkSession.builder.getOrCreate()
for_each_batch(spark, lambda records, batch: sink(records, batch))
spark.stop()
