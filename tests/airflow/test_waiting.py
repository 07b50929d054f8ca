"""Another run that is running has the batch: the resolve task waits for it in the triggerer, and for nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.log.entries import Taken
from airflow_kafka_offsets.request.times import iso
from airflow_kafka_offsets.triggers.wait_for_batch import BatchFreeTrigger
from testbed.dag_runs import RunResult
from tests.airflow.conftest import Orders
from tests.airflow.fixtures import AIRFLOW_HOME
from tests.engine import PlanReference, commit_batch

SetState = Callable[[RunResult, str], None]
Said = Callable[[], str]


class Looks:
    """What a test does once the trigger has looked; and until when each trigger would have waited."""

    def __init__(self) -> None:
        self.count = threading.Semaphore(0)
        self.deadlines: list[int] = []
        self._threads: list[threading.Thread] = []

    def then(self, *acts: Callable[[], Any]) -> None:
        """Each of `acts` after two more looks: the first may have begun before the act before it was over."""

        def go() -> None:
            for act in acts:
                if all(self.count.acquire(timeout=100) for _ in range(2)):
                    act()

        self._threads.append(threading.Thread(target=go))
        self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    """The triggers of this test look five times a second."""
    found = Looks()
    real_look, real_run = BatchFreeTrigger._is_held, BatchFreeTrigger.run

    def look(self: BatchFreeTrigger) -> bool:
        try:
            return real_look(self)
        finally:
            found.count.release()

    def run(self: BatchFreeTrigger) -> Any:
        found.deadlines.append(self.until_ms)
        return real_run(self)

    monkeypatch.setattr("airflow_kafka_offsets.operators.resolve.POKE_INTERVAL_S", 0.2)
    monkeypatch.setattr(BatchFreeTrigger, "_is_held", look)
    monkeypatch.setattr(BatchFreeTrigger, "run", run)
    yield found
    found.join()


@pytest.fixture
def holder(orders: Orders, set_run_state: SetState) -> RunResult:
    """A run that has read batch 1, was rejected, and is still running by all that Airflow knows."""
    orders.dag_id = "batch_retried"
    orders.produce(5)
    result = orders.run(reject=True)
    assert result.states("check") == ["failed"]
    set_run_state(result, "running")
    return result


def tries_of_resolve(result: RunResult) -> int:
    return next(task.tries for task in result.tasks if task.task_id == "orders.resolve")


def test_a_run_waits_without_a_try_until_the_other_one_is_over(
    orders: Orders, holder: RunResult, looks: Looks, set_run_state: SetState, said: Said
) -> None:
    key = orders.key
    orders.produce(2)
    looks.then(lambda: set_run_state(holder, "failed"))

    second = orders.run(overlap_timeout="PT3M")

    assert now_ms() < looks.deadlines[0], "it has not just waited until the end"
    text = said()
    assert f"batch 1 is being done by run batch_retried/{holder.run_id}/orders.resolve, which is running" in text
    waits = f"Waiting for run {holder.run_id} of batch_retried, until {iso(looks.deadlines[0])}"
    assert text.count("Waiting for run") == text.count(waits) == 1, "at the first look, and then every five minutes"
    assert (second.state, tries_of_resolve(second)) == ("success", 1)
    assert list(orders.rows) == [key]
    assert orders.committed == {0: 5}


def test_a_run_goes_on_as_soon_as_the_batch_is_committed_though_the_other_one_is_still_running(
    orders: Orders, holder: RunResult, looks: Looks
) -> None:
    orders.produce(2)
    batch = orders.newest

    def commit() -> None:
        handed = PlanReference(batch.name, batch.log.plan.plan_id)
        with KafkaCluster(orders.broker.client_config) as cluster:
            commit_batch(handed, orders.log, cluster, batch.log.holder, now_ms=now_ms())

    looks.then(commit)
    second = orders.run(overlap_timeout="PT3M")

    assert now_ms() < looks.deadlines[0], "it has not just waited until the end"
    assert (second.state, tries_of_resolve(second)) == ("success", 1)
    assert len(orders.rows) == 2
    assert orders.is_exact()
    assert orders.committed == {0: 7}


def test_a_wait_that_is_woken_up_keeps_its_deadline(
    orders: Orders, holder: RunResult, looks: Looks, set_run_state: SetState
) -> None:
    """The log moves on, and the same run still has the batch."""
    batch = orders.newest
    looks.then(
        lambda: batch.append(Taken(batch.log.holder, now_ms())),
        lambda: set_run_state(holder, "success"),
    )
    assert orders.run().state == "success"
    assert len(looks.deadlines) == 2
    assert looks.deadlines[0] == looks.deadlines[1]


def test_a_wait_ends_with_a_failure_that_names_the_holder(
    orders: Orders, holder: RunResult, looks: Looks, said: Said
) -> None:
    before = now_ms()
    second = orders.run(overlap_timeout="1")
    text = said()
    assert second.states("orders.resolve") == ["failed"]
    assert tries_of_resolve(second) == 2, "a retry waits once more"
    assert all(
        after - before >= 1000 for before, after in zip((before, *looks.deadlines), looks.deadlines, strict=False)
    )
    assert f"OverlappingRun: batch 1 is being done by run batch_retried/{holder.run_id}" in text
    assert "or mark it failed if it is stuck" in text
    assert orders.committed == {}


@pytest.mark.parametrize("state", ["queued", "failed", "success"])
def test_a_run_that_is_not_running_is_not_waited_for(
    orders: Orders, holder: RunResult, looks: Looks, set_run_state: SetState, state: str
) -> None:
    """A cleared run that is queued behind this one (`max_active_runs=1`) would wait for ever, and this one for it."""
    set_run_state(holder, state)
    assert orders.run(overlap_timeout="2").state == "success"
    assert looks.deadlines == []
    assert orders.is_exact()


def test_a_work_store_that_does_not_answer_is_waited_for(
    orders: Orders, holder: RunResult, looks: Looks, set_run_state: SetState, said: Said
) -> None:
    folder = AIRFLOW_HOME / "kafka_offsets" / orders.newest.folder
    aside = folder.with_name("aside")

    def damage() -> None:
        folder.rename(aside)
        folder.touch()  # a file in the place of the folder: every read fails

    def mend() -> None:
        folder.unlink()
        aside.rename(folder)
        set_run_state(holder, "failed")

    looks.then(damage, mend)
    result = orders.run()
    assert (result.state, tries_of_resolve(result)) == ("success", 1)
    assert "Waiting: AKO-504 StoreUnavailable: Cannot read pipelines/" in said()


def test_an_overlap_timeout_that_is_none_is_refused_before_anything_is_asked(orders: Orders, said: Said) -> None:
    result = orders.run(overlap_timeout="soon")
    assert result.states("orders.resolve") == ["failed"]
    assert "overlap_timeout is 'soon'" in said()
    assert orders.log.newest() is None


def test_the_trigger_survives_its_serialization() -> None:
    from airflow.sdk._shared.module_loading import import_string

    trigger = BatchFreeTrigger("d", "r", "file:///store", "pipelines/x/batches/00000000/0000000001/2.json", 5, 0.5)
    path, arguments = trigger.serialize()
    assert import_string(path)(**arguments).serialize() == (path, arguments)
