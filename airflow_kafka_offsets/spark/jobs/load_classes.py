"""A small job that loads the classes of Spark which a batch needs: its JVM archives them (``hooks/class_archive``)."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.count import count, observe


def load_classes(spark: SparkSession, folder: str) -> None:
    """Write a few typed rows into this folder, read them back and count them."""
    records = spark.range(100).selectExpr(
        "'orders' AS topic", "0 AS partition", "id AS offset", "to_json(struct(id)) AS value", "now() AS timestamp"
    )
    rows, _ = observe(records.selectExpr("*", "from_json(value, 'id BIGINT') AS row"))
    rows.write.parquet(folder)
    count(spark.read.parquet(folder))


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    load_classes(session, sys.argv[1])
    session.stop()
