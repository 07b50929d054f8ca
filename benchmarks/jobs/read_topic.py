"""The bare run's job: new records of a topic into a table. Arguments: servers, topic, format, table, and offsets."""

import sys

from pyspark.sql import SparkSession

servers, topic, kind, table, starts = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
records = source.option("startingOffsets", starts).load()
columns = ", ".join(f"{name} {kind_of}" for name, kind_of in records.dtypes)
spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING {kind}")
records.writeTo(table).append()
