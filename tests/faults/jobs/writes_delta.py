"""The records of one split of a batch → a Delta table at `--output`."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import delta

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
builder = SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = builder.getOrCreate()
for_each_batch(spark, delta(arguments.output))
spark.stop()
