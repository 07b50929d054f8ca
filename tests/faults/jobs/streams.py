"""A Structured Streaming query: what a topic has now → Parquet below `--output`, with a checkpoint. Then it ends."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

parser = argparse.ArgumentParser(allow_abbrev=False)
for name in ("--bootstrap-servers", "--topic", "--checkpoint", "--output"):
    parser.add_argument(name, required=True)
arguments = parser.parse_args()
spark = SparkSession.builder.master("local[1]").getOrCreate()
source = {"kafka.bootstrap.servers": arguments.bootstrap_servers, "subscribe": arguments.topic}
records = spark.readStream.format("kafka").options(**source, startingOffsets="earliest").load()
rows = records.select("topic", "partition", "offset", "value", lit("of the query").alias("kafka_batch"))
stream = rows.writeStream.format("parquet").options(path=arguments.output, checkpointLocation=arguments.checkpoint)
stream.trigger(availableNow=True).start().awaitTermination()
spark.stop()
