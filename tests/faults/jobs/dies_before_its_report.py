"""A job that writes all of its split, and the first time dies before it has reported."""

import argparse
import os
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import planned_batch, read_batch, report_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
spark = SparkSession.builder.getOrCreate()
batch = planned_batch()
written = files(arguments.output)(read_batch(spark, batch), batch)
died = Path(__file__).with_name("died")
if not died.exists():
    died.touch()
    os._exit(1)
report_batch(batch, written)
spark.stop()
