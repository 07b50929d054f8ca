"""A job that was there before: it knows Spark's Kafka source, and nothing of this package."""

import argparse
import os

from pyspark.sql import SparkSession

parser = argparse.ArgumentParser()
for name in ("assign", "starting-offsets", "ending-offsets", "key"):
    parser.add_argument(f"--{name}", required=True)
given = parser.parse_args()
spark = SparkSession.builder.appName("old").getOrCreate()
records = (
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["OLD_JOB_SERVERS"])
    .option("assign", given.assign)
    .option("startingOffsets", given.starting_offsets)
    .option("endingOffsets", given.ending_offsets)
    .load()
)
rows = records.selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
rows.write.mode("overwrite").parquet(f"{os.environ['OLD_JOB_OUTPUT']}/kafka_batch={given.key}")
spark.stop()
