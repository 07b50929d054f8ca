# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The Airflow plugin: a tab of the DAG, of the run and of the task, and the routes behind it.

Airflow loads this module in each of its processes, also to parse a DAG: it imports the page with the first request.
"""

from __future__ import annotations

from typing import Any

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from airflow_kafka_offsets.names import PAGE

_DAG = "kafka-offsets/dags/{DAG_ID}"  # relative: Airflow may be served below another path
_OF_TASK = f"{_DAG}?run={{RUN_ID}}&task={{TASK_ID}}"
_NAME = "Kafka offsets"
_TABS = [
    {"name": _NAME, "destination": "dag", "url_route": "kafka-offsets", "href": _DAG},
    {"name": _NAME, "destination": "dag_run", "url_route": "kafka-offsets-of-run", "href": f"{_DAG}?run={{RUN_ID}}"},
    {"name": _NAME, "destination": "task_instance", "url_route": "kafka-offsets-of-task", "href": _OF_TASK},
]


async def page_when_asked(scope: Any, receive: Any, send: Any) -> None:
    from airflow_kafka_offsets.page.routes import page

    await page(scope, receive, send)


_APPS = [{"app": page_when_asked, "url_prefix": PAGE, "name": _NAME}]


class KafkaOffsetsPlugin(AirflowPlugin):
    name = "kafka_offsets"
    fastapi_apps = _APPS
    external_views = _TABS if conf.getboolean("kafka_offsets", "tabs", fallback=True) else []
