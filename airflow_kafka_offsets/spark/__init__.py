"""What a Spark job imports: the batch that it was started for, reading it, and reporting what was written.

It runs where there is no Airflow and no Kafka client. The whole job is::

    from airflow_kafka_offsets.spark import for_each_batch
    from airflow_kafka_offsets.spark.sinks import files

    for_each_batch(spark, files("/lake/orders"))

``write(records, batch)`` instead of a sink is written like Structured Streaming's ``foreachBatch`` function.

The names are loaded when they are first used (PEP 562): where DAG files are parsed, only the sinks' words are read.

From the import on Py4J logs nothing at DEBUG: it would log all that goes between Python and Java, and Spark's settings
have the keys of object stores and the passwords of databases.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.batch_job import for_each_batch as for_each_batch
    from airflow_kafka_offsets.spark.job_batch import Batch as Batch
    from airflow_kafka_offsets.spark.job_batch import NumberedBatch as NumberedBatch
    from airflow_kafka_offsets.spark.job_batch import WindowBatch as WindowBatch
    from airflow_kafka_offsets.spark.job_batch import planned_batch as planned_batch
    from airflow_kafka_offsets.spark.kafka_source import read_batch as read_batch
    from airflow_kafka_offsets.spark.report import report_batch as report_batch
    from airflow_kafka_offsets.spark.row_frames import RowFrames as RowFrames
    from airflow_kafka_offsets.spark.row_frames import decode as decode

_PUBLIC = {
    "Batch": "job_batch",
    "NumberedBatch": "job_batch",
    "RowFrames": "row_frames",
    "WindowBatch": "job_batch",
    "decode": "row_frames",
    "for_each_batch": "batch_job",
    "planned_batch": "job_batch",
    "read_batch": "kafka_source",
    "report_batch": "report",
}

__all__ = [*_PUBLIC]


def _is_no_debug(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.INFO


for _name in ("py4j.clientserver", "py4j.java_gateway"):  # a filter, because a job may set their level later
    logging.getLogger(_name).addFilter(_is_no_debug)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
