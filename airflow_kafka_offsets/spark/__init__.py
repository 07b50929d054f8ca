"""What a Spark job imports: the batch that it was started for, reading it, and reporting what was written.

It runs where there is no Airflow and no Kafka client. The whole job is::

    from airflow_kafka_offsets.spark import for_each_batch
    from airflow_kafka_offsets.spark.sinks import files

    for_each_batch(spark, files("/lake/orders"))

``write(records, batch)`` instead of a sink is written like Structured Streaming's ``foreachBatch`` function.
"""

from __future__ import annotations

from airflow_kafka_offsets.spark.batch import Batch, NumberedBatch, WindowBatch, planned_batch
from airflow_kafka_offsets.spark.loop import for_each_batch
from airflow_kafka_offsets.spark.report import report_batch
from airflow_kafka_offsets.spark.source import read_batch

__all__ = [
    "Batch",
    "NumberedBatch",
    "WindowBatch",
    "for_each_batch",
    "planned_batch",
    "read_batch",
    "report_batch",
]
