# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The conf of an act as a refusal prints it, complete, and the command with it."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Any

from airflow_kafka_offsets.acts import conf_text
from airflow_kafka_offsets.kafka_values import RunKey

WayOn = Callable[..., str]
"""Of acts such as ``reset={…}``: words that follow "To …,"."""


def ways_on(pipeline: str, after: int, run: RunKey, ways_past: str, window: tuple[int, int] | None = None) -> WayOn:
    """
    :param after: the number of the current identity.
    :param ways_past: sentences about what would keep another run from starting.
    :param window: that the refused run was to do.
    """

    def way_on(**acts: Any) -> str:
        conf = conf_text(pipeline, after, window, **acts)
        command = f"airflow dags trigger {quote(run.dag_id)} --conf {quote(conf)}"
        return f"trigger the DAG with this conf:\n{conf}\nor: {command}" + (f"\n{ways_past}" if ways_past else "")

    return way_on
