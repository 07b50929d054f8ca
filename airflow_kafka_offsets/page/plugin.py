"""The Airflow plugin: a tab of the DAG, of the run and of the task, and the routes behind it.

Airflow loads this module in each of its processes, also to parse a DAG: it imports the page with the first request.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_kafka_offsets.hooks.versions import has_page

PREFIX = "/kafka-offsets"
_DAG = "kafka-offsets/dags/{DAG_ID}"  # relative: Airflow may be served below another path
_TABS = (
    ("dag", "kafka-offsets", _DAG),
    ("dag_run", "kafka-offsets-of-run", f"{_DAG}?run={{RUN_ID}}"),
    ("task_instance", "kafka-offsets-of-task", f"{_DAG}?run={{RUN_ID}}&task={{TASK_ID}}"),
)


async def page_when_asked(scope: Any, receive: Any, send: Any) -> None:
    from airflow_kafka_offsets.page.routes import page

    await page(scope, receive, send)


class KafkaOffsetsPlugin(AirflowPlugin):
    """Adds nothing where Airflow cannot protect the page: before 3.1.1 a frame has no login."""

    name = "kafka_offsets"
    fastapi_apps = [{"app": page_when_asked, "url_prefix": PREFIX, "name": "Kafka offsets"}] if has_page() else []
    external_views = (
        [
            {"name": "Kafka offsets", "destination": place, "url_route": route, "href": href}
            for place, route, href in _TABS
        ]
        if has_page()
        else []
    )
