"""The Airflow around the engine, as far as the engine asks it; a script has none."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from airflow_kafka_offsets.kafka_values import RunKey

NO_AIRFLOW = "no-airflow"
Step = Literal["decide", "carry out"]


class NoAirflow:
    """What the engine may ask of the Airflow around. A script has none: no other run runs, nothing succeeded before."""

    @property
    def instance(self) -> str:
        """What names this Airflow in plans, commits and groups."""
        return NO_AIRFLOW

    def is_running(self, run: RunKey) -> bool:
        """Whether the DAG run is running; one that is queued, over or unknown is not."""
        return False

    def has_succeeded_before(self, run: RunKey) -> bool:
        """Whether the run's task has succeeded in an earlier run."""
        return False

    def failed_tasks(self, run: RunKey) -> list[str]:
        """The tasks of the DAG run that have failed, as far as that is known; for a log line, never for a decision."""
        return []

    def timed(self, step: Step) -> AbstractContextManager[None]:
        """Around a step of the engine: how long it takes is told whoever wants to know."""
        return nullcontext()
