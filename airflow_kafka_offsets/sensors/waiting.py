"""What the sensors have in common: look once, then wait in a worker or in the triggerer; errors and when to give up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.errors import RequestError, UnavailableError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, default_checkpoint_id
from airflow_kafka_offsets.triggers.waiting import WaitingTrigger


class WaitingSensor(BaseSensorOperator):
    """Waits for what its trigger looks for; the trigger is the same whether it runs here or in the triggerer.

    :param deferrable: wait in the triggerer, without a worker slot. Default: ``[operators] default_deferrable``.
    """

    ui_color = "#e6f2e6"
    task_doc: ClassVar[str | None] = None  # what the UI shows where the DAG's author says nothing else

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**{"doc_md": self.task_doc, **kwargs})
        default = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = default if deferrable is None else deferrable

    def execute(self, context: Any) -> Any:
        if not self.deferrable:
            return super().execute(context)
        result = self.poke(context)
        if not result.is_done:
            self.defer(
                trigger=self._trigger(context),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return result.xcom_value

    def poke(self, context: Any) -> PokeReturnValue:
        try:
            found = self._trigger(context).look()
            report = None if found is None else self._report(context, found)
        except UnavailableError as error:
            if not error.retriable:
                raise
            self.log.warning("Waiting: %s", error)
            found = report = None
        except RequestError as error:
            raise AirflowFailException(str(error)) from None
        return PokeReturnValue(is_done=found is not None, xcom_value=report)

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Called with what the trigger found, or with why it cannot go on."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        try:
            return self._report(context, event)
        except RequestError as error:
            raise AirflowFailException(str(error)) from None

    @abstractmethod
    def _trigger(self, context: Any) -> WaitingTrigger:
        """What looks."""

    @abstractmethod
    def _report(self, context: Any, found: Mapping[str, Any]) -> Any:
        """The sensor's XCom, of what the trigger found."""


def pipeline_checkpoint_id(
    context: Any, hook: KafkaOffsetsHook, group_id: str | None, checkpoint_id: str | None, resolve_task_id: str | None
) -> str | None:
    """The checkpoint_id of the resolve task that a sensor names in its own DAG; ``None`` where it names none."""
    if checkpoint_id or not resolve_task_id:
        return checkpoint_id
    group = group_id or hook.client_config.get("group.id")
    return default_checkpoint_id(group, context["ti"].dag_id, resolve_task_id)
