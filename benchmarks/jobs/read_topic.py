"""The bare run's job: new records of a topic to Parquet files. Arguments: servers, topic, output, starting offsets."""

import sys

from pyspark.sql import SparkSession

servers, topic, output, starts = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
source.option("startingOffsets", starts).load().write.mode("append").parquet(output)
