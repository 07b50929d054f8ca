"""Airflow's operators for services that take Spark jobs, as docs/submitting.md shows them: resolve → service → commit.

The operators are the providers' own, in an environment that has them. Each talks to a server that speaks the service's
API and starts a real Spark job with exactly what it was given. So every test ends with records on disk and offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_kafka_offsets import batch_arguments
from airflow_kafka_offsets.operators.submit import PACKAGED_JOB
from airflow_kafka_offsets.plan.job_arguments import parse_job_arguments
from testbed.spark_service import SparkService
from tests.submitting.conftest import Orders, ProvidersAirflow
from tests.submitting.services import Databricks, Dataproc, Emr, EmrServerless, Kubernetes


def aws(service: SparkService) -> dict[str, str]:
    extra = {"endpoint_url": service.endpoint, "region_name": "eu-central-1"}
    connection = {"conn_type": "aws", "login": "any", "password": "any", "extra": extra}
    return {"AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection)}


def google(service: SparkService) -> dict[str, str]:
    connection = {"conn_type": "google_cloud_platform", "extra": {"is_anonymous": True, "project": "my-project"}}
    return {"AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": json.dumps(connection), "DATAPROC_ENDPOINT": service.endpoint}


def databricks(service: SparkService) -> dict[str, str]:
    where: dict[str, Any] = {"host": service.host, "port": service.port, "schema": "http"}
    connection = {"conn_type": "databricks", **where, "extra": {"token": "any"}}
    return {"AIRFLOW_CONN_DATABRICKS_DEFAULT": json.dumps(connection)}


def kubernetes(service: SparkService) -> dict[str, str]:
    assert isinstance(service, Kubernetes)
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(service.config)}}
    return {"AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(connection)}


AS_PRINTED: dict[str, str] = {}
DEFERRED_POD = {r'namespace="spark"': 'namespace="spark", deferrable=True, poll_interval=1'}
DEFERRED_JOB = {r'region="europe-west1"': 'region="europe-west1", deferrable=True, polling_interval_seconds=1'}
SERVICES = [
    ("EMR", Emr, aws, AS_PRINTED),
    ("EMR Serverless", EmrServerless, aws, AS_PRINTED),
    ("Dataproc", Dataproc, google, AS_PRINTED),
    ("Dataproc", Dataproc, google, DEFERRED_JOB),
    ("Databricks", Databricks, databricks, AS_PRINTED),
    ("Kubernetes", Kubernetes, kubernetes, AS_PRINTED),
    ("Kubernetes", Kubernetes, kubernetes, DEFERRED_POD),
]
IDS = [title + ", deferred" * bool(more) for title, *_, more in SERVICES]


@pytest.mark.parametrize(("title", "kind", "connection", "more"), SERVICES, ids=IDS)
def test_the_pages_example_reads_writes_and_commits_and_a_clear_submits_again(
    title: str,
    kind: type[SparkService],
    connection: Any,
    more: Mapping[str, str],
    providers: ProvidersAirflow,
    orders: Orders,
    spark_process: Mapping[str, str],
) -> None:
    with kind(spark_process) as service:
        first, cleared = providers.run(orders.code(title, more), "clear:orders.spark", env=connection(service))
        assert first["run_id"] == cleared["run_id"]
        assert [job.application for job in service.jobs] == [str(PACKAGED_JOB)] * 2
        one, again = (job.arguments for job in service.jobs)
    assert one == again
    sink = ["--sink-format", "parquet", "--sink-path", str(orders.output)]
    assert one[:4] == sink
    assert batch_arguments(one[4:], own=sink) == one
    job = parse_job_arguments(one)
    assert (job.split, job.bootstrap_servers) == (0, orders.broker.bootstrap_servers)
    assert orders.is_exact()
    assert orders.committed == {0: 100}


def test_a_batch_that_is_submitted_twice_at_once_is_in_the_output_once(
    providers: ProvidersAirflow, orders: Orders, spark_process: Mapping[str, str]
) -> None:
    """As after a retry whose first job still runs, or a service that starts a job again by itself."""
    with EmrServerless(spark_process, times=2) as service:
        providers.run(orders.code("EMR Serverless"), env=aws(service))
        assert len(service.jobs) == 1
        assert len(service.jobs[0].processes) == 2
    assert orders.is_exact()
    assert orders.committed == {0: 100}
