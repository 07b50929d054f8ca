"""A job for 10,000 partitions with a record or two each: eight tasks read them, and write a file each.

Spark makes a task of each partition of Kafka. Without ``coalesce`` that would be 10,000 files of one row.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.sinks import files

TASKS = 8


def main() -> None:
    output = sys.argv[sys.argv.index("--output") + 1]
    sink = files(output, format="parquet")
    spark = SparkSession.builder.getOrCreate()

    def write(records: DataFrame, batch: object) -> DataFrame:
        return sink(records.coalesce(TASKS), batch)

    for_each_batch(spark, write)
    conf = [value for _, value in spark.sparkContext.getConf().getAll()]
    given = {"argument": sys.argv, "variable": os.environ.values(), "setting": conf}
    longest = {what: max(map(len, values)) for what, values in given.items()}
    (Path(os.environ["LONGEST_GIVEN"]) / f"{os.getpid()}.json").write_text(json.dumps(longest))
    spark.stop()


if __name__ == "__main__":
    main()
