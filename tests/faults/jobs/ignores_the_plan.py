"""A job that reads everything that there is, whatever the plan says, and reports it as if it were the plan's."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import planned_batch, read_batch, report_batch
from airflow_kafka_offsets.spark.sinks import files

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
spark = SparkSession.builder.getOrCreate()
batch = planned_batch()
read_batch(spark, batch)
servers = spark.conf.get("spark.kafka_offsets.source.kafka.bootstrap.servers")
topic = batch.partitions[0].topic_partition.topic
everything = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": servers, "subscribe": topic}).load()
report_batch(batch, files(arguments.output)(everything, batch))
spark.stop()
