# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""From values to HTML. Topics, groups and outputs are data of others: each text is escaped where it stands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from airflow_kafka_offsets.errors import clean_lines, counted
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.names import PAGE
from airflow_kafka_offsets.page import shapes
from airflow_kafka_offsets.page.view import clock, number
from airflow_kafka_offsets.times import iso

HERE = Path(__file__).parent
STATIC = HERE / "static"


def _visible(value: Any) -> Any:
    """Invisible characters, such as those that reverse the direction of writing, are shown as escapes."""
    return value if isinstance(value, Markup) else clean_lines(value)


_environment = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "number": number,
    "counted": counted,
    "quote": shlex.quote,
    "clock": clock,
    "at": iso,
    "json": json.dumps,
}
_environment.globals["shapes"] = shapes


def shown(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of a template. Addresses begin where this Airflow is, also below another path."""
    root: str = request.scope["root_path"]
    dag_id = request.path_params.get("dag_id", "")

    def to(place: str = "", **query: Any) -> str:
        said = urlencode({name: value for name, value in query.items() if value not in (None, "")})
        return f"{root}/dags/{quote(dag_id, safe='')}{place}{'?' * bool(said)}{said}"

    def to_run(run: RunKey) -> str:
        return f"{root.removesuffix(PAGE)}/dags/{quote(run.dag_id, safe='')}/runs/{quote(run.run_id, safe='')}"

    about = {"root": root, "dag_id": dag_id, "to": to, "to_run": to_run, "nonce": request.state.nonce}
    return HTMLResponse(_environment.get_template(template).render(**about, **values), status)
