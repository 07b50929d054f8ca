"""A job that loses the second half of what it was given, writes the rest, reports it, and exits 0."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import plan_job, read_plan, report_read

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
spark = SparkSession.builder.getOrCreate()
job = plan_job()
output = job.output_path(arguments.output)
half = job.partitions[0].range.size // 2
records = read_plan(spark, job).where(f"offset < {half}")
records.write.mode("overwrite").parquet(output)
report_read(job, spark.read.parquet(output))
spark.stop()
