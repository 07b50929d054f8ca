"""The JVM of a Spark driver, through Py4J. No other file touches PySpark's private parts (docs/private-parts.md).

PySpark has no public way to Hadoop's file systems, to Kafka's Java client or to the plan of a frame. A session of Spark
Connect has no JVM here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def jvm_of(spark: SparkSession | None) -> Any:
    """``None`` where there is none."""
    return getattr(spark, "_jvm", None)


def require_jvm(spark: SparkSession, what: str) -> Any:
    """The JVM of a session.

    :raises InvalidRequest: it is one of Spark Connect, whose JVM is elsewhere.
    """
    jvm = jvm_of(spark)
    if jvm is None:
        raise InvalidRequest(
            [f"{what} through the driver's JVM, which Spark Connect has not. Write to Delta or Iceberg."]
        )
    return jvm


def hadoop_conf(spark: SparkSession) -> Any:
    """Hadoop's settings of a session that has a JVM."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def query_execution(frame: DataFrame) -> Any:
    """The plans of a frame; ``None`` where there is no JVM."""
    java = getattr(frame, "_jdf", None)
    return None if java is None else java.queryExecution()
