"""The records of one split of a batch → Parquet: key, value, topic, partition, offset, timestamp.

They go to ``<output>/kafka_batch=<key>/kafka_split=<k>``, which whoever does the batch again replaces. The batch's
arguments come from ``ResolveStartupOffsetsOperator``; the job's own are::

    kafka_to_parquet.py --output s3a://lake/orders [--min-partitions 32]
"""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="folder or bucket below which the Parquet files go")
    parser.add_argument("--min-partitions", type=int, default=1, help="Spark tasks to split the read into, at least")
    arguments, _ = parser.parse_known_args()  # what else there is, is the batch's

    spark = SparkSession.builder.appName("kafka_to_parquet").getOrCreate()
    for_each_batch(spark, files(arguments.output), minPartitions=arguments.min_partitions)
    spark.stop()


if __name__ == "__main__":
    main()
