"""The task that waits until there is something to plan for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.errors import RequestError, UnavailableError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, configured_work_store, default_checkpoint_id
from airflow_kafka_offsets.offsets.discovery import new_since
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.triggers.partition_discovery import PartitionDiscoveryTrigger


class PartitionDiscoverySensor(BaseSensorOperator):
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
    ui_color = "#e6f2e6"

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
        deferrable: bool | None = None,
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
        default = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = default if deferrable is None else deferrable

    def execute(self, context: Any) -> Any:
        if not self.deferrable:
            return super().execute(context)
        result = self.poke(context)
        if not result.is_done:
            self.defer(
                trigger=self._trigger(),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return result.xcom_value

    def poke(self, context: Any) -> PokeReturnValue:
        try:
            found = self._trigger().look()
        except UnavailableError as error:
            if not error.retriable:
                raise
            self.log.warning("Waiting: %s", error)
            found = None
        except RequestError as error:
            raise AirflowFailException(str(error)) from None
        return PokeReturnValue(is_done=found is not None, xcom_value=found and self._report(context, found))

    def _trigger(self) -> PartitionDiscoveryTrigger:
        return PartitionDiscoveryTrigger(
            kafka_config_id=self.kafka_config_id,
            topics=self.topics,
            topic_pattern=self.topic_pattern,
            partitions=self.partitions,
            include_internal_topics=self.include_internal_topics,
            min_partitions=self.min_partitions,
            poke_interval=self.poke_interval,
        )

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Called with what the trigger found, or with why it cannot go on."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        return self._report(context, event)

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
        group_id = self.group_id or hook.client_config.get("group.id")
        checkpoint_id = self.checkpoint_id or default_checkpoint_id(
            group_id, context["ti"].dag_id, str(self.resolve_task_id)
        )
        chain = CheckpointChain(configured_work_store(self.work_store), cluster_id, checkpoint_id)
        newest = chain.newest()
        return new_since(newest, topics) if newest else {}
