"""A job that writes all of its split, and the first time dies before it has reported."""

import argparse
import os
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import plan_job, read_plan, report_read

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
spark = SparkSession.builder.getOrCreate()
job = plan_job()
output = job.output_path(arguments.output)
read_plan(spark, job).write.mode("overwrite").parquet(output)
died = Path(__file__).with_name("died")
if not died.exists():
    died.touch()
    os._exit(1)
report_read(job, spark.read.parquet(output))
spark.stop()
