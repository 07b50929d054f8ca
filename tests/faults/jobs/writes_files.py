"""A job as it should be: the records of one split of a batch → Parquet below `--output`."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()  # what else there is, is the batch's

spark = SparkSession.builder.getOrCreate()
for_each_batch(spark, files(arguments.output))
spark.stop()
