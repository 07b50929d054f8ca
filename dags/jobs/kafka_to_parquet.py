"""The records of one split of a plan → Parquet: key, value, topic, partition, offset and timestamp.

Each run and split has a folder of its own, ``<output>/run=<run id>/split=<k>``, which a repeat overwrites: a retry
leaves no record twice. The plan's arguments come from ``ResolveStartupOffsetsOperator``; the job's own are::

    kafka_to_parquet.py --output s3a://lake/orders [--min-partitions 32]
"""

import argparse

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import plan_job, read_plan, report_read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="folder or bucket below which the Parquet files go")
    parser.add_argument("--min-partitions", type=int, default=1, help="Spark tasks to split the read into, at least")
    arguments, _ = parser.parse_known_args()  # what else there is, is the plan's

    spark = SparkSession.builder.appName("kafka_to_parquet").getOrCreate()
    job = plan_job()
    output = job.output_path(arguments.output)
    records = read_plan(spark, job, minPartitions=arguments.min_partitions)
    columns = records.select("key", "value", "topic", "partition", "offset", "timestamp")
    columns.write.mode("overwrite").parquet(output)
    report_read(job, spark.read.parquet(output))  # only now: what was written is what is counted
    spark.stop()


if __name__ == "__main__":
    main()
