"""A job that writes to PostgreSQL, logs at DEBUG, and waits until it is let go, so that its UI can be looked at."""

import logging
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import jdbc

logging.basicConfig(level=logging.DEBUG)
spark = SparkSession.builder.getOrCreate()
url, go = sys.argv[1:3]
for_each_batch(spark, lambda records, batch: jdbc(url, "orders")(records.drop("headers"), batch))
print("written, and waiting", flush=True)
while not Path(go).exists():
    time.sleep(0.1)
spark.stop()
