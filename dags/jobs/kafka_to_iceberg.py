"""The records of one split of a plan → an Iceberg table, partitioned by ``run`` and ``split``.

A repeat replaces the rows of its run and split in one snapshot, which says by which plan it was made. The plan's
arguments come from ``ResolveStartupOffsetsOperator``; the job's own are::

    kafka_to_iceberg.py --table lake.db.orders

``spark-submit`` needs the packages of Iceberg and of Spark's Kafka source, and a catalog: see
https://iceberg.apache.org/docs/latest/spark-configuration/
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr, lit

from airflow_kafka_offsets.spark import plan_job, read_plan, report_read, write_options

CREATE = """
CREATE TABLE IF NOT EXISTS {} (
  key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, run STRING, split INT
) USING iceberg PARTITIONED BY (run, split)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--table", required=True, help="catalog, namespace and name of the table; made if need be")
    arguments, _ = parser.parse_known_args()  # what else there is, is the plan's
    table = arguments.table

    spark = SparkSession.builder.appName("kafka_to_iceberg").getOrCreate()
    spark.sql(CREATE.format(table))
    job = plan_job()
    job.output_path(table)  # so that no other task replaces these rows
    records = read_plan(spark, job).drop("timestampType").withColumns({"run": lit(job.run_id), "split": lit(job.split)})
    writer = records.writeTo(table).options(**write_options(job, "iceberg"))
    writer.overwrite(expr(job.row_filter))
    report_read(job, spark.table(table).where(job.row_filter))
    spark.stop()


if __name__ == "__main__":
    main()
