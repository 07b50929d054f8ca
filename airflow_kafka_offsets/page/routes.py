# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The routes of the page. Each asks Airflow whether this person may read the DAG in its path.

Airflow protects no route of a plugin, and opens the frame also for a DAG that the person may not read: what is here is
all that protects. The routes are plain functions, which FastAPI runs in threads.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as AnyHTTPException

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.engine.work import PlanReference
from airflow_kafka_offsets.errors import KafkaOffsetsError, RequestError, UnavailableError
from airflow_kafka_offsets.page import shapes
from airflow_kafka_offsets.page import unread as kafka
from airflow_kafka_offsets.page.html import STATIC, shown
from airflow_kafka_offsets.page.pipelines import (
    choose,
    failed_run,
    is_of,
    newest_batch,
    open_pipeline,
    plans_of,
    require_dag,
    run_state,
)
from airflow_kafka_offsets.page.view import (
    PAGE,
    PARTITIONS,
    batch_view,
    batches_before,
    decided_rows,
    figures,
    page_row,
    sentence,
    stretches_of,
    todos,
    unfinished_rows,
)
from airflow_kafka_offsets.store.protocol import together

# The frame may read Airflow's own page: no script runs in it but those that the server has marked in this answer.
_POLICY = (
    "default-src 'none'; script-src 'nonce-{}'; style-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_KAFKA_DEADLINE_S = 20.0
_NOT_KNOWN = (
    "What this DAG has read is not known. Either no run has read a batch yet, or the XComs of those that have were "
    "purged or lie in an object store. kafka-offsets list shows all pipelines."
)
_NO_SUCH = "No run of this DAG is known to have read a batch of this pipeline."
_NO_BATCH = "The batch of this run is not known: it has none so far, or its XCom was purged or lies in an object store."
_NO_DRIVER = (
    "Spark has no page for this task: no driver is at the batch of its run, or its session is on a Spark Connect "
    "server."
)
_Number = Annotated[int, Query(ge=1, le=10**9)]


def _one_dag(dag_id: str) -> None:
    """For Airflow ``~`` is "any DAG": a user who may read one would pass its check."""
    if dag_id == "~":
        raise HTTPException(404, "There is no DAG ~.")


page = FastAPI(title="Kafka offsets", openapi_url=None, docs_url=None, redoc_url=None)
of_dag = APIRouter(
    prefix="/dags/{dag_id}", dependencies=[Depends(_one_dag), Depends(requires_access_dag(method="GET"))]
)


@page.middleware("http")
async def _with_headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    request.state.nonce = secrets.token_urlsafe(16)
    response = await answer(request)
    response.headers["Content-Security-Policy"] = _POLICY.format(request.state.nonce)
    response.headers.update(_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


@of_dag.get("")
def of_dag_run_or_task(
    request: Request, dag_id: str, pipeline: str = "", run: str = "", task: str = "", number: _Number = 1
) -> Response:
    """The batch of a run, if one is named and its batch is known; else the pipeline."""
    run = _id_of(run)
    plans = of_run = plans_of(dag_id, run) if run else []
    plan = choose(plans, pipeline, task)
    if plan is None or (task and not is_of(plan, task)):
        plans = [*of_run, *plans_of(dag_id)]
        plan = choose(plans, pipeline, task)
    if plan is None:
        raise HTTPException(404 if pipeline else 200, _NO_SUCH if pipeline else _NOT_KNOWN)
    if plan in of_run:
        return _batch(request, dag_id, plan, plan.batch)
    log, hook = open_pipeline(dag_id, plan)
    newest = newest_batch(dag_id, plan, log)
    row, is_by_window = page_row(newest), newest.plan.kind == "window"
    open_cluster = partial(hook.open_cluster, deadline_s=_KAFKA_DEADLINE_S)
    asked = None if is_by_window else kafka.ask(log, newest, open_cluster)
    rows, decided, stretches, unfinished = together(
        log.store,
        partial(batches_before, log, newest.number, number),
        partial(decided_rows, log),
        partial(stretches_of, log, newest),
        partial(unfinished_rows, log, newest),
    )
    left = {row["batch"]: row for row in (*unfinished, *rows) if row["state"] != "committed"}
    failed = failed_run(dag_id, plan.run.task_id)
    unread, now = None if asked is None else kafka.answer(asked), now_ms()
    return shown(
        request,
        "pipeline.html",
        names=sorted({one.pipeline for one in plans}),
        pipeline=plan.pipeline,
        about={"group": newest.plan.group_id, "log": log.store.uri, "output": newest.output},
        sentence=[(_NO_BATCH, "open")] * bool(run) + sentence(row, len(unfinished), unread, now, run_state),
        figures=figures(row, unread, now),
        todos=todos(log, plan.kafka_config_id, [*left.values()], unread, failed, run_state),
        rows=rows,
        decided=decided,
        weeks=shapes.weeks_of(stretches, unfinished),
        missing=shapes.missing_of(stretches),
        number=number,
        pages=-(-newest.number // PAGE),
        looked_at_ms=now,
    )


@of_dag.get("/spark")
def of_driver(dag_id: str, run: str = "", task: str = "") -> Response:
    """Lead to the pages of the driver that writes the batch of a run."""
    plan = choose(plans_of(dag_id, _id_of(run)), task_id=task)
    if plan is None:
        raise HTTPException(404, _NO_SUCH)
    log, _ = open_pipeline(dag_id, plan)
    batch = require_dag(dag_id, plan, log)
    at_work = [log.begun(batch, attempt) for attempt in batch.attempts[-1:] if not attempt.is_reported]
    ui = (at_work and at_work[0].get("spark_ui")) or ""
    if not ui.startswith(("http://", "https://")):
        raise HTTPException(404, _NO_DRIVER)
    return RedirectResponse(ui)


@of_dag.get("/batches/{batch}")
def of_batch(
    request: Request, dag_id: str, batch: int, pipeline: str, number: _Number = 1, order: str = "partition"
) -> Response:
    plan = choose(plans_of(dag_id), pipeline)
    if plan is None:
        raise HTTPException(404, _NO_SUCH)
    return _batch(request, dag_id, plan, batch, number, order)


def _id_of(run: str) -> str:
    """Airflow 3.1 does not encode the plus of a run's id."""
    return run.replace(" ", "+")


def _batch(
    request: Request, dag_id: str, plan: PlanReference, batch: int, number: int = 1, order: str = "partition"
) -> Response:
    log, _ = open_pipeline(dag_id, plan)
    _, found = together(log.store, partial(require_dag, dag_id, plan, log), partial(log.batch, batch))
    if found is None:
        raise HTTPException(404, f"Pipeline {plan.pipeline} has no batch {batch}.")
    view = batch_view(log, found, number, order)
    pages = max(1, -(-view["all_partitions"] // PARTITIONS))
    about: dict[str, Any] = {"pipeline": plan.pipeline, "number": number, "pages": pages, "order": order}
    return shown(request, "batch.html", view=view, looked_at_ms=now_ms(), **about)


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────────────────────────


@page.exception_handler(KafkaOffsetsError)
def _refused(request: Request, error: KafkaOffsetsError) -> Response:
    status = 503 if isinstance(error, UnavailableError) else 404 if isinstance(error, RequestError) else 409
    return shown(request, "message.html", status, message=str(error))


@page.exception_handler(AnyHTTPException)
def _http(request: Request, error: AnyHTTPException) -> Response:
    words = {
        401: "You are not logged in, or your login has expired. Log in to Airflow, then load this page again.",
        403: "Airflow does not let you read this DAG. Ask an administrator for the right.",
    }
    message = "There is no such page." if error.detail == "Not Found" else error.detail
    response = shown(request, "message.html", error.status_code, message=words.get(error.status_code, message))
    response.headers.update(error.headers or {})
    return response


@page.exception_handler(RequestValidationError)
def _wrong_address(request: Request, error: RequestValidationError) -> Response:
    wrong = "; ".join(f"{said['loc'][-1]}: {said['msg']}" for said in error.errors())
    return shown(request, "message.html", 422, message=f"This address cannot be read. {wrong}.")


page.include_router(of_dag)
page.mount("/static", StaticFiles(directory=STATIC))
