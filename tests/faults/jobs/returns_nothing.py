"""A job whose function writes all of its split, and returns nothing that reads the output back."""

import argparse

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Batch, for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
spark = SparkSession.builder.getOrCreate()


def write(records: DataFrame, batch: Batch) -> None:
    files(arguments.output)(records.persist(), batch)


for_each_batch(spark, write)
spark.stop()
