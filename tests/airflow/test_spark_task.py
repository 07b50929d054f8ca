"""The Spark task: what it finds on a worker and fills in, what it submits, and to which driver it may go back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets import SparkSubmitBatchOperator
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.class_archive import class_archive
from airflow_kafka_offsets.hooks.java_client import as_properties, java_client, system_properties
from airflow_kafka_offsets.hooks.spark_installation import (
    SHORT_CACHE,
    SparkInstallation,
    find_spark,
    missing_packages,
    missing_settings,
    missing_variables,
    settings_of,
)
from airflow_kafka_offsets.hooks.spark_kafka import handed_over
from airflow_kafka_offsets.operators.submit import memory_settings
from airflow_kafka_offsets.spark.secrets import parse_properties
from testbed import airflow_home
from tests.airflow.conftest import Orders

pytestmark = pytest.mark.long

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
AVRO = "org.apache.spark:spark-avro_2.13:4.0.0"
DELTA, ICEBERG = "io.delta:delta-spark_2.13:4.0.0", "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
SUBMIT = """#!/bin/sh
echo "$SPARK_SUBMIT_OPTS|$*" >> {0}
exit ${{STATUS:-0}}
"""

# ── what is on this worker ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def spark(tmp_path: Path) -> SparkInstallation:
    """A Spark 4.0.0 that has its core and nothing else."""
    for name in ("bin", "jars", "conf"):
        (tmp_path / "spark" / name).mkdir(parents=True)
    (tmp_path / "spark/jars/spark-core_2.13-4.0.0.jar").touch()
    submit = tmp_path / "spark/bin/spark-submit"
    submit.write_text("")
    submit.chmod(0o755)
    return SparkInstallation(submit, tmp_path / "spark", "4.0.0", "2.13")


def test_a_spark_is_found_by_its_submit_and_runs_this_python(spark: SparkInstallation, airflow: Path) -> None:
    java = {"JAVA_HOME": os.environ["JAVA_HOME"]}
    on_path = {"PATH": str(spark.submit.parent), **java}
    assert find_spark("spark-submit", on_path) == spark
    assert missing_variables(spark, on_path) == {"PYSPARK_DRIVER_PYTHON": sys.executable}
    assert missing_variables(spark, {"PATH": "/bin", "PYSPARK_PYTHON": "p"})["PATH"] == f"{spark.submit.parent}:/bin"


def test_what_is_missing_is_named_at_once_with_the_command_that_installs_it() -> None:
    with pytest.raises(InvalidRequest) as refused:
        find_spark("no-such-submit", {"PATH": "/nowhere"})
    assert len(refused.value.problems) == 2
    assert "pip install" in refused.value.problems[0]
    assert "apt install" in refused.value.problems[1]


@pytest.mark.parametrize(
    ("formats", "configured", "jars", "expected"),
    [
        ((), {}, "", [KAFKA]),
        (("delta", "avro"), {}, "", [KAFKA, AVRO, DELTA]),
        (("iceberg", "parquet"), {}, "", [KAFKA, ICEBERG]),
        (("delta",), {"spark.jars.packages": KAFKA}, "", [DELTA]),
        (("delta",), {"spark.jars": "/jars/delta-spark_2.13-4.0.0.jar"}, "/x/spark-sql-kafka-0-10_2.13.jar", []),
        ((), {"spark.driver.extraClassPath": "/jars/spark-sql-kafka-0-10_2.13-4.0.0.jar"}, "", []),
    ],
)
def test_only_packages_that_nothing_configures_are_added(
    spark: SparkInstallation, formats: Any, configured: Mapping[str, str], jars: str, expected: list[str]
) -> None:
    assert missing_packages(spark, formats, configured, jars) == expected


def test_a_table_format_that_is_not_known_for_a_spark_is_refused_and_may_be_given(spark: SparkInstallation) -> None:
    newer = SparkInstallation(spark.submit, spark.home, "4.9.0", "2.13")
    with pytest.raises(InvalidRequest, match=r"Which delta-spark fits Spark 4\.9\.0"):
        missing_packages(newer, ["delta"], {}, "")
    assert missing_packages(newer, ["delta"], {"spark.jars.packages": "my:delta-spark:1"}, "") != []


def test_settings_are_the_files_then_the_jobs_own(spark: SparkInstallation) -> None:
    assert spark.home is not None
    file = spark.home / "conf" / "spark-defaults.conf"
    file.write_text("# no setting\nspark.a   1\nspark.b=2\nspark.c: x y\n")
    found = settings_of(spark, None, {"spark.b": 3}, {})
    assert found == {"spark.a": "1", "spark.b": "3", "spark.c": "x y"}
    delta = {"spark.sql.extensions", "spark.sql.catalog.spark_catalog"}
    assert set(missing_settings(["delta"], {})) == {*SHORT_CACHE, *delta}
    assert missing_settings(["iceberg"], {}) == SHORT_CACHE
    assert missing_settings(["delta"], missing_settings(["delta"], {})) == {}


# ── what is submitted ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def submitted(airflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[tuple[str, str]]]:
    """`submitted()`: the JVM's options and the command line of each driver since; none of them does anything."""
    (tmp_path / "bin").mkdir()
    submit, log = tmp_path / "bin" / "spark-submit", tmp_path / "submitted"
    submit.write_text(SUBMIT.format(log))
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", f"{submit.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Downs=last")

    def read() -> list[tuple[str, str]]:
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [(options, line) for options, _, line in (line.partition("|") for line in lines)]

    return read


def test_a_small_batch_starts_fast_and_a_large_one_with_the_usual_jvm(orders: Orders, submitted: Any) -> None:
    orders.dag_id = "batch_by_spark"
    orders.produce(5)
    assert orders.run().states("orders.commit") == ["failed"]  # nobody has written
    ((options, line),) = submitted()
    archive = class_archive(find_spark("spark-submit", os.environ), os.environ)
    mapped = archive.options() if archive else ""  # the demo writes one into this environment
    assert options == " ".join(filter(None, ["-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", mapped, "-Downs=last"]))
    plan = f"/kafka_offsets/{orders.topic}/batches/00000000/0000000001/1.json"
    assert f"{plan} --bootstrap-servers {orders.broker.bootstrap_servers} --job " in line
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Downs=last"

    big = Orders(orders.broker, f"{orders.topic}-big", orders.group, orders.output, "batch_by_spark")
    orders.broker.create_topic(big.topic)
    orders.broker.produce_many(big.topic, 100_001)
    big.run()
    ((options, _),) = submitted()
    assert options == " ".join(filter(None, [mapped, "-Downs=last"]))


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, "-XX:+ExitOnOutOfMemoryError"),
        ({"spark.driver.defaultJavaOptions": "-Da=b"}, "-XX:+ExitOnOutOfMemoryError -Da=b"),
        ({"spark.driver.extraJavaOptions": "-XX:+HeapDumpOnOutOfMemoryError"}, None),
    ],
)
def test_a_driver_without_memory_ends_unless_somebody_says_what_it_does(
    own: dict[str, str], expected: str | None
) -> None:
    assert memory_settings(own, "").get("spark.driver.defaultJavaOptions") == expected
    assert memory_settings(own, "-XX:OnOutOfMemoryError=true") == {}


