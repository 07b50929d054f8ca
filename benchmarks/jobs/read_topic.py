"""The bare run's job: all records of a topic, each time, to Parquet files. Arguments: servers, topic, output."""

import sys

from pyspark.sql import SparkSession

servers, topic, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
records = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
records.write.mode("overwrite").parquet(output)
