"""The outputs that the contract is tried on: what a child's Spark needs for them, and how anybody reads them whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark.sinks import Sink, delta, files, iceberg, jdbc, upsert
from testbed.jars import delta_jars, iceberg_jars, postgresql_jars
from testbed.java import Java
from testbed.spark import SMALL_QUERIES, spark_conf
from testbed.spark_cluster import QUICK

OUTPUTS = ["files", "files by date", "delta", "iceberg", "jdbc"]


def conf(java: Java, root: Path) -> dict[str, str]:
    """One Spark for all of them: their jars do not get in each other's way."""
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    )
    return {
        **spark_conf([*delta_jars(java), *iceberg_jars(java), *postgresql_jars(java)]),
        "spark.sql.extensions": extensions,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(root / "lake"),
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "1",  # of 50, for tables of a few files
        "spark.sql.shuffle.partitions": "1",
        **SMALL_QUERIES,
        "spark.driver.extraJavaOptions": QUICK,
        "spark.log.level": "OFF",  # what fails here is meant to, and is looked at by the tests
    }


def sink(kind: str, place: Mapping[str, str], **options: Any) -> Sink:
    """The sink of an output; `place` has the root of all folders, the test's own name, and the database."""
    path = f"{place['root']}/{place['name']}"
    if "batchsize" in place:
        options = {"options": {"batchsize": place["batchsize"]}}
    if kind == "files":
        return files(path, **options)
    if kind == "files by date":
        return files(path, **{"partition_by": ["dt"], **options})
    if kind == "delta":
        return delta(path, **{"partition_by": ["dt"], **options})
    if kind == "delta table":
        return delta(table=place["name"], **options)
    if kind == "iceberg":
        return iceberg(f"lake.db.{place['name']}", **{"partition_by": ["dt"], **options})
    if kind == "iceberg of a jdbc catalog":
        return iceberg(f"jdbc.db.{place['name']}", **options)
    if kind == "jdbc":
        return jdbc(place["url"], place["name"], **options)
    if kind == "upsert delta":
        return upsert(delta(path), keys=["id"])
    if kind == "upsert iceberg":
        return upsert(iceberg(f"lake.db.{place['name']}"), keys=["id"])
    if kind == "upsert jdbc":
        return upsert(jdbc(place["url"], place["name"], **options), keys=["id"])
    raise ValueError(kind)


def whole(kind: str, spark: SparkSession, place: Mapping[str, str]) -> DataFrame | None:
    """The output as a reader sees it who knows nothing of batches; None if there is none."""
    path = f"{place['root']}/{place['name']}"
    try:
        if kind.startswith("files"):
            frame = spark.read.option("mergeSchema", "true").parquet(path)
        elif kind in ("delta", "upsert delta"):
            frame = spark.read.format("delta").load(path)
        elif kind == "delta table":
            frame = spark.table(place["name"])
        elif "iceberg" in kind:
            table = f"{'jdbc' if 'jdbc' in kind else 'lake'}.db.{place['name']}"
            if not spark.catalog.tableExists(table):
                return None
            spark.catalog.refreshTable(table)
            frame = spark.table(table)
        else:
            options = {"url": place["url"], "dbtable": place["name"], "driver": "org.postgresql.Driver"}
            frame = spark.read.format("jdbc").options(user="postgres", password=place["password"], **options).load()
        return frame
    except Exception as error:
        if any(words in str(error) for words in ("PATH_NOT_FOUND", "NOT_FOUND]", "UNABLE_TO_INFER", "does not exist")):
            return None
        raise