@pytest.mark.parametrize(("status", "tries"), [("1", 2), ("78", 1)])
def test_a_job_that_no_retry_can_mend_is_not_retried(
    orders: Orders, submitted: Any, monkeypatch: pytest.MonkeyPatch, status: str, tries: int
) -> None:
    orders.dag_id = "batch_by_spark"
    orders.produce(1)
    monkeypatch.setenv("STATUS", status)
    assert orders.run().states("orders.spark") == ["failed"]
    assert len(submitted()) == tries


def test_a_driver_that_ran_out_of_memory_is_retried_and_says_how_the_batch_is_made_smaller(
    orders: Orders, submitted: Any, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    orders.dag_id = "batch_by_spark"
    orders.produce(1)
    monkeypatch.setenv("STATUS", "3")
    assert orders.run().states("orders.spark") == ["failed"]
    assert len(submitted()) == 2
    monkeypatch.setenv("STATUS", "0")
    smaller = orders.run_printed(said())
    assert smaller.states("orders.resolve") == ["success"]


@pytest.mark.slow
def test_a_jvm_without_memory_ends(airflow: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "kept = [spark._sc._gateway.new_array(spark._jvm.long, 10_000_000) for _ in range(100)]\n"
    )
    options = [f"--conf={name}={value}" for name, value in memory_settings({}, "").items()]
    command = ["spark-submit", "--master=local[1]", "--driver-memory=512m", *options, str(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr[-2000:]


def test_a_batch_that_is_written_and_whose_records_are_gone_is_committed_without_a_driver(
    orders: Orders, submitted: Any
) -> None:
    orders.produce(5)
    orders.run(reject=True)
    orders.broker.delete_records({(orders.topic, 0): 3})
    orders.dag_id = "batch_by_own_job"

    assert (orders.run().state, submitted(), orders.committed) == ("success", [], {0: 5})


def test_a_retry_goes_back_to_the_driver_of_its_plan_and_another_plan_or_a_clear_starts_one(airflow: Path) -> None:
    """In cluster mode a driver outlives its worker; the provider's operator would also find it after a clear."""

    drivers: list[str] = []

    class Cluster(SparkSubmitBatchOperator):
        def submit_job(self, context: Any) -> str:
            drivers.append(f"driver-{len(drivers)}")
            return drivers[-1]

        def get_job_status(self, external_id: Any, context: Any) -> str:
            return "FINISHED"

        def is_job_active(self, status: str) -> bool:
            return False

        def is_job_succeeded(self, status: str) -> bool:
            return True

        def poll_until_complete(self, external_id: Any, context: Any) -> None:
            pass

    class States(dict[str, Any]):
        set = dict.__setitem__

    states = States()
    merge, write = "merge_batches.py", "write_batch.py"  # which one task submits both
    tries = [(1, 0, 1, write), (1, 0, 1, write), (1, 1, 2, write), (1, 1, 3, merge), (2, 1, 4, write), (2, 1, 4, write)]
    for entry, clears, count, job in tries:
        plan = {"arguments": ["--plan", f"s3://b/p/{entry}.json"]}
        operator = Cluster(task_id="spark", plan=plan, application=f"/jobs/{job}")
        operator._clears = clears
        operator.execute_resumable({"task_state_store": states})
        assert len(drivers) == count


# ── the Kafka connection, as Spark's client takes it ──────────────────────────────────────────────────────────────────

SERVERS = {"bootstrap.servers": "k:9092"}
LOGIN = "org.apache.kafka.common.security"
OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.token.endpoint.url": "https://id/token",
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"session.timeout.ms": 5, "sasl.password": "unused"}, {}),
        (
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "u",
                "sasl.password": 'p"\\',
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{LOGIN}.plain.PlainLoginModule required username="u" password="p\\"\\\\";',
            },
        ),
        (
            {"security.protocol": "ssl", "ssl.ca.pem": "CA", "ssl.certificate.pem": "C", "ssl.key.pem": "K"},
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": "CA",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": "C",
                "ssl.keystore.key": "K",
            },
        ),
        (
            {"security.protocol": "sasl_plaintext", **OIDC},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
                "sasl.login.callback.handler.class": f"{LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required "
                'clientId="me" clientSecret="s";',
            },
        ),
    ],
)
def test_a_connection_is_translated_for_javas_client(settings: Any, expected: dict[str, str]) -> None:
    assert java_client({**SERVERS, **settings}) == {**SERVERS, **expected}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"security.protocol": "tls"}, "security.protocol"),
        ({"security.protocol": "ssl", "enable.ssl.certificate.verification": False}, "enable.ssl.certificate"),
        ({"security.protocol": "ssl", "ssl.curves.list": "P-256"}, "ssl.curves.list"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-256"}, "sasl.username"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": print}, "oauth_cb"),
        ({"security.protocol": "sasl_ssl"}, "sasl.kerberos.keytab"),
    ],
)
def test_what_javas_client_cannot_do_is_refused_by_name_and_never_by_value(settings: Any, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        java_client({**SERVERS, **settings})


def test_the_jvm_may_ask_the_url_that_gives_tokens() -> None:
    java = java_client({**SERVERS, "security.protocol": "sasl_ssl", **OIDC})
    assert system_properties(java) == {"org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://id/token"}
    assert system_properties(SERVERS) == {}


@given(
    st.dictionaries(st.from_regex(r"[a-z.]{1,20}", fullmatch=True), st.text(st.characters(exclude_categories=["Cs"])))
)
def test_the_driver_reads_back_what_was_written_into_its_file(values: dict[str, str]) -> None:
    assert parse_properties(as_properties(values)) == values


def test_credentials_are_not_handed_to_a_driver_on_a_cluster_and_pem_files_must_be_readable(
    airflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hunter2"}
    for settings, cluster_mode, words in [
        ({"security.protocol": "sasl_ssl", **plain}, True, "client.properties that the cluster has"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/no/such/file"}, False, "ssl.ca.location is '/no/such/file'"),
        ({"security.protocol": "ssl", "ssl.key.pem": "hunter2", "ssl.certificate.pem": "c"}, False, "no private key"),
    ]:
        for name, value in airflow_home.connections({**SERVERS, **settings}).items():
            monkeypatch.setenv(name, value)
        with (
            pytest.raises(InvalidRequest, match=words) as refused,
            handed_over("kafka_default", {}, cluster_mode=cluster_mode),
        ):
            pass
        assert "hunter2" not in str(refused.value)
