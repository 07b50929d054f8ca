"""A Spark job that begins to read, and writes once the file of ``--go`` is there: a driver in the middle of its work.

Without ``--go`` it writes at once, as `dags/jobs/kafka_to_parquet.py` does.
"""

import argparse
import time
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import plan_job, read_plan, report_read

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
parser.add_argument("--go", type=Path)
arguments, _ = parser.parse_known_args()

spark = SparkSession.builder.getOrCreate()
job = plan_job()
output = job.output_path(arguments.output)
records = read_plan(spark, job)
while arguments.go is not None and not arguments.go.exists():
    time.sleep(0.05)
records.write.mode("overwrite").parquet(output)
report_read(job, spark.read.parquet(output))
spark.stop()
