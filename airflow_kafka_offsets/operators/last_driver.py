"""The Spark driver that a task has submitted last, in Airflow's task state store.

``SparkSubmitOperator`` keeps notes in that store under names of its own: the driver's id, and for Kubernetes that the
pod has succeeded. A clear leaves them as they are. So the provider's operator finds a driver of another plan, or of
before the clear, and succeeds without submitting anything. Here the provider gets a store whose notes belong to the
last driver, and that is empty where the last driver was submitted for another plan or before a clear.
"""

from __future__ import annotations

from typing import Any

_LAST = "spark_last_driver"


class LastDriver:
    """What stands for ``context["task_state_store"]`` while the provider's operator runs.

    :param states: Airflow's own.
    :param job: plan and split of this task.
    :param clears: how often tasks of this run have been cleared; a retry does not count.
    """

    def __init__(self, states: Any, job: str, clears: int) -> None:
        self.job = job
        self._states, self._clears = states, clears

    @property
    def submitted(self) -> dict[str, Any] | None:
        """``driver`` (its id), ``job`` and ``clears`` of the last one, for whichever plan."""
        found: dict[str, Any] | None = self._states.get(_LAST)
        return found

    def remember(self, driver: str) -> None:
        """A driver was submitted. What was noted of the one before is not found any more."""
        self._states.set(_LAST, {"driver": driver, "job": self.job, "clears": self._clears})

    def get(self, key: str, default: Any = None) -> Any:
        last = self.submitted
        if last is None or (last["job"], last["clears"]) != (self.job, self._clears):
            return default
        return self._states.get(f"{key}:{last['driver']}") or default

    def set(self, key: str, value: Any, **options: Any) -> None:
        last = self.submitted
        if last is not None:
            self._states.set(f"{key}:{last['driver']}", value, **options)
