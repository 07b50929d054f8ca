"""The Spark job of ``kafka_spark_batch(sink=…)``: the records of one split of a batch → a ready-made sink.

Without a row definition the records have the columns of Spark's Kafka source: key, value, topic, partition, offset,
timestamp, timestampType. With one they become its rows, and bad records go where ``--bad-records-…`` says.
Every argument comes from ``ResolveStartupOffsetsOperator``: ``--sink-…`` says where to write, the others what to read.
"""

import logging
import sys

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch, planned_batch
from airflow_kafka_offsets.spark.row_sink import RowSink
from airflow_kafka_offsets.spark.sinks.sink_arguments import BAD_RECORDS, sink_of, words_of_arguments


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("airflow_kafka_offsets").setLevel(logging.INFO)
    words, bad = words_of_arguments(sys.argv[1:]), words_of_arguments(sys.argv[1:], BAD_RECORDS)
    spark = SparkSession.builder.getOrCreate()  # its name is that of the Airflow task
    batch = planned_batch(spark=spark)
    if batch.rows is None:
        for_each_batch(spark, sink_of(words))
    else:
        for_each_batch(spark, RowSink(words, batch.row_definition, bad, batch.topics_of_all_splits))
    spark.stop()


if __name__ == "__main__":
    main()
