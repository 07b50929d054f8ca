"""How a view becomes HTML. Every text is data of others (a topic, a group, a reason): it is escaped where it stands."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from airflow_kafka_offsets.batch.pipeline_status import UNKNOWN, clock
from airflow_kafka_offsets.cli.printing import harmless
from airflow_kafka_offsets.hooks.page_link import PAGE_PREFIX
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.page.batch_chart import FLOOR, HEIGHT, LEFT, WIDTH, chart_of
from airflow_kafka_offsets.page.window_page import weeks_of

HERE = Path(__file__).parent
STATIC = HERE / "static"


def _visible(value: Any) -> Any:
    """A text without characters that a reader does not see, such as those that turn the direction of writing."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _at(at_ms: int | None, *, now_ms: int) -> str:
    return UNKNOWN if at_ms is None else clock(at_ms, now_ms)


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


_environment = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "counted": lambda value: UNKNOWN if value is None else f"{value:,}",
    "at": _at,
    "instant": lambda at_ms: "" if at_ms is None else _time(at_ms).isoformat(timespec="seconds"),
    "hour": lambda at_ms: f"{_time(at_ms):%H:%M}",
}
_environment.globals |= {
    "chart_of": chart_of,
    "weeks_of": weeks_of,
    "chart": {"width": WIDTH, "height": HEIGHT, "floor": FLOOR, "left": LEFT},
}


def shown(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of a template. Addresses are made from where this Airflow is, also below another path."""
    root: str = request.scope["root_path"]
    airflow = root.removesuffix(PAGE_PREFIX)
    dag_id = request.path_params.get("dag_id", "")

    def to(place: str = "", **query: Any) -> str:
        """An address of the page of this DAG; what is empty is left out."""
        said = urlencode({name: value for name, value in query.items() if value not in (None, "")})
        return f"{root}/dags/{quote(dag_id, safe='')}{place}{'?' * bool(said)}{said}"

    def to_run(run: RunKey) -> str:
        return f"{airflow}/dags/{quote(run.dag_id, safe='')}/runs/{quote(run.run_id, safe='')}"

    about = {"root": root, "airflow": airflow, "dag_id": dag_id, "to": to, "to_run": to_run}
    html = _environment.get_template(template).render(nonce=request.state.nonce, **about, **values)
    return HTMLResponse(html, status)
