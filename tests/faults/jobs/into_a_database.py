"""A job that writes each record to two tables of a database, by a URL that divides its transactions."""

import argparse

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Batch, for_each_batch
from airflow_kafka_offsets.spark.sinks import jdbc, upsert

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
url, _, table = arguments.output.rpartition(":")
url += "?autosave=always"
by_batch = jdbc(url, table)
by_key = upsert(jdbc(url, f"{table}_by_key"), keys=["topic", "partition", "offset"])


def write(records: DataFrame, batch: Batch) -> DataFrame:
    by_key(records, batch)
    return by_batch(records, batch)


spark = SparkSession.builder.getOrCreate()
for_each_batch(spark, write)
spark.stop()
