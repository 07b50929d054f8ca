"""What a row definition makes of one record: Spark decodes it in this process, by the code of the pipeline's job."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_kafka_offsets.broker.records import Record
from airflow_kafka_offsets.cli.local_spark import local_spark
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.values.row_definition import RowDefinition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decoded_record(record: Record, definition: RowDefinition) -> dict[str, Any]:
    """``fate`` is ``row``, ``set aside`` or ``left out``; with the ``reason``, and the ``row``, where there is one.

    :raises InvalidRequest: there is no Spark here, or it does not take the definition.
    """
    of_topic = definition.of_topic(record.topic_partition.topic)
    if of_topic is None:
        topics = ", ".join(sorted(definition.topics))
        raise InvalidRequest((f"That row definition has the topics {topics}: give the one of a batch of this topic.",))
    spark = local_spark(of_topic.formats, "--rows and --value-format decode", "then the record is shown as it is")
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
