"""Exactly-once batches from Kafka to Spark, scheduled by Airflow.

Airflow imports this package while it is itself half imported (provider discovery), and a Spark driver imports it where
there is no Airflow: so nothing is imported here, and the public names are loaded when they are first used (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from airflow_kafka_offsets.batch.preview import plan_offsets as plan_offsets
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook as KafkaOffsetsHook
    from airflow_kafka_offsets.log.whole_log import audit_pipeline as audit_pipeline
    from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator as CommitOffsetsOperator
    from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator as ResolveStartupOffsetsOperator
    from airflow_kafka_offsets.operators.task_group import kafka_spark_batch as kafka_spark_batch
    from airflow_kafka_offsets.plan.job_arguments import batch_arguments as batch_arguments
    from airflow_kafka_offsets.sensors.batch_committed import BatchCommittedSensor as BatchCommittedSensor
    from airflow_kafka_offsets.sensors.group_empty import GroupEmptySensor as GroupEmptySensor
    from airflow_kafka_offsets.sensors.offset_lag import OffsetLagSensor as OffsetLagSensor
    from airflow_kafka_offsets.sensors.partition_discovery import PartitionDiscoverySensor as PartitionDiscoverySensor
    from airflow_kafka_offsets.sensors.window_complete import WindowCompleteSensor as WindowCompleteSensor

_PUBLIC = {
    "BatchCommittedSensor": "sensors.batch_committed",
    "CommitOffsetsOperator": "operators.commit",
    "GroupEmptySensor": "sensors.group_empty",
    "KafkaOffsetsHook": "hooks.kafka_offsets",
    "OffsetLagSensor": "sensors.offset_lag",
    "PartitionDiscoverySensor": "sensors.partition_discovery",
    "ResolveStartupOffsetsOperator": "operators.resolve",
    "WindowCompleteSensor": "sensors.window_complete",
    "audit_pipeline": "log.whole_log",
    "batch_arguments": "plan.job_arguments",
    "kafka_spark_batch": "operators.task_group",
    "plan_offsets": "batch.preview",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
