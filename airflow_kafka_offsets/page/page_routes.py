"""The routes of the page: each asks Airflow for the right to the DAG in its path, then for what it shows.

They are plain functions, which FastAPI runs in threads: a store or a broker that is slow holds up nobody else.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, get_args
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as AnyHTTPException

from airflow_kafka_offsets.cli.printing import Answer
from airflow_kafka_offsets.errors import KafkaOffsetsError, NoPosition, RequestError, UnavailableError
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page.actions import ACTIONS, FIELDS, act, fields_given
from airflow_kafka_offsets.page.batch_rows import name_in_addresses
from airflow_kafka_offsets.page.confirmed_log import MovedOn, if_still, next_entries
from airflow_kafka_offsets.page.dag_pipelines import (
    PagePipeline,
    PipelineName,
    open_pipeline,
    pipelines_of_dag,
    plans_of_dag,
)
from airflow_kafka_offsets.page.page_access import TO_EDIT, TO_READ, MayEdit, SignedOrder, User, sign, signed
from airflow_kafka_offsets.page.page_templates import STATIC, shown
from airflow_kafka_offsets.page.partition_page import partitions_view
from airflow_kafka_offsets.page.pipeline_page import pipeline_view
from airflow_kafka_offsets.page.views import BatchesAsked, BatchOrder, BatchState, PartitionOrder, PartitionsAsked
from airflow_kafka_offsets.page.window_page import windows_view

# The frame may read Airflow's own page: no script runs in it but those that the server has marked in this very answer.
_POLICY = (
    "default-src 'none'; script-src 'nonce-{}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PageNumber = Annotated[int, Query(ge=1)]

page = FastAPI(title="Kafka offsets", openapi_url=None, docs_url=None, redoc_url=None)
of_dag = APIRouter(prefix="/dags/{dag_id}", dependencies=TO_READ)


@page.middleware("http")
async def _with_headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    request.state.nonce = secrets.token_urlsafe(16)
    response = await answer(request)
    response.headers["Content-Security-Policy"] = _POLICY.format(request.state.nonce)
    response.headers.update(_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


# ── what is seen ──────────────────────────────────────────────────────────────────────────────────────────────────────


@of_dag.get("")
def pipeline_of_dag(
    request: Request,
    dag_id: str,
    may_edit: MayEdit,
    pipeline: str = "",
    run: str = "",
    task: str = "",
    batch: str = "",
    number: _PageNumber = 1,
    order: BatchOrder = "newest first",
    find: str = "",
    state: BatchState = "",
    json: bool = False,
) -> Response:
    """The page of a pipeline: the one that is named, else that of the task, else the first one of the DAG."""
    plans = plans_of_dag(dag_id)
    names = pipelines_of_dag(dag_id, plans)
    chosen = pipeline or _pipeline_of_task(names, task)
    if not chosen:
        return shown(request, "no_pipeline.html")
    opened = open_pipeline(dag_id, chosen, plans)
    of_run = _batch_of_run(opened, run) if run else None
    view = pipeline_view(opened, BatchesAsked(page=number, order=order, find=find or of_run or "", state=state))
    asked = {"order": order, "find": find, "state": state, "run": run}
    more: dict[str, Any] = {
        "batch": batch or of_run or view.newest,
        "of_run": of_run,
        "may_edit": may_edit,
        "words": ACTIONS,
        "states": get_args(BatchState),
    }
    return _shown_as(json, request, "pipeline.html", view, names=names, asked=asked, **more)


def _shown_as(json: bool, request: Request, template: str, view: Any, **more: Any) -> Response:
    """The view as JSON, or as a page."""
    return JSONResponse(asdict(view)) if json else shown(request, template, view=view, **more)


def _pipeline_of_task(names: list[PipelineName], task_id: str) -> str:
    """Of the task group that the task is in; else the first."""
    group = task_id.rpartition(".")[0]
    of_group = [name.id for name in names if group and name.task_id.rpartition(".")[0] == group]
    return next(iter([*of_group, *(name.id for name in names)]), "")


def _batch_of_run(pipeline: PagePipeline, run_id: str) -> str | None:
    """The batch that the run took, as addresses name it; ``None``: none, or the store does not say."""
    run_id = run_id.replace(" ", "+")  # a run's id has no space; the tabs of Airflow 3.1 do not encode its plus
    try:
        found = pipeline.log.batch_of_run(RunKey(pipeline.dag_id, run_id, pipeline.task_id))
    except UnavailableError:
        return None  # the page says so
    return name_in_addresses(found.folder) if found and found.folder else None


@of_dag.get("/partitions")
def partitions_of_batch(
    request: Request,
    dag_id: str,
    pipeline: str,
    batch: str,
    number: _PageNumber = 1,
    order: PartitionOrder = "most left first",
    find: str = "",
    json: bool = False,
) -> Response:
    asked = PartitionsAsked(page=number, order=order, find=find)
    view = partitions_view(open_pipeline(dag_id, pipeline), batch, asked)
    about = {"pipeline_id": pipeline, "asked": {"order": order, "find": find}}
    return _shown_as(json, request, "partitions.html", view, **about)


@of_dag.get("/windows")
def windows_of_month(
    request: Request,
    dag_id: str,
    pipeline: str,
    month: Annotated[str | None, Query(pattern=r"^\d{4}-(0[1-9]|1[0-2])$")] = None,
    json: bool = False,
) -> Response:
    view = windows_view(open_pipeline(dag_id, pipeline), month)
    return _shown_as(json, request, "windows.html", view, pipeline_id=pipeline)


# ── what is done ──────────────────────────────────────────────────────────────────────────────────────────────────────


@of_dag.get("/act", dependencies=TO_EDIT)
def look_before(request: Request, dag_id: str, user: User, pipeline: str, action: str, look: bool = False) -> Response:
    """The form of an action; once it is filled in, what would happen, and the order to confirm. Nothing is written."""
    if action not in ACTIONS:
        raise HTTPException(404, f"There is no action {action}.")
    opened = open_pipeline(dag_id, pipeline)
    given = dict(request.query_params)
    words = ACTIONS[action]
    form = {"fields": {name: FIELDS[name] for name in words.fields}, "given": given, "words": words}
    about: dict[str, Any] = {"action": action, "pipeline_id": pipeline, **form}
    if not look:
        return shown(request, "act.html", answer=None, refused=None, token=None, **about)
    fields = fields_given(action, given)
    try:
        seen = next_entries(opened.log, fields)
        answer = act(opened, action, fields, user.get_name(), execute=False)
    except KafkaOffsetsError as refused:
        return shown(request, "act.html", _status_of(refused), answer=None, refused=str(refused), token=None, **about)
    order = SignedOrder(str(user.get_id()), dag_id, pipeline, action, fields, seen)
    token = sign(order) if answer.dry_run else None
    return shown(request, "act.html", answer=answer, refused=None, token=token, **about)


async def _form(request: Request) -> Mapping[str, str]:
    return dict(parse_qsl((await request.body()).decode(errors="replace")))


@of_dag.post("/act", dependencies=TO_EDIT)
def confirm(request: Request, dag_id: str, user: User, form: Annotated[Mapping[str, str], Depends(_form)]) -> Response:
    """Do what the person was shown, if the log is still what it was then: a form that is sent twice acts once."""
    order = signed(form.get("order", ""), user, dag_id)
    opened = open_pipeline(dag_id, order.pipeline_id)

    def confirmed(log: PipelineLog) -> Answer:
        return act(replace(opened, log=log), order.action, order.fields, user.get_name(), execute=True)

    answer = if_still(opened.log, order.fields, order.seen, confirmed)
    return shown(request, "done.html", answer=answer, words=ACTIONS[order.action], pipeline_id=order.pipeline_id)


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────────────────────────


@page.exception_handler(KafkaOffsetsError)
def _refused(request: Request, error: KafkaOffsetsError) -> Response:
    return shown(request, "message.html", _status_of(error), message=str(error))


@page.exception_handler(MovedOn)
def _moved_on(request: Request, error: MovedOn) -> Response:
    return shown(request, "message.html", 409, message=str(error))


def _status_of(error: KafkaOffsetsError) -> int:
    if isinstance(error, NoPosition):
        return 404
    if isinstance(error, UnavailableError):
        return 503
    return 400 if isinstance(error, RequestError) else 409


_LOG_IN = "You are not logged in, or your login has expired. Log in to Airflow, then load this page again."
_NO_RIGHT = "Airflow does not let you do this with this DAG. Ask an administrator for the right."


@page.exception_handler(AnyHTTPException)
def _http(request: Request, error: AnyHTTPException) -> Response:
    words = {"Forbidden": _NO_RIGHT, "Not Found": "There is no such page."}.get(error.detail, error.detail)
    response = shown(request, "message.html", error.status_code, message=_LOG_IN if error.status_code == 401 else words)
    response.headers.update(error.headers or {})
    return response


@page.exception_handler(RequestValidationError)
def _wrong_address(request: Request, error: RequestValidationError) -> Response:
    wrong = "; ".join(f"{said['loc'][-1]}: {said['msg']}" for said in error.errors())
    return shown(request, "message.html", 422, message=f"This address cannot be read. {wrong}.")


class _Kept(StaticFiles):
    """Files whose name or address changes with what is in them."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "public, max-age=86400"
        return response


page.include_router(of_dag)
page.mount("/static", _Kept(directory=STATIC))
