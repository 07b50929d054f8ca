"""Waits until a batch that another run has may have become free.

Many runs may wait for one batch: sixteen that catch up. When it is committed, the first of them plans the next batch,
and the others have to wait for that one; so they are not woken up, each in a worker, to find that out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import unquote

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import KafkaOffsetsError, UnavailableError
from airflow_kafka_offsets.hooks.run_context import this_airflow
from airflow_kafka_offsets.hooks.work_store import configured_work_store
from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.request.times import iso
from airflow_kafka_offsets.stores.objects import safe_name
from airflow_kafka_offsets.stores.store import Store
from airflow_kafka_offsets.triggers.deferred_wait import StoredTrigger
from airflow_kafka_offsets.triggers.shared_client import in_thread

POKE_INTERVAL_S = 10.0
SAY_EVERY_S = 300.0


@dataclass(eq=False, repr=False)
class BatchFreeTrigger(StoredTrigger):
    """Fires when the batch's log has moved on, when its holder's DAG run is not running any more, or at ``until_ms``.

    In the first two cases not before the newest batch is free too, where that is what the run waits for. A work store
    or an Airflow that does not answer for a while is waited for: an error here would use up a try of the task.

    The first look comes after ``poke_interval``: the worker has just looked. And a trigger that fires at once may have
    its task failed by the scheduler, which learns late that the task was deferred (apache/airflow#72716). Every five
    minutes a line says for whom it waits.

    :param dag_id: of the holder's DAG run, with ``run_id``.
    :param work_store: where the log is.
    :param next_entry: the object that the next change of the log creates.
    :param until_ms: when to give up, in epoch milliseconds.
    :param poke_interval: seconds between two looks.
    """

    dag_id: str
    run_id: str
    work_store: str
    next_entry: str
    until_ms: int
    poke_interval: float = POKE_INTERVAL_S

    async def run(self) -> AsyncIterator[TriggerEvent]:
        is_held, said_ms = True, 0
        while is_held and now_ms() < self.until_ms:
            await asyncio.sleep(min(self.poke_interval, max(0.0, (self.until_ms - now_ms()) / 1000)))
            is_held = await in_thread(self.work_store, self._is_held)
            if is_held and now_ms() - said_ms >= SAY_EVERY_S * 1000:
                said_ms = now_ms()
                self.log.info("Waiting for run %s of %s, until %s", self.run_id, self.dag_id, iso(self.until_ms))
        yield TriggerEvent({"until_ms": self.until_ms})

    def _is_held(self) -> bool:
        try:
            store = configured_work_store(self.work_store)
            if _is_running(RunKey(self.dag_id, self.run_id, "")) and store.get(self.next_entry) is None:
                return True
            return self._next_one_is_held(store)
        except UnavailableError as error:
            self.log.warning("Waiting: %s", error)
            return True
        except KafkaOffsetsError:
            return False  # waiting cannot help; the run says what is wrong
        except Exception as error:  # of any kind: Airflow's API did not answer
            self.log.warning("Waiting, since Airflow cannot be asked for the state of the run: %s", error)
            return True

    def _next_one_is_held(self, store: Store) -> bool:
        """Whether the run would only find that yet another run has the newest batch."""
        from airflow_kafka_offsets.log.entries import next_step
        from airflow_kafka_offsets.log.pipeline_log import PipelineLog

        ti = self.task_instance
        _, pipeline, kind, *_ = self.next_entry.split("/")
        pipeline_id = unquote(pipeline)
        if ti is None or kind != "batches" or safe_name(pipeline_id) != pipeline:
            return False
        log = PipelineLog(store, pipeline_id)
        run = RunKey(ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index)
        if log.batch_of_run(run) is not None:  # it waits for a batch of its own, whatever the newest is
            return False
        newest = log.newest()
        batch = newest.log if newest else None
        step = next_step(Actor(run, this_airflow()), batch, own=False, again=False, is_running=_is_running)
        return step == "wait"


def _is_running(run: RunKey) -> bool:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return bool(RuntimeTaskInstance.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=["running"]))
