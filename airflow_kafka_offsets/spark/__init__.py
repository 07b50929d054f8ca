"""What a Spark job imports: the batch that it was started for, reading it, and reporting what was written.

It runs where there is no Airflow and no Kafka client. The whole job is::

    from airflow_kafka_offsets.spark import for_each_batch
    from airflow_kafka_offsets.spark.sinks import files

    for_each_batch(spark, files("/lake/orders"))

``write(records, batch)`` instead of a sink is written like Structured Streaming's ``foreachBatch`` function.

The names are loaded when they are first used (PEP 562): where DAG files are parsed, only the sinks' words are read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.batch import Batch as Batch
    from airflow_kafka_offsets.spark.batch import NumberedBatch as NumberedBatch
    from airflow_kafka_offsets.spark.batch import WindowBatch as WindowBatch
    from airflow_kafka_offsets.spark.batch import planned_batch as planned_batch
    from airflow_kafka_offsets.spark.loop import for_each_batch as for_each_batch
    from airflow_kafka_offsets.spark.report import report_batch as report_batch
    from airflow_kafka_offsets.spark.source import read_batch as read_batch

_PUBLIC = {
    "Batch": "batch",
    "NumberedBatch": "batch",
    "WindowBatch": "batch",
    "for_each_batch": "loop",
    "planned_batch": "batch",
    "read_batch": "source",
    "report_batch": "report",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
