"""A job whose output is partitioned by a value that nobody has looked at: every second one has U+2028 in it."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
sink = files(arguments.output, partition_by=["place"])
spark = SparkSession.builder.getOrCreate()
PLACE = "if(offset % 2 = 0, 'Bern', 'Bern\u2028West') place"
for_each_batch(spark, lambda records, batch: sink(records.selectExpr("*", PLACE), batch))
spark.stop()
