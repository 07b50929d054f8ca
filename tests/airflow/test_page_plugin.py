"""How Airflow gets to know the page, and what it costs where nobody asks for it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from airflow_kafka_offsets.hooks import airflow_versions
from airflow_kafka_offsets.hooks.airflow_versions import has_page
from airflow_kafka_offsets.hooks.page_link import PipelinePageLink

KEY = SimpleNamespace(dag_id="or/ders", run_id="scheduled__2026-11-25T00:00:00+00:00", task_id="orders.resolve")


def test_a_dag_file_and_the_plugin_load_no_web_server() -> None:
    code = (
        "import sys, airflow_kafka_offsets.page.page_plugin as plugin;"
        "from airflow_kafka_offsets import ResolveStartupOffsetsOperator, kafka_spark_batch;"
        "assert plugin.KafkaOffsetsPlugin.fastapi_apps;"
        "sys.exit(any(name in sys.modules for name in ('fastapi', 'starlette')) or "
        "any(name.startswith('airflow_kafka_offsets.page.') and name != plugin.__name__ for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("airflow", "can"), [("3.0.6", False), ("3.1.0", False), ("3.1.1", True), ("3.3.2", True)])
def test_the_page_is_offered_where_airflow_can_protect_it(
    airflow: str, can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_versions, "version", lambda _: airflow)
    assert has_page() is can
    link = PipelinePageLink()
    address = link.get_link(None, ti_key=KEY)
    if can:
        assert link.name == "Kafka offsets"
        assert "/kafka-offsets/dags/or%2Fders?run=scheduled__2026-11-25T00%3A00%3A00%2B00%3A00&task=orders." in address
    else:
        assert link.name == "Kafka offsets: the page needs Airflow 3.1.1"
        assert address.endswith("/dags/or%2Fders")


@pytest.mark.parametrize("base", ["", "http://localhost:8080", "https://data.example/airflow/"])
def test_the_link_leads_to_this_airflow(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    assert PipelinePageLink().get_link(None, ti_key=KEY).startswith(f"{base.rstrip('/')}/kafka-offsets/dags/")


def test_each_task_of_the_package_has_the_link() -> None:
    from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator
    from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator
    from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
    from airflow_kafka_offsets.sensors.waiting_sensor import WaitingSensor

    for task in (CommitOffsetsOperator, ResolveStartupOffsetsOperator, SparkSubmitPlanOperator, WaitingSensor):
        assert any(isinstance(link, PipelinePageLink) for link in task.operator_extra_links), task
