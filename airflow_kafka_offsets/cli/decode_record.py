"""What a row definition makes of one record: Spark decodes it in this process, by the code of the pipeline's job."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.broker.records import Record
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.spark_installation import CONNECTOR, find_spark, packages_for, settings_of
from airflow_kafka_offsets.values.row_definition import RowDefinition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = "spark.jars.packages"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decoded_record(record: Record, definition: RowDefinition) -> dict[str, Any]:
    """``fate`` is ``row``, ``set aside`` or ``left out``; with the ``reason``, and the ``row``, where there is one.

    :raises InvalidRequest: there is no Spark here, or it does not take the definition.
    """
    of_topic = definition.of_topic(record.topic_partition.topic)
    if of_topic is None:
        topics = ", ".join(sorted(definition.topics))
        raise InvalidRequest((f"That row definition has the topics {topics}: give the one of a batch of this topic.",))
    spark = _session(of_topic)
    from pyspark.sql import functions as f

    from airflow_kafka_offsets.spark.kafka_source import KAFKA_COLUMNS
    from airflow_kafka_offsets.spark.report import LEFT_OUT, ROW, SET_ASIDE
    from airflow_kafka_offsets.spark.row_frames import REASON, check_definition, row_frames

    check_definition(spark, of_topic)
    frames = row_frames(spark.createDataFrame([_as_spark_has_it(record)], KAFKA_COLUMNS), of_topic)
    as_json = f.to_json(f.struct("*"), {"ignoreNullFields": "false"})
    if found := frames.rows.select(as_json).collect():
        return {"fate": ROW, "reason": None, "row": json.loads(found[0][0])}
    reason = frames.rest.select(REASON).collect()[0][0]
    return {"fate": SET_ASIDE if reason else LEFT_OUT, "reason": reason or None, "row": None}


def _as_spark_has_it(record: Record) -> tuple[Any, ...]:
    at = None if record.timestamp_ms is None else _EPOCH + timedelta(milliseconds=record.timestamp_ms)
    kind = {"CreateTime": 0, "LogAppendTime": 1}.get(record.timestamp_type or "", -1)
    return record.key, record.value, *record.topic_partition, record.offset, at, kind


def _session(definition: RowDefinition) -> SparkSession:
    """A local one; its JVM ends with this process."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InvalidRequest(
            (
                f"--rows and --value-format decode in Spark, and PySpark cannot be imported: {error}. Install it: pip "
                "install 'airflow-kafka-offsets[spark]'. Or leave them out: then the record is shown as it is.",
            )
        ) from None
    spark = find_spark("spark-submit", os.environ)
    configured = settings_of(spark, None, None, os.environ)
    packages = [name for name in packages_for(spark, definition.formats, configured) if CONNECTOR not in name]
    settings = {
        "spark.master": "local[1]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.ansi.enabled": "true",  # these two as RowSink sets them
        "spark.sql.session.timeZone": "UTC",
        _PACKAGES: ",".join(filter(None, [configured.get(_PACKAGES), *packages])),
    }
    try:
        return SparkSession.builder.config(map={name: value for name, value in settings.items() if value}).getOrCreate()
    except RuntimeError as error:
        raise InvalidRequest((f"Spark does not start here: {error} Correct what it says above.",)) from None
