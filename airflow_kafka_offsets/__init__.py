# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Exactly-once batches from Kafka to tables, by Spark, scheduled by Airflow.

*Resolve* turns a request into one half-open range of offsets per partition and records it as a batch. *Spark* reads
exactly those ranges and writes them under the batch's key. *Commit* verifies what was written, commits, and commits
the position to the consumer group.

The names are loaded when they are first used (PEP 562), so that a DAG file loads what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook as KafkaOffsetsHook
    from airflow_kafka_offsets.offsets import GroupOffsets as GroupOffsets
    from airflow_kafka_offsets.offsets import SpecificOffsets as SpecificOffsets
    from airflow_kafka_offsets.offsets import Timestamp as Timestamp
    from airflow_kafka_offsets.operators.batch import KafkaSparkBatchOperator as KafkaSparkBatchOperator
    from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator as CommitOffsetsOperator
    from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator as ResolveStartupOffsetsOperator
    from airflow_kafka_offsets.operators.submit import SparkSubmitBatchOperator as SparkSubmitBatchOperator
    from airflow_kafka_offsets.operators.task_group import kafka_spark_batch as kafka_spark_batch
    from airflow_kafka_offsets.rows.config import Avro as Avro
    from airflow_kafka_offsets.rows.config import BadRecords as BadRecords
    from airflow_kafka_offsets.rows.config import Debezium as Debezium
    from airflow_kafka_offsets.rows.config import Delta as Delta
    from airflow_kafka_offsets.rows.config import Iceberg as Iceberg
    from airflow_kafka_offsets.rows.config import Json as Json
    from airflow_kafka_offsets.rows.config import Merge as Merge
    from airflow_kafka_offsets.rows.config import Rows as Rows
    from airflow_kafka_offsets.rows.config import Text as Text
    from airflow_kafka_offsets.sensors.partition_discovery import PartitionDiscoverySensor as PartitionDiscoverySensor
    from airflow_kafka_offsets.sensors.window_complete import WindowCompleteSensor as WindowCompleteSensor
    from airflow_kafka_offsets.triggers.lag import KafkaLagTrigger as KafkaLagTrigger

_PUBLIC = {
    "Avro": "rows.config",
    "BadRecords": "rows.config",
    "CommitOffsetsOperator": "operators.commit",
    "Debezium": "rows.config",
    "Delta": "rows.config",
    "GroupOffsets": "offsets",
    "Iceberg": "rows.config",
    "Json": "rows.config",
    "KafkaLagTrigger": "triggers.lag",
    "KafkaOffsetsHook": "hooks.kafka_offsets",
    "KafkaSparkBatchOperator": "operators.batch",
    "Merge": "rows.config",
    "PartitionDiscoverySensor": "sensors.partition_discovery",
    "ResolveStartupOffsetsOperator": "operators.resolve",
    "Rows": "rows.config",
    "SparkSubmitBatchOperator": "operators.submit",
    "SpecificOffsets": "offsets",
    "Text": "rows.config",
    "Timestamp": "offsets",
    "WindowCompleteSensor": "sensors.window_complete",
    "kafka_spark_batch": "operators.task_group",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_PUBLIC]
