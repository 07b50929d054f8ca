"""A job of one's own: the records as text, in a folder for each day → Parquet below ``spark.orders_by_day.output``.

It is started once for each batch. All its arguments are the batch's.
"""

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import for_each_batch


def main() -> None:
    spark = SparkSession.builder.appName("orders_by_day").getOrCreate()
    output = spark.conf.get("spark.orders_by_day.output")

    def write(records, batch):
        """Keep topic, partition and offset: the commit checks by them that every record was written once."""
        folder = f"{output}/kafka_batch={batch.key}"
        rows = records.selectExpr(
            "CAST(value AS STRING) AS body", "topic", "partition", "offset", "DATE(timestamp) AS day"
        )
        rows.write.mode("overwrite").partitionBy("day").parquet(folder)
        return spark.read.parquet(folder)

    for_each_batch(spark, write)
    spark.stop()


if __name__ == "__main__":
    main()
