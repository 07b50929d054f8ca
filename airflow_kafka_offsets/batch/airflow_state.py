"""What a use case knows about the Airflow that it runs in. A script has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from airflow_kafka_offsets.kafka_values import RunKey

NO_AIRFLOW = "no-airflow"


class Around(Protocol):
    """:ivar instance: what names this Airflow in plans, commits and groups."""

    @property
    def instance(self) -> str: ...

    def is_running(self, run: RunKey) -> bool:
        """Whether the DAG run is running; one that is queued, over or unknown is not."""

    def has_succeeded_before(self, run: RunKey) -> bool:
        """Whether the run's task has succeeded in an earlier run."""

    def failed_tasks(self, run: RunKey) -> list[str]:
        """The tasks of the DAG run that have failed, as far as that is known; for a log line, never for a decision."""


@dataclass(frozen=True, slots=True)
class NoAirflow:
    """Nobody to ask: no other run is running, and nothing has succeeded before."""

    instance: str = NO_AIRFLOW

    def is_running(self, run: RunKey) -> bool:
        return False

    def has_succeeded_before(self, run: RunKey) -> bool:
        return False

    def failed_tasks(self, run: RunKey) -> list[str]:
        return []
