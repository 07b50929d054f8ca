"""The page of a pipeline in Airflow: a tab of the DAG, of the run and of the task, and the routes behind it.

Airflow loads this module in each of its processes, also to parse a DAG: so it imports nothing of the page before the
API server is asked for it.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_kafka_offsets.hooks.airflow_versions import has_page
from airflow_kafka_offsets.hooks.page_link import PAGE_PREFIX

_DAG = f"{PAGE_PREFIX.lstrip('/')}/dags/{{DAG_ID}}"  # from Airflow's base, wherever that is
_TABS = (
    ("dag", "kafka-offsets", _DAG),
    ("dag_run", "kafka-offsets-of-run", f"{_DAG}?run={{RUN_ID}}"),
    ("task_instance", "kafka-offsets-of-task", f"{_DAG}?run={{RUN_ID}}&task={{TASK_ID}}"),
)


class PageWhenAsked:
    """The routes, which are imported with the first request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from airflow_kafka_offsets.page.page_routes import page

        await page(scope, receive, send)


class KafkaOffsetsPlugin(AirflowPlugin):
    """Nothing where Airflow cannot protect the page."""

    name = "kafka_offsets"
    fastapi_apps = [{"app": PageWhenAsked(), "url_prefix": PAGE_PREFIX, "name": "Kafka offsets"}] if has_page() else []
    external_views = (
        [
            {"name": "Kafka offsets", "destination": place, "url_route": route, "href": href}
            for place, route, href in _TABS
        ]
        if has_page()
        else []
    )
