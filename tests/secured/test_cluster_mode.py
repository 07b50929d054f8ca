"""Drivers and executors of a standalone cluster on a secured Kafka: who has a file of secrets, and who needs none.

The cluster's first worker takes drivers alone, the second one executors alone. The executors' user can open none of the
files: neither Spark's own nor the page's `client.properties` nor the connection's certificate and key.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home
from testbed.checks import duplicated_or_missing
from testbed.java import Java
from testbed.spark import PATIENT, s3a_conf
from testbed.spark_cluster import SparkCluster, Worker, cluster_conf, python_application
from tests.secured.conftest import PASSWORDS, Pipeline
from tests.secured.page import client_properties
from tests.stores.kinds import BUCKET, s3_server

ROOT = Path(__file__).resolve().parents[2]
ALIAS = "kafka.client.properties"
PROVIDER = "spark.hadoop.hadoop.security.credential.provider.path"
EXECUTORS_USER = "nobody"
# An executor has more memory than the first worker, a driver more cores than the second.
OF_DRIVERS, OF_EXECUTORS = Worker(cores=3, memory="600m"), Worker(cores=2, memory="1g", user=EXECUTORS_USER)
SIZES = {"spark.driver.cores": "3", "spark.driver.memory": "512m", "spark.executor.memory": "700m"}


@pytest.fixture(scope="module")
def cluster(
    secured_airflow: Path,
    java: Java,
    spark_jars: list[Path],
    s3a_jars: list[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkCluster]:
    jars = [*spark_jars, *s3a_jars]
    conf = {
        **cluster_conf(jars),
        **s3a_conf(s3_server().endpoint),
        **PATIENT,
        **SIZES,
        "spark.jars": ",".join(map(str, jars)),  # from the driver, whose files the executors' user cannot open
        "spark.executor.extraClassPath": "",
    }
    defaults = airflow_home.spark_defaults(tmp_path_factory.mktemp("spark"), conf)
    with (
        SparkCluster(java, python_path=ROOT, workers=[OF_DRIVERS, OF_EXECUTORS]) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in defaults.items():
            patch.setenv(name, value)
        yield running


@dataclass
class OnTheCluster:
    """The page's pipeline with its work store and output on S3, where each user reads and writes."""

    pipeline: Pipeline
    cluster: SparkCluster
    folder: str

    def __post_init__(self) -> None:
        self.drivers_before = len(self.cluster.drivers())
        self.executors_before = set(self._executors())
        self.pipeline.words["/tmp/lake"] = f"s3a://{self.folder}"

    @property
    def output(self) -> str:
        return f"s3a://{self.folder}/orders"

    def driver_runs_there(self, **spark: Any) -> None:
        """By the way of docs/submitting.md for Python on such a cluster."""
        jar, java_class, program = python_application(ROOT / "tests/airflow/jobs/waits_before_it_writes.py", ROOT)
        arguments = [*program, "--output", self.output]
        self.pipeline.words |= {
            f'sink={{"format": "parquet", "path": "{self.output}"}}': (
                f"application={jar!r}, application_args={arguments!r}, output={self.output!r}"
            ),
            'spark={"kafka": "kafka_spark"}': f"spark={ {'java_class': java_class, **spark}!r}",
        }

    def require_exact(self) -> None:
        """Every record once in the output, read by executors on the second worker."""
        assert duplicated_or_missing(self.output, self.pipeline.produced) == (0, 0)
        executors = set(self._executors()) - self.executors_before
        assert {folder.parents[1] for folder in executors} == {self.cluster.work_folder(1)}
        if os.getuid() == 0:
            assert {folder.owner() for folder in executors} == {EXECUTORS_USER}

    def drivers(self) -> list[str]:
        """The ids of this test's drivers, all of which have finished on the first worker."""
        drivers = self.cluster.drivers()[self.drivers_before :]
        assert {driver.state for driver in drivers} <= {"FINISHED"}
        assert all((self.cluster.work_folder(0) / driver.id).is_dir() for driver in drivers)
        return [driver.id for driver in drivers]

    def printed(self) -> str:
        """What drivers and executors of the cluster have said."""
        logs = self.cluster.folder.glob("worker-*/**/std*")
        return "\n".join(log.read_text(errors="replace") for log in logs)

    def _executors(self) -> list[Path]:
        return list(self.cluster.folder.glob("worker-*/app-*/*"))


