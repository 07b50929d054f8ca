"""Two persons confirm an action: one of them acts, and the other is told what happened; whatever the action is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_kafka_offsets.batch.engine import leave_out, redo_batch, set_position, take_pipeline_over
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.orders import LeaveOut, Redo, Reset, TakeOver
from airflow_kafka_offsets.cli.option_values import find_batch
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page.confirmed_log import MovedOn, if_still, next_entries
from airflow_kafka_offsets.request.policies import Skip
from tests.contract.pipeline import AIRFLOW, Pipeline
from tests.page.conftest import LONG_S, produce, run

Act = Callable[[PipelineLog, str], Any]


def reset(pipeline: Pipeline) -> Act:
    to = {"ada": "earliest-offset", "bob": "latest-offset"}  # to where it is already, nobody acts
    return lambda log, person: set_position(
        Reset(to[person], "why", Actor(None, AIRFLOW, person), pipeline.now_ms, allow_duplicates=True),
        World(log, pipeline.cluster),
    )


def redo(pipeline: Pipeline, number: str) -> Act:
    return lambda log, person: redo_batch(
        Redo(find_batch(log, number), Actor(None, AIRFLOW, person), pipeline.now_ms), World(log, pipeline.cluster)
    )


def skip(pipeline: Pipeline) -> Act:
    key = pipeline.newest.log.plan.batch.key
    return lambda log, person: leave_out(LeaveOut(Skip(key, (), "why"), pipeline.now_ms, person=person), log)


def take_over(pipeline: Pipeline) -> Act:
    me = "https://another.example"
    return lambda log, person: take_pipeline_over(
        TakeOver(Actor(None, me, person), pipeline.now_ms), World(log, pipeline.cluster)
    )


@pytest.fixture(params=["reset", "redo the newest", "redo an older one", "skip", "skip what has begun", "take over"])
def action(request: pytest.FixtureRequest, pipeline: Pipeline) -> tuple[Act, dict[str, str]]:
    """What both do to a pipeline of two committed batches, and the fields of its form."""
    for hour in (10, 11):
        produce(pipeline)
        pipeline.run(run(hour))
    produce(pipeline)
    if request.param.startswith("skip"):
        job = pipeline.resolve(run(12)).job()
        if request.param != "skip":
            job.begin()
    skipped = (skip(pipeline), {"batch": pipeline.newest.log.plan.batch.key})
    ways: dict[str, tuple[Act, dict[str, str]]] = {
        "reset": (reset(pipeline), {}),
        "redo the newest": (redo(pipeline, "2"), {"batch": "2"}),
        "redo an older one": (redo(pipeline, "1"), {"batch": "1"}),
        "skip": skipped,
        "skip what has begun": skipped,
        "take over": (take_over(pipeline), {}),
    }
    return ways[request.param]


def entries(pipeline: Pipeline) -> list[str]:
    """All entries of all batches."""
    store = pipeline.store
    return [f"{folder}/{name}" for folder in pipeline.log.all_folders() for name in store.list(folder)]


def test_of_two_who_confirm_at_one_moment_one_acts_and_the_other_is_told(
    pipeline: Pipeline, action: tuple[Act, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    act, fields = action
    seen = next_entries(pipeline.log, fields)
    both_decided = threading.Barrier(2, timeout=LONG_S)
    plain, first = type(pipeline.store).create, threading.local()

    def create(store: Any, name: str, data: bytes) -> bool:
        if not getattr(first, "is_over", False):  # of this thread
            first.is_over = True
            both_decided.wait()
        return plain(store, name, data)

    monkeypatch.setattr(type(pipeline.store), "create", create)

    def confirm(person: str) -> str:
        try:
            if_still(pipeline.log, fields, seen, lambda log: act(log, person))
        except MovedOn as moved:
            return str(moved)
        return person

    with ThreadPoolExecutor(2) as pool:
        answers = sorted(pool.map(confirm, ("ada", "bob")), key=len)
    acted, told = answers
    assert acted in ("ada", "bob")
    assert told.startswith("The pipeline has moved on since you looked.")
    assert f" by {acted}" in told, told
    assert told.endswith("Nothing was done for you. Look again.")
    other = {"ada": "bob", "bob": "ada"}[acted]
    assert not [name for name in entries(pipeline) if f'"{other}"'.encode() in (pipeline.store.get(name) or b"")]


def test_who_decides_after_the_other_has_acted_does_nothing(
    pipeline: Pipeline, action: tuple[Act, dict[str, str]]
) -> None:
    act, fields = action
    seen = next_entries(pipeline.log, fields)

    def after_ada(log: PipelineLog) -> None:
        if_still(pipeline.log, fields, seen, lambda log: act(log, "ada"))
        there.extend(entries(pipeline))
        act(log, "bob")

    there = list[str]()
    with pytest.raises(MovedOn, match=" by ada"):
        if_still(pipeline.log, fields, seen, after_ada)
    with pytest.raises(MovedOn, match=" by ada"):
        if_still(pipeline.log, fields, seen, lambda log: act(log, "bob"))
    assert entries(pipeline) == there


def test_a_run_that_has_gone_on_meanwhile_is_named(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    seen = next_entries(pipeline.log, {})

    def after_a_run(log: PipelineLog) -> None:
        produce(pipeline)
        pipeline.run(run(11))
        reset(pipeline)(log, "ada")

    with pytest.raises(MovedOn, match=r"Batch 2.*planned by run dag/scheduled__2026-11-20T11"):
        if_still(pipeline.log, {}, seen, after_a_run)
    assert pipeline.newest.log.plan.batch.number == 2
