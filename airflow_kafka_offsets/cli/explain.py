# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""``explain``: the page of an error. Pages are files of the package, so no network is needed."""

from __future__ import annotations

from importlib.resources import files

import click

from airflow_kafka_offsets.cli.call import Call, command
from airflow_kafka_offsets.cli.printing import Answer, Row, Table
from airflow_kafka_offsets.errors import InvalidRequest, shown


def explain(call: Call) -> Answer:
    """The page of an error.

    CODE is AKO-202, 202 or GroupMoved. Without it, all errors are listed.
    """
    pages, code = _pages(), call["code"]
    if code is None:
        return Answer("Each of these has a page.", tables=[Table("errors", pages, "code error what_happened")])
    for page in pages:
        if code.upper() in (page["code"], page["code"].removeprefix("AKO-"), page["error"].upper()):
            return Answer(page["page"].rstrip(), page)
    raise InvalidRequest((f"{shown(code)} is not an error code. kafka-offsets explain lists them.",))


def _pages() -> list[Row]:
    """Each begins with ``# AKO-202 GroupMoved`` and a sentence."""
    rows: list[Row] = []
    for path in sorted((files("airflow_kafka_offsets") / "errors").iterdir(), key=str):
        if path.name.startswith("AKO-"):
            text = path.read_text("utf-8")
            title, happened, _ = text.split("\n\n", 2)
            happened = happened.partition(". ")[0]
            rows.append(
                dict(zip(("code", "error"), title.split()[1:], strict=True)) | {"what_happened": happened, "page": text}
            )
    return rows


explain_command = command(explain, "explain AKO-202", click.Argument(["code"], required=False))
