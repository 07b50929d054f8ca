"""Loads the classes that most drivers load: the JVM puts them into an archive (hooks/driver_archive.py)."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.driver_jvm import with_settings
from airflow_kafka_offsets.spark.report import OF_FEW, OF_WORDS, by_word


def main(folder: str) -> None:
    """Write a few rows of the sinks' kinds of files to this folder, and count them as a report does."""
    spark = SparkSession.builder.appName("classes of a driver").getOrCreate()
    rows = spark.range(100).select(
        f.lit("orders").alias("topic"),
        f.lit(0).alias("partition"),
        f.col("id").alias("offset"),
        f.to_json(f.struct("id")).alias("value"),
        f.current_timestamp().alias("timestamp"),
    )
    typed = rows.select("*", f.from_json("value", "id long").alias("row")).select(
        "topic", "partition", "offset", "timestamp", "row.*"
    )
    for kind in ("parquet", "json"):
        typed.write.mode("overwrite").format(kind).save(f"{folder}/{kind}")
        written = spark.read.format(kind).load(f"{folder}/{kind}")
        written.groupBy(f.col("id") % 3).agg(f.max("offset")).collect()
        with with_settings(spark, OF_FEW):
            by_word(written).groupBy("topic", "partition").agg(*map(f.expr, OF_WORDS)).collect()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
