"""A job that reads everything that there is, whatever the plan says, and reports it as if it were the plan's."""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import plan_job, read_plan, report_read

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
arguments, _ = parser.parse_known_args()
spark = SparkSession.builder.getOrCreate()
job = plan_job()
output = job.output_path(arguments.output)
read_plan(spark, job)
servers = spark.conf.get("spark.kafka_offsets.kafka.bootstrap.servers")
topic = job.partitions[0].topic_partition.topic
everything = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": servers, "subscribe": topic}).load()
everything.write.mode("overwrite").parquet(output)
report_read(job, spark.read.parquet(output))
spark.stop()
