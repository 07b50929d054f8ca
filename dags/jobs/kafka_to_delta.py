"""The records of one split of a plan → a Delta table, partitioned by ``run`` and ``split``.

A repeat replaces the rows of its run and split in one commit of the table, and a driver that was given up and comes
late replaces nothing. The plan's arguments come from ``ResolveStartupOffsetsOperator``; the job's own are::

    kafka_to_delta.py --table s3a://lake/orders [--mode append]

``spark-submit`` needs the packages of Delta and of Spark's Kafka source, and Delta's two settings: see
https://docs.delta.io/latest/quick-start.html
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from airflow_kafka_offsets.spark import plan_job, read_plan, report_read, write_options


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--table", required=True, help="folder or bucket of the table")
    parser.add_argument("--mode", choices=["overwrite", "append"], default="overwrite")
    arguments, _ = parser.parse_known_args()  # what else there is, is the plan's
    table, mode = arguments.table, arguments.mode

    spark = SparkSession.builder.appName("kafka_to_delta").getOrCreate()
    job = plan_job()
    job.output_path(table)  # so that no other task replaces these rows
    records = read_plan(spark, job).withColumns({"run": lit(job.run_id), "split": lit(job.split)})
    writer = records.write.format("delta").mode(mode).partitionBy("run", "split")
    writer.options(**write_options(job, "delta", mode)).save(table)
    report_read(job, spark.read.format("delta").load(table).where(job.row_filter))
    spark.stop()


if __name__ == "__main__":
    main()
