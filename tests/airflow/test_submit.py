"""Which driver a Spark task takes for its own, over a cluster in memory; on a real one: tests/spark."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import FormerDriverRuns
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from tests.builders import job_arguments


@dataclass
class Drivers:
    """The deployment that the provider's operator asks: ids and states, and nothing that ends by itself."""

    states: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def submit_job(self, context: Any) -> str:
        driver = f"driver-{self.count}"
        self.count += 1
        self.states[driver] = "RUNNING"
        return driver

    def get_job_status(self, external_id: str, context: Any) -> str:
        return self.states[external_id]

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "FINISHED"

    def poll_until_complete(self, external_id: str, context: Any) -> None:
        raise ConnectionError("the worker is lost")


class Pods(Drivers):
    """Kubernetes forgets a pod, so the provider notes in the task state store that one has succeeded."""

    def get_job_status(self, external_id: str, context: Any) -> str:
        return context["task_state_store"].get("k8s_driver_status") or self.states.get(external_id, "NotFound")

    def poll_until_complete(self, external_id: str, context: Any) -> None:
        context["task_state_store"].set("k8s_driver_status", "FINISHED")
        self.states.pop(external_id)
        raise ConnectionError("the worker is lost")


class States(dict[str, Any]):
    """Airflow's task state store, as far as it is used here."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


class Task:
    """One task instance: its state store, the clears of its run, and the cluster."""

    def __init__(self, drivers: Drivers | None = None, *, knows_batches: bool = True) -> None:
        self.drivers, self.clears, self.states = drivers or Drivers(), 0, States()
        self.knows_batches = knows_batches

    def run(self, plan_id: str = "A") -> None:
        """A try that ends, unless its driver has finished already, with the loss of the worker."""
        drivers = self.drivers

        class Operator(SparkSubmitPlanOperator):
            _backend = drivers

        arguments = job_arguments("pipelines/x/batches/00000000/0000000001/1.json", plan_id, 0, "file:///store")
        if not self.knows_batches:
            arguments = ["--starting-offsets", f"of {plan_id}"]
        operator = Operator(task_id="spark", application="job.py", application_args=arguments)
        run = SimpleNamespace(clear_number=self.clears)
        operator.execute_resumable({"task_state_store": self.states, "dag_run": run, "ti": None})

    def lose_worker(self, plan_id: str = "A") -> None:
        with pytest.raises(ConnectionError):
            self.run(plan_id)


def test_a_retry_takes_the_driver_that_runs_and_the_one_that_has_finished_meanwhile() -> None:
    task = Task()
    task.lose_worker()
    task.lose_worker()
    task.drivers.states["driver-0"] = "FINISHED"
    task.run()
    assert list(task.drivers.states) == ["driver-0"]


def test_a_clear_takes_the_driver_that_runs_and_never_one_that_has_finished() -> None:
    task = Task()
    task.lose_worker()
    task.clears = 1
    task.lose_worker()
    assert list(task.drivers.states) == ["driver-0"]
    task.drivers.states["driver-0"] = "FINISHED"
    task.clears = 2
    task.lose_worker()
    assert list(task.drivers.states) == ["driver-0", "driver-1"]


def test_another_plan_waits_until_the_driver_of_the_former_has_ended() -> None:
    task = Task()
    task.lose_worker("A")
    with pytest.raises(
        FormerDriverRuns, match="AKO-404 FormerDriverRuns: Driver driver-0 of this run's former plan is RUNNING"
    ):
        task.run("B")
    task.drivers.states["driver-0"] = "KILLED"
    task.lose_worker("B")
    assert task.drivers.states == {"driver-0": "KILLED", "driver-1": "RUNNING"}


def test_a_job_that_is_given_offsets_is_known_by_them() -> None:
    task = Task(knows_batches=False)
    task.lose_worker("A")
    task.lose_worker("A")
    assert list(task.drivers.states) == ["driver-0"]
    with pytest.raises(FormerDriverRuns):
        task.run("B")


def test_a_plan_that_comes_back_after_another_is_read_again() -> None:
    """The driver of the plan between has overwritten the output."""
    task = Task()
    task.lose_worker("A")
    task.drivers.states["driver-0"] = "FINISHED"
    task.lose_worker("B")
    task.drivers.states["driver-1"] = "FINISHED"
    task.lose_worker("A")
    assert len(task.drivers.states) == 3


def test_a_driver_whose_id_was_not_stored_is_not_started_twice() -> None:
    """The worker died after the driver was submitted, and before the provider's part had stored its id."""
    task = Task()
    task.lose_worker()
    task.states.delete("spark_job_id:driver-0")
    task.lose_worker()
    assert list(task.drivers.states) == ["driver-0"]


def test_that_a_pod_has_succeeded_counts_for_its_own_plan_until_a_clear() -> None:
    task = Task(Pods())
    task.lose_worker("A")
    task.run("A")  # the pod is forgotten, and nothing is submitted
    task.lose_worker("B")
    task.clears = 1
    task.lose_worker("B")
    task.run("B")
