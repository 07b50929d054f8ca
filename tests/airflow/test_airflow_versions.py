"""What holds the package together with Airflows before the one that is installed here; the rows of `tests/matrix` run
on those."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from airflow_kafka_offsets.hooks import templates
from airflow_kafka_offsets.hooks.airflow_versions import runs_that_succeeded_last
from airflow_kafka_offsets.triggers.shared_client import in_thread


def test_what_a_look_asks_airflow_is_asked_by_the_triggerers_own_event_loop() -> None:
    """Before Airflow 3.2.2 the triggerer's channel is one loop's: a second one takes its answers."""

    async def loop_of_the_answer() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def trigger() -> None:
        asked_by = await in_thread("cluster", lambda: async_to_sync(loop_of_the_answer)())
        assert asked_by is asyncio.get_running_loop()

    asyncio.run(trigger())


def test_a_wait_ends_at_once_whatever_its_look_is_waiting_for() -> None:
    looking, hanging = threading.Event(), threading.Event()

    def look() -> None:
        looking.set()
        hanging.wait()
        raise RuntimeError("nobody hears of it")

    async def trigger() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
        wait = asyncio.create_task(in_thread("hanging cluster", look))
        await asyncio.to_thread(looking.wait)
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait
        assert not hanging.is_set()
        hanging.set()
        assert complaints == []

    asyncio.run(trigger())


@pytest.mark.parametrize(("seconds", "is_empty"), [(0.0, True), (3600.0, False)])
def test_before_airflow_3_2_a_timetable_tells_its_interval_to_the_database_alone(
    seconds: float, is_empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older:
        def serialize(self) -> dict[str, Any]:
            return {"expression": "0 * * * *", "timezone": "UTC", "interval": seconds, "run_immediately": False}

    monkeypatch.setattr(templates, "_NO_INTERVAL", (Older,))
    assert templates.has_empty_intervals(SimpleNamespace(timetable=Older())) is is_empty


def test_before_airflow_3_2_the_last_success_is_one_run_of_each_kind() -> None:
    states = {
        "scheduled__2026-11-20": {"resolve": "success"},
        "scheduled__2026-11-21": {"resolve": "success"},
        "scheduled__2026-11-22": {"resolve": "failed"},
        "manual__2026-11-19": {"resolve_0": "failed", "resolve_1": "success"},
        "by-hand": {"resolve": "success"},
    }
    asked = []

    def get_task_states(**names: Any) -> dict[str, dict[str, str]]:
        asked.append(names)
        return states

    ti = SimpleNamespace(dag_id="orders", task_id="resolve", map_index=-1, get_task_states=get_task_states)
    assert runs_that_succeeded_last(ti) == {"scheduled__2026-11-21", "manual__2026-11-19", "by-hand"}
    assert asked == [{"dag_id": "orders", "task_ids": ["resolve"]}]
