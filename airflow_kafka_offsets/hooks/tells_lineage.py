"""What Airflow's OpenLineage provider asks an operator, where it is installed and switched on.

It asks in a process of its own, forked for each event, and a failure there harms no task: it is a warning in the task's
log, and the event goes without datasets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook

if TYPE_CHECKING:
    from airflow_kafka_offsets.log.task_lineage import TaskLineage


class TellsLineage(ABC):
    """For operators: the three methods that the provider looks for."""

    @abstractmethod
    def _task_lineage(self, *, is_over: bool) -> TaskLineage:
        """
        :param is_over: whether the task has run, well or not; else it is about to.
        """

    def get_openlineage_facets_on_start(self) -> Any:
        return self._lineage(is_over=False)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        return self._lineage(is_over=True)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        return self._lineage(is_over=True)

    def _lineage(self, *, is_over: bool) -> Any:
        from airflow_kafka_offsets.hooks.openlineage_events import operator_lineage

        return operator_lineage(self._task_lineage(is_over=is_over))


def servers_of(kafka_config_id: str) -> str:
    """The brokers that a Kafka connection names."""
    return str(kafka_hook(kafka_config_id).client_config["bootstrap.servers"])
