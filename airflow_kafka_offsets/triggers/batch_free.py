"""Waits until a batch that another run has may have become free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_kafka_offsets.errors import UnavailableError
from airflow_kafka_offsets.hooks.work_store import configured_work_store
from airflow_kafka_offsets.pipeline.clock import now_ms

POKE_INTERVAL_S = 10.0


class BatchFreeTrigger(BaseTrigger):
    """Fires when the batch's log has moved on, when its holder's DAG run is not running any more, or at ``until_ms``.

    A work store that does not answer for a while is waited for too. The thread is not the one that ``sync_to_async``
    shares between all triggers: one store that hangs must not hold up the rest.

    :param dag_id: of the holder's DAG run, with ``run_id``.
    :param work_store: where the log is.
    :param next_entry: the object that the next change of the log creates.
    :param until_ms: when to give up, in epoch milliseconds.
    :param poke_interval: seconds between two looks.
    """

    def __init__(
        self,
        dag_id: str,
        run_id: str,
        work_store: str,
        next_entry: str,
        until_ms: int,
        poke_interval: float = POKE_INTERVAL_S,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow
        self.dag_id = dag_id
        self.run_id = run_id
        self.work_store = work_store
        self.next_entry = next_entry
        self.until_ms = until_ms
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("dag_id", "run_id", "work_store", "next_entry", "until_ms", "poke_interval")
        return (
            "airflow_kafka_offsets.triggers.batch_free.BatchFreeTrigger",
            {name: getattr(self, name) for name in names},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while now_ms() < self.until_ms and await sync_to_async(self._is_held, thread_sensitive=False)():
            await asyncio.sleep(min(self.poke_interval, max(0.0, (self.until_ms - now_ms()) / 1000)))
        yield TriggerEvent({"until_ms": self.until_ms})

    def _is_held(self) -> bool:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        running = RuntimeTaskInstance.get_dr_count(dag_id=self.dag_id, run_ids=[self.run_id], states=["running"])
        if not running:
            return False
        try:
            return configured_work_store(self.work_store).get(self.next_entry) is None
        except UnavailableError as error:
            self.log.warning("Waiting: %s", error)
            return True
