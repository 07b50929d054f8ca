"""Where the link of a task to Spark's own pages leads."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import HTTPException

from airflow_kafka_offsets.page import routes
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import Pipeline, tp
from tests.page.conftest import DAG, Html


def test_a_driver_has_pages_of_its_own_while_it_runs(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Callable[..., Html]
) -> None:
    def leads_to() -> str:
        try:
            return str(routes.of_driver(DAG, "first", "orders").headers["location"])
        except HTTPException as error:
            return f"{error.status_code}: {error.detail}"

    cluster.produce(tp(0), [cluster.now_ms] * 5)
    assert leads_to().startswith("404: No run of this DAG is known to have read a batch")
    work = pipeline.work("first")
    none = "404: Spark has no page for this task"
    assert leads_to().startswith(none)
    attempts = [pipeline.begin(work, spark_ui=ui) for ui in ("javascript:alert(1)", "http://worker:4040")]
    assert leads_to() == "http://worker:4040"
    pipeline.report(work, attempts[-1])
    assert leads_to().startswith(none)
    pipeline.begin(work, spark_ui="javascript:alert(1)")
    assert leads_to().startswith(none)
