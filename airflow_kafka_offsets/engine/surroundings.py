"""What the engine asks the Airflow around it. Without this courtesy nothing is lost and nothing is read twice."""

from __future__ import annotations

from typing import Protocol

from airflow_kafka_offsets.kafka_values import RunKey


class Airflow(Protocol):
    """The Airflow that a task runs in."""

    def is_running(self, run: RunKey) -> bool:
        """Whether a DAG run is running; a queued one is not."""

    def has_succeeded(self) -> bool:
        """Whether this task has succeeded in another run, so that its pipeline must have a log."""


class NoAirflow:
    """At a terminal: no run is known."""

    def is_running(self, run: RunKey) -> bool:
        return False

    def has_succeeded(self) -> bool:
        return False
