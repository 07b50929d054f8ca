"""The task that waits until there is something to plan for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.errors import RequestError, UnavailableError
from airflow_kafka_offsets.triggers.partition_discovery import PartitionDiscoveryTrigger


class PartitionDiscoverySensor(BaseSensorOperator):
    """Wait until the topics exist, have enough partitions, and every partition has a leader.

    One metadata call a poke, however many partitions there are. Returns what it found: ``{"orders": [0, 1, 2]}``.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names that must all exist; or
    :param topic_pattern: a regular expression for whole names, of which at least one topic must match; or
    :param partitions: ``{"topic": [0, 2]}``, which must all exist.
    :param min_partitions: how many partitions every topic must have.
    :param deferrable: wait in the triggerer, without a worker slot. Default: ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = ("kafka_config_id", "topics", "topic_pattern", "partitions")
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
        return PokeReturnValue(is_done=found is not None, xcom_value=found)

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
        return event["topics"]