@pytest.fixture
def on_the_cluster(pipeline: Pipeline, cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch) -> OnTheCluster:
    folder = f"{BUCKET}/{pipeline.topic}"
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__WORK_STORE", f"s3://{folder}/store")
    return OnTheCluster(pipeline, cluster, folder)


def connect_spark(monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def page_s_properties(pipeline: Pipeline) -> str:
    """The page's client.properties of the principal `etl`, whose CA is text."""
    authority = pipeline.kafka.authority.ca.read_text().replace("\n", "\\n")
    return client_properties(
        {
            "kafka.example.com:9093": pipeline.kafka.address("scram"),
            "ssl.truststore.location=/etc/kafka/ca.pem": f"ssl.truststore.certificates={authority}",
            'username="spark"': 'username="etl"',
            "…": PASSWORDS["etl"],
        }
    )


def require_that_its_owner_alone_opens(file: Path) -> None:
    found = file.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.getuid())


def as_a_file(on_the_cluster: OnTheCluster, _: Path) -> tuple[Path, dict[str, Any]]:
    """In a folder that all enter: what keeps the executors' user out is the file's own mode."""
    folder = on_the_cluster.cluster.folder / on_the_cluster.pipeline.topic
    folder.mkdir(mode=0o755)
    file = folder / "client.properties"
    file.touch(mode=0o600)
    file.write_text(page_s_properties(on_the_cluster.pipeline))
    return file, {"kafka": {"file": str(file)}}


def as_a_credential(on_the_cluster: OnTheCluster, hidden: Path) -> tuple[Path, dict[str, Any]]:
    """As `hadoop credential create` makes it, where the executors' user finds no file: S3A there would open it."""
    file = hidden / "kafka.jceks"
    provider = f"localjceks://file{file}"
    command = ["org.apache.hadoop.security.alias.CredentialShell", "create", ALIAS, "-provider", provider]
    program = f"{os.environ['SPARK_HOME']}/bin/spark-class"
    subprocess.run([program, *command, "-value", page_s_properties(on_the_cluster.pipeline)], check=True, timeout=120)
    return file, {"kafka": {"credential": ALIAS}, "conf": {PROVIDER: provider}}


@pytest.mark.parametrize("way", [as_a_file, as_a_credential])
def test_a_driver_on_the_cluster_reads_secrets_that_only_its_own_user_can_open(
    way: Callable[[OnTheCluster, Path], tuple[Path, dict[str, Any]]],
    on_the_cluster: OnTheCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = on_the_cluster.pipeline
    file, spark = way(on_the_cluster, tmp_path)
    require_that_its_owner_alone_opens(file)
    on_the_cluster.driver_runs_there(**spark)
    connect_spark(monkeypatch, on_the_cluster.cluster.connection)
    pipeline.as_principals("oauth")
    pipeline.kafka.deny("spark", *pipeline.rights("spark"))
    pipeline.produce(100)

    result = pipeline.run()

    said = pipeline.said() + on_the_cluster.printed()
    assert result.state == "success", said[-8000:]
    assert len(on_the_cluster.drivers()) == 1
    on_the_cluster.require_exact()
    assert pipeline.committed == {0: 50, 1: 50}
    assert file.exists()
    assert [secret for secret in PASSWORDS.values() if secret in said] == []


def test_executors_need_no_file_of_a_connection_that_is_handed_over(
    on_the_cluster: OnTheCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In client mode the driver runs here, and the executors as another user, who cannot open certificate and key."""
    pipeline = on_the_cluster.pipeline
    connect_spark(monkeypatch, {"conn_type": "spark", "host": on_the_cluster.cluster.client_master})
    pipeline.as_principals("mtls")
    require_that_its_owner_alone_opens(pipeline.kafka.authority.sign("spark", password=PASSWORDS["spark"]).key)
    pipeline.produce(100)

    result = pipeline.run()

    assert result.state == "success", (pipeline.said() + on_the_cluster.printed())[-8000:]
    assert on_the_cluster.drivers() == []
    on_the_cluster.require_exact()
    assert pipeline.committed == {0: 50, 1: 50}
