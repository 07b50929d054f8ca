"""What a user would pick instead: Structured Streaming with ``availableNow``. Arguments: servers, topic, output."""

import sys

from pyspark.sql import SparkSession

servers, topic, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
records = source.option("startingOffsets", "earliest").load()
sink = records.writeStream.format("parquet").option("path", output).option("checkpointLocation", f"{output}-checkpoint")
sink.trigger(availableNow=True).start().awaitTermination()
