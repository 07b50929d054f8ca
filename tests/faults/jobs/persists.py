"""The example job for a transactional topic: the frame is persisted, so that its scan can prove that all was read."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import plan_job, read_plan, report_read

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
spark = SparkSession.builder.getOrCreate()
job = plan_job()
output = job.output_path(arguments.output)
records = read_plan(spark, job).persist()
records.write.mode("overwrite").parquet(output)
report_read(job, spark.read.parquet(output))
spark.stop()
