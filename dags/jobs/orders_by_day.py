"""A job of one's own: the records as text, in a folder for each day → Parquet.

``kafka_spark_batch(application="jobs/orders_by_day.py", spark={"application_args": ["--output", "/lake/orders"]}, …)``
starts it once for each batch. The batch's arguments follow the job's own.
"""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="folder below which the Parquet files go")
    arguments, _ = parser.parse_known_args()  # what else there is, is the batch's
    spark = SparkSession.builder.appName("orders_by_day").getOrCreate()

    def write(records, batch):
        """Keep topic, partition and offset: the commit checks by them that every record was written once."""
        folder = f"{arguments.output}/kafka_batch={batch.key}"
        rows = records.selectExpr(
            "CAST(value AS STRING) AS body", "topic", "partition", "offset", "DATE(timestamp) AS day"
        )
        rows.write.mode("overwrite").partitionBy("day").parquet(folder)
        return spark.read.parquet(folder)

    for_each_batch(spark, write)
    spark.stop()


if __name__ == "__main__":
    main()
