"""A Spark in this process, for a command that needs one; its JVM ends with the process."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.spark_installation import (
    CONNECTOR,
    find_spark,
    packages_for,
    settings_for,
    settings_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = "spark.jars.packages"


def local_spark(formats: Collection[str], option: str, without: str, cores: str = "1") -> SparkSession:
    """
    :param formats: what it reads.
    :param option: which option needs it; ``without``: what the command does without.
    :raises InvalidRequest: there is no Spark here, or it does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InvalidRequest(
            (
                f"{option} in Spark, and PySpark cannot be imported: {error}. Install it: pip install "
                f"'airflow-kafka-offsets[spark]'. Or leave it out: {without}.",
            )
        ) from None
    spark = find_spark("spark-submit", os.environ)
    configured = settings_of(spark, None, None, os.environ)
    packages = [name for name in packages_for(spark, formats, configured) if CONNECTOR not in name]
    settings = {
        "spark.master": f"local[{cores}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.ansi.enabled": "true",  # these two as RowSink sets them
        "spark.sql.session.timeZone": "UTC",
        _PACKAGES: ",".join(filter(None, [configured.get(_PACKAGES), *packages])),
    }
    settings |= settings_for(formats, configured)
    try:
        return SparkSession.builder.config(map={name: value for name, value in settings.items() if value}).getOrCreate()
    except RuntimeError as error:
        raise InvalidRequest((f"Spark does not start here: {error} Correct what it says above.",)) from None
