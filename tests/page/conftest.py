"""The page's routes in this process, over a pipeline in memory: only Airflow's database stands outside of the test."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request

from airflow_kafka_offsets.engine.work import PlanReference
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.page.view import FailedRun
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline

DAG = "dag"


class Html(str):
    """What a browser gets."""

    @property
    def text(self) -> str:
        """What a reader sees, on one line."""
        return " ".join(re.sub(r"<[^>]+>", " ", self).split())

    def figure(self, name: str) -> str:
        return self.partition(f'id="figure-{name}"><b>')[2].partition("</b>")[0]

    def cells(self, table: str) -> list[list[str]]:
        """The rows of a table, as they are read."""
        body = self.partition(f'<table id="{table}">')[2].partition("</table>")[0].partition("<tbody>")[2]
        return [
            [Html(cell).text for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)]
            for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        ]


@pytest.fixture
def cluster() -> InMemoryCluster:
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 3)
    return cluster


@pytest.fixture
def pipeline(cluster: InMemoryCluster) -> Pipeline:
    return Pipeline(cluster)


@pytest.fixture
def states() -> dict[str, str]:
    """The states of DAG runs, as Airflow knows them."""
    return {}


@pytest.fixture
def failed() -> list[FailedRun]:
    """Runs whose resolve task has failed; the newest one is the last."""
    return []


def pushed(pipeline: Pipeline, batch: Batch) -> PlanReference:
    """The XCom of a run that has planned the batch."""
    by = replace(batch.first_plan.by, task_id="orders")
    where = (pipeline.request().pipeline_id, pipeline.store.uri, batch.number, 1)
    return PlanReference(*where, batch.plan.plan_id, batch.plan.key, by, True)


@pytest.fixture
def page(
    monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline, states: dict[str, str], failed: list[FailedRun]
) -> Callable[..., Html]:
    """``page()`` of the pipeline, ``page(7)`` of its batch 7; more arguments are those of the address."""
    from airflow_kafka_offsets.page import routes, unread

    def plans_of(dag_id: str, run_id: str = "") -> list[PlanReference]:
        newest = pipeline.log.newest()
        is_asked = newest is not None and run_id in ("", newest.first_plan.by.run_id)
        return [pushed(pipeline, newest)] if is_asked else []

    hook: Any = SimpleNamespace(open_cluster=lambda deadline_s: nullcontext(pipeline.cluster))
    monkeypatch.setattr(routes, "plans_of", plans_of)
    monkeypatch.setattr(routes, "open_pipeline", lambda dag_id, plan: (pipeline.log, hook))
    monkeypatch.setattr(routes, "run_state", lambda run: states.get(run.run_id))
    monkeypatch.setattr(routes, "failed_run", lambda dag_id, task_id: failed[-1] if failed else None)
    monkeypatch.setattr(unread, "_asked", {})

    def get(batch: int | None = None, **asked: Any) -> Html:
        request = Request(
            {"type": "http", "root_path": "/kafka-offsets", "path_params": {"dag_id": DAG}, "state": {"nonce": "n"}}
        )
        if batch is None:
            response = routes.of_dag_run_or_task(request, DAG, **asked)
        else:
            response = routes.of_batch(request, DAG, batch, pipeline.request().pipeline_id, **asked)
        return Html(bytes(response.body).decode())

    return get
