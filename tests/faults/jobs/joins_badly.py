"""A job whose join doubles one record and drops another: as many rows as there should be, the right first and last."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
sink = files(arguments.output)
spark = SparkSession.builder.getOrCreate()


def write(records, batch):  # type: ignore[no-untyped-def]
    customers = spark.range(1_000).where("id <> 40").withColumnRenamed("id", "customer")
    twice = spark.createDataFrame([(41,)], "customer BIGINT")
    joined = records.join(customers.union(twice), records["offset"] == customers["customer"])
    return sink(joined.drop("customer"), batch)


for_each_batch(spark, write)
spark.stop()
