"""A job whose sink is Spark's plain overwrite of a folder: it does not look again before its output changes."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import planned_batch, read_batch, report_batch

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
spark = SparkSession.builder.getOrCreate()
batch = planned_batch()
folder = f"{arguments.output}/kafka_batch={batch.key}/kafka_split={batch.split}"
read_batch(spark, batch).write.mode("overwrite").parquet(folder)
report_batch(batch, spark.read.parquet(folder))
spark.stop()
