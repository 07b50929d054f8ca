"""The records of one split of a batch → a Delta table, which is made if need be.

They have the batch's key in column ``kafka_batch`` and the split in ``kafka_split``; whoever does the batch again
replaces just these rows, in one commit of the table. The batch's arguments come from ``ResolveStartupOffsetsOperator``;
the job's own are::

    kafka_to_delta.py --table s3a://lake/orders

``spark-submit`` needs the packages of Delta and of Spark's Kafka source, and Delta's two settings: see
https://docs.delta.io/latest/quick-start.html
"""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import delta


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--table", required=True, help="folder or bucket of the table")
    arguments, _ = parser.parse_known_args()  # what else there is, is the batch's

    spark = SparkSession.builder.appName("kafka_to_delta").getOrCreate()
    for_each_batch(spark, delta(path=arguments.table))
    spark.stop()


if __name__ == "__main__":
    main()
