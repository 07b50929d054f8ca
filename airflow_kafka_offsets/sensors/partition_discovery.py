"""The task that waits until there is something to plan for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, configured_work_store
from airflow_kafka_offsets.offsets.discovery import new_since
from airflow_kafka_offsets.offsets.parse import subscription_of
from airflow_kafka_offsets.sensors.waiting import WaitingSensor, pipeline_checkpoint_id
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.triggers.partition_discovery import PartitionDiscoveryTrigger


class PartitionDiscoverySensor(WaitingSensor):
    """Wait until the topics exist, have enough partitions, and every partition has a leader.

    One metadata call a poke, however many partitions there are. Returns what it found: ``{"orders": [0, 1, 2]}``. What
    is new since the pipeline's last checkpoint is said, and pushed under the XCom key ``new_partitions``.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names that must all exist; or
    :param topic_pattern: a regular expression for whole names, of which at least one topic must match; or
    :param partitions: ``{"topic": [0, 2]}``, which must all exist.
    :param min_partitions: how many partitions every topic must have.
    :param resolve_task_id: the resolve task whose checkpoint "new" is measured by; ``kafka_spark_batch`` names its own.
    :param group_id: of that task; default: the connection's ``group.id``.
    :param checkpoint_id: of that task, if it has one of its own.
    :param work_store: of that task.
    :param deferrable: wait in the triggerer, without a worker slot. Default: ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = (
        "kafka_config_id",
        "topics",
        "topic_pattern",
        "partitions",
        "group_id",
        "checkpoint_id",
        "work_store",
    )

    def __init__(
        self,
        *,
        kafka_config_id: str = "kafka_default",
        topics: Sequence[str] | str | None = None,
        topic_pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | str | None = None,
        include_internal_topics: bool = False,
        min_partitions: int = 1,
        resolve_task_id: str | None = None,
        group_id: str | None = None,
        checkpoint_id: str | None = None,
        work_store: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_config_id = kafka_config_id
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.partitions = partitions
        self.include_internal_topics = include_internal_topics
        self.min_partitions = min_partitions
        self.resolve_task_id = resolve_task_id
        self.group_id = group_id
        self.checkpoint_id = checkpoint_id
        self.work_store = work_store

    def _trigger(self, context: Any) -> PartitionDiscoveryTrigger:
        return PartitionDiscoveryTrigger(
            kafka_config_id=self.kafka_config_id,
            **subscription_of(self),
            min_partitions=self.min_partitions,
            poke_interval=self.poke_interval,
        )

    def _report(self, context: Any, found: Mapping[str, Any]) -> dict[str, list[int]]:
        topics: dict[str, list[int]] = found["topics"]
        if self.resolve_task_id or self.checkpoint_id:
            new = self._new_partitions(context, found["cluster_id"], topics)
            if new:
                self.log.info("New since the last checkpoint: %s", new)
            context["ti"].xcom_push(key="new_partitions", value=new)
        return topics

    def _new_partitions(self, context: Any, cluster_id: str, topics: dict[str, list[int]]) -> dict[str, list[int]]:
        hook = KafkaOffsetsHook(self.kafka_config_id)
        checkpoint_id = pipeline_checkpoint_id(context, hook, self.group_id, self.checkpoint_id, self.resolve_task_id)
        chain = CheckpointChain(configured_work_store(self.work_store), cluster_id, str(checkpoint_id))
        newest = chain.newest()
        return new_since(newest, topics) if newest else {}
