"""A job as it should be: rows → Parquet below `--output`, bad records → where the resolve task has them."""

import argparse
import sys

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch, planned_batch
from airflow_kafka_offsets.spark.row_sink import RowSink
from airflow_kafka_offsets.spark.sinks import files
from airflow_kafka_offsets.spark.sinks.sink_arguments import BAD_RECORDS, words_of_arguments

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()  # what else there is, is the batch's

spark = SparkSession.builder.getOrCreate()
bad = words_of_arguments(sys.argv[1:], BAD_RECORDS)
for_each_batch(spark, RowSink(files(arguments.output), planned_batch(spark=spark).row_definition, bad))
spark.stop()
