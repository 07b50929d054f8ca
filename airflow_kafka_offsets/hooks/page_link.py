"""From each task instance to its pipeline's page: an extra link, which every Airflow shows."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from airflow_kafka_offsets.hooks.airflow_versions import PAGE_FROM, conf, has_page

PAGE_PREFIX = "/kafka-offsets"


class PipelinePageLink(BaseOperatorLink):
    """Where Airflow cannot protect the page, its name says from which version on it can, and it leads to the DAG."""

    @property
    def name(self) -> str:
        return "Kafka offsets" if has_page() else f"Kafka offsets: the page needs Airflow {PAGE_FROM}"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        base = (conf.get("api", "base_url", fallback="") or "").rstrip("/")
        dag = f"/dags/{quote(ti_key.dag_id, safe='')}"
        if not has_page():
            return f"{base}{dag}"
        return f"{base}{PAGE_PREFIX}{dag}?{urlencode({'run': ti_key.run_id, 'task': ti_key.task_id})}"
