"""A job of one's own: the records as text, in a folder for each day → Parquet.

``application="jobs/orders_by_day.py", application_args=["--output", "/lake/orders"], output="/lake/orders"`` of
``kafka_spark_batch`` starts it once for each split. The batch's arguments are added to the job's own.
"""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="folder or bucket below which the Parquet files go")
    arguments, _ = parser.parse_known_args()  # what else there is, is the batch's

    sink = files(arguments.output, partition_by=["day"])

    def write(records, batch):
        """Keep topic, partition and offset: the commit checks by them that every record was written once."""
        body, day = "CAST(value AS STRING) AS body", "DATE(timestamp) AS day"
        return sink(records.selectExpr(body, "topic", "partition", "offset", day), batch)

    spark = SparkSession.builder.appName("orders_by_day").getOrCreate()
    for_each_batch(spark, write)
    spark.stop()


if __name__ == "__main__":
    main()
