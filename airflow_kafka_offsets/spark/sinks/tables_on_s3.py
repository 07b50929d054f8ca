"""Tables on S3: a PUT overwrites, so of two drivers that commit at the same time one may take the other's commit away.

Delta's own log store for S3 looks whether the commit is there, and then puts it; Iceberg's ``hadoop`` catalog renames,
which S3 does by copying. Each of the two drivers then finds its own rows, and a reader those of one. One split, one run
at a time, does not help: a driver that was given up may wake up late, beside the one that has taken its place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.driver_jvm import scheme_of
from airflow_kafka_offsets.values.sql_text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

SCHEMES = {"s3", "s3a", "s3n"}
_DEFAULT = "io.delta.storage.S3SingleDriverLogStore"
_DELTAS_OWN = ("io.delta.storage.", "org.apache.spark.sql.delta.storage.")
_COMMITTED_BY_CATALOG = {"catalogManaged", "catalogOwned-preview"}
_COORDINATOR = "delta.coordinatedCommits.commitCoordinator-preview"
_IN_ONE_PROCESS = "InMemory"


def require_one_delta_writer(spark: SparkSession, output: str, path: str | None, sql_name: str) -> None:
    """:raises InvalidRequest: nothing keeps two drivers from overwriting each other's commit of the Delta table."""
    scheme = scheme_of(spark, path or _location(spark, sql_name))
    if scheme not in SCHEMES or "DATABRICKS_RUNTIME_VERSION" in os.environ:  # which has a commit service of its own
        return
    setting = f"spark.delta.logStore.{scheme}.impl"
    store = spark.conf.get(setting, None) or spark.conf.get("spark.delta.logStore.class", None) or _DEFAULT
    if not store.startswith(_DELTAS_OWN) or store.endswith(".S3DynamoDBLogStore"):
        return
    table = _described(spark, f"DETAIL {sql_name}")
    if table and (_COMMITTED_BY_CATALOG & set(table[0].tableFeatures) or _COORDINATOR in table[0].properties):
        return  # a table that is not there yet is never one: its first commit is put by the log store
    raise InvalidRequest(
        [
            f"{output} is a Delta table on S3, and {store} lets two drivers "
            "overwrite each other's commit: rows would be lost, and no report would show it. Nothing was written. Set "
            f"{setting}=io.delta.storage.S3DynamoDBLogStore for every writer of the table; or make the table yourself, "
            "so that a catalog commits; or write to Iceberg with a catalog of another type than hadoop (docs/sinks.md)."
        ]
    )


def _location(spark: SparkSession, sql_name: str) -> str:
    """Of a table; of one that is not there yet, that of its namespace, if its catalog names it."""
    if table := _described(spark, f"DETAIL {sql_name}"):
        return str(table[0].location)
    namespace = sql_name.rpartition(".`")[0] or quoted(spark.catalog.currentDatabase())
    facts = {row[0]: row[1] for row in _described(spark, f"NAMESPACE {namespace}")}
    return str(facts.get("Location", ""))


def _described(spark: SparkSession, what: str) -> list[Row]:
    """Nothing where there is no such thing."""
    from pyspark.errors import AnalysisException

    try:
        return spark.sql(f"DESCRIBE {what}").collect()
    except AnalysisException:
        return []


def require_one_iceberg_writer(spark: SparkSession, output: str, parts: list[str]) -> None:
    """:raises InvalidRequest: nothing keeps two drivers from overwriting each other's commit of the Iceberg table."""
    named = len(parts) > 1 and spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None
    catalog = parts[0] if named else spark.catalog.currentCatalog()
    setting = {
        name: spark.conf.get(f"spark.sql.catalog.{catalog}.{name}", None) or ""
        for name in ("type", "catalog-impl", "warehouse", "lock-impl")
    }
    is_path = "/" in parts[-1]  # a table without a catalog
    is_hadoop = setting["type"].lower() == "hadoop" or setting["catalog-impl"].endswith("HadoopCatalog")
    is_locked = setting["lock-impl"] and _IN_ONE_PROCESS not in setting["lock-impl"] and not is_path
    if not (is_hadoop or is_path) or is_locked:
        return
    if scheme_of(spark, parts[-1] if is_path else setting["warehouse"]) not in SCHEMES:
        return
    raise InvalidRequest(
        [
            f"{output} is in the hadoop catalog {catalog!r} on S3, where two drivers overwrite each other's commit: "
            "rows would be lost, and no report would show it. Nothing was written. Use a catalog of type jdbc, rest, "
            f"glue, hive or nessie, or a lock for all drivers, spark.sql.catalog.{catalog}.lock-impl (docs/sinks.md)."
        ]
    )
