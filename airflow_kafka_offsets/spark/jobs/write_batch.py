"""The Spark job of ``kafka_spark_batch(sink=…)``: the records of one split of a batch → a ready-made sink.

The records have the columns of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType.
Every argument comes from ``ResolveStartupOffsetsOperator``: ``--sink-…`` says where to write, the others what to read.
"""

import logging
import sys

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks.sink_arguments import sink_of_arguments


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("airflow_kafka_offsets").setLevel(logging.INFO)
    sink = sink_of_arguments(sys.argv[1:])
    spark = SparkSession.builder.getOrCreate()  # its name is that of the Airflow task
    for_each_batch(spark, sink)
    spark.stop()


if __name__ == "__main__":
    main()
