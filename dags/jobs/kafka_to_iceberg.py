"""The records of one split of a batch → an Iceberg table, which is made if need be.

They have the batch's key in column ``kafka_batch`` and the split in ``kafka_split``; whoever does the batch again
replaces just these rows, in one snapshot. The batch's arguments come from ``ResolveStartupOffsetsOperator``; the job's
own are::

    kafka_to_iceberg.py --table lake.db.orders

``spark-submit`` needs the packages of Iceberg and of Spark's Kafka source, and a catalog: see
https://iceberg.apache.org/docs/latest/spark-configuration/
"""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import iceberg


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--table", required=True, help="catalog, namespace and name of the table")
    arguments, _ = parser.parse_known_args()  # what else there is, is the batch's

    spark = SparkSession.builder.appName("kafka_to_iceberg").getOrCreate()
    for_each_batch(spark, iceberg(arguments.table))
    spark.stop()


if __name__ == "__main__":
    main()
