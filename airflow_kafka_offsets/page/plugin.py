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
