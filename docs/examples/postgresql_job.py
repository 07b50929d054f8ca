"""A job that writes batches into a table of PostgreSQL. Copy it; docs/job-contract.md says what it keeps to.

Spark's tasks fill a staging table. Then one transaction deletes the rows of the batch's key and inserts the staged
ones, so readers see the batch whole or not at all. Drivers of one batch wait for each other at the lock: who gets it
later finds a newer attempt when it looks, or replaces the rows of an older one.

::

    kafka_spark_batch(
        "orders",
        topics=["orders"],
        start="earliest",
        application="postgresql_job.py",
        spark={
            "application_args": ["--table", "public.orders"],
            "packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0,org.postgresql:postgresql:42.7.14",
        },
    )

The driver's environment has the connection: ``ORDERS_JDBC_URL``, ``ORDERS_DB_USER`` and ``ORDERS_DB_PASSWORD``. The
table exists: ``topic text, partition int, "offset" bigint, value text, kafka_batch text``, with an index on
``kafka_batch``.
"""

import os
from argparse import ArgumentParser

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark import Batch, Sink, for_each_batch

DRIVER = "org.postgresql.Driver"
COLUMNS = 'topic, partition, "offset", value, kafka_batch'


class PostgresTable(Sink):
    """A table that has all batches of a pipeline."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.url = os.environ["ORDERS_JDBC_URL"]
        self.account = {"user": os.environ["ORDERS_DB_USER"], "password": os.environ["ORDERS_DB_PASSWORD"]}
        self.output = f"postgresql:{self.url.removeprefix('jdbc:postgresql://')}/{table}"  # without the password

    def check(self, spark: SparkSession, plan: object) -> None:
        """Fail before the attempt begins if there is no such table."""
        self._table(spark, f"(SELECT {COLUMNS} FROM {self.table} WHERE false) t").schema  # noqa: B018

    def write(self, batch: Batch, rows: DataFrame) -> DataFrame:
        staging = f"{self.table}_{batch.number}_{batch.attempt}"
        rows = rows.select("topic", "partition", "offset", f.col("value").cast("string"))
        rows = rows.withColumn("kafka_batch", f.lit(batch.key))
        rows.write.jdbc(self.url, staging, "overwrite", {**self.account, "driver": DRIVER})
        connection = self._connect(batch.spark)
        connection.setAutoCommit(False)
        statement = connection.createStatement()
        try:
            statement.execute(f"SELECT pg_advisory_xact_lock(hashtext('{self.table} {batch.key}'))")
            batch.look()  # under the lock: nobody else writes this batch before the commit
            statement.execute(f"DELETE FROM {self.table} WHERE kafka_batch = '{batch.key}'")
            statement.execute(f"INSERT INTO {self.table} ({COLUMNS}) SELECT {COLUMNS} FROM {staging}")
            connection.commit()
        finally:
            connection.rollback()
            statement.execute(f"DROP TABLE {staging}")
            connection.commit()
            connection.close()
        # If a Spark task has staged its rows twice, the report does not match, and the batch is not committed.
        query = f"(SELECT {COLUMNS} FROM {self.table} WHERE kafka_batch = '{batch.key}') t"
        return self._table(batch.spark, query)

    def _table(self, spark: SparkSession, query: str) -> DataFrame:
        return spark.read.jdbc(self.url, query, properties={**self.account, "driver": DRIVER})

    def _connect(self, spark: SparkSession):
        jvm = spark.sparkContext._jvm
        properties = jvm.java.util.Properties()
        for name, value in self.account.items():
            properties.setProperty(name, value)
        # Spark knows the class loader that has the jars of spark.jars; DriverManager alone does not.
        jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(DRIVER)
        return jvm.java.sql.DriverManager.getConnection(self.url, properties)


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--table", required=True)
    own, _ = parser.parse_known_args()
    session = SparkSession.builder.getOrCreate()
    for_each_batch(session, PostgresTable(own.table))
    session.stop()
