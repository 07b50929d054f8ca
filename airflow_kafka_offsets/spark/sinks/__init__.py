"""Outputs that a batch can be written to as often as need be, ready made.

::

    sink = delta("s3a://lake/orders", partition_by=["dt"])
    written = sink(records, batch)

Each keeps the contract of :mod:`airflow_kafka_offsets.spark.sinks.sink_contract`; its own page of the documentation is
``docs/sinks.md``. PySpark is imported when a sink is called, not before.
"""

from airflow_kafka_offsets.spark.sinks.delta_sink import delta
from airflow_kafka_offsets.spark.sinks.files_sink import files
from airflow_kafka_offsets.spark.sinks.iceberg_sink import iceberg
from airflow_kafka_offsets.spark.sinks.jdbc_sink import jdbc
from airflow_kafka_offsets.spark.sinks.sink_contract import Sink, SinkBatch
from airflow_kafka_offsets.spark.sinks.upsert_sink import upsert

__all__ = ["Sink", "SinkBatch", "delta", "files", "iceberg", "jdbc", "upsert"]
