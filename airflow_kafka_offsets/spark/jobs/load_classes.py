"""Loads the classes that most drivers load: the JVM puts them into an archive (hooks/driver_archive.py)."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main(folder: str) -> None:
    """Write a few rows of the sinks' kinds of files to this folder, and read them again."""
    spark = SparkSession.builder.appName("classes of a driver").getOrCreate()
    rows = spark.range(100).select(
        f.col("id").alias("offset"), f.to_json(f.struct("id")).alias("value"), f.current_timestamp().alias("timestamp")
    )
    typed = rows.select("*", f.from_json("value", "id long").alias("row")).select("offset", "timestamp", "row.*")
    for kind in ("parquet", "json"):
        typed.write.mode("overwrite").format(kind).save(f"{folder}/{kind}")
        spark.read.format(kind).load(f"{folder}/{kind}").groupBy(f.col("id") % 3).agg(f.max("offset")).collect()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
