"""What spark-submit is told of a Kafka connection; that Spark reads with it: tests/secured."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.spark_kafka import handed_over, where_on_the_cluster
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.spark.client_properties import HANDED_OVER, SETTING
from testbed.certificates import Authority
from tests.builders import job_arguments

SECRET = "hunter2-password"
SERVERS = "spark.kafka_offsets.source.kafka.bootstrap.servers"
SCRAM = {
    "bootstrap.servers": "kafka:9093",
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "airflow",
    "sasl.password": SECRET,
}
OF_AN_UNKNOWN_KIND = "-----BEGIN PRIVATE KEY-----\nMA0CAQAwBQYDKgMEBAF4\n-----END PRIVATE KEY-----\n"  # PKCS#8: 1.2.3.4
Connect = Callable[..., None]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    def set_up(conn_id: str = "kafka", conn_type: str = "kafka", host: str = "", **extra: Any) -> None:
        value = {"conn_type": conn_type, "host": host, "extra": json.dumps(extra)}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(value))

    set_up("spark_default", "spark", "local[2]")
    return set_up


def file_of(settings: dict[str, str]) -> Path:
    return Path(settings[SETTING].removeprefix(HANDED_OVER))


def test_the_file_is_its_owner_s_alone_and_gone_afterwards(connect: Connect) -> None:
    connect(**SCRAM)
    with handed_over("kafka", {}, cluster_mode=False) as settings:
        file = file_of(settings)
        assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
        assert SECRET in file.read_text()
        assert SECRET not in repr(settings)
    assert not file.parent.exists()


def test_an_address_alone_needs_no_file(connect: Connect) -> None:
    connect(**{"bootstrap.servers": "kafka:9092", "socket.timeout.ms": 1000})
    for cluster_mode in (False, True):
        with handed_over("kafka", {}, cluster_mode=cluster_mode) as settings:
            assert settings == {}
        with handed_over("kafka", {}, cluster_mode=cluster_mode, own=True) as settings:
            assert settings == {SERVERS: "kafka:9092"}


def test_credentials_are_not_handed_to_a_driver_elsewhere(connect: Connect) -> None:
    connect(**SCRAM)
    with (
        pytest.raises(InvalidRequest, match=r'kafka=\{"file": "/mnt/kafka/client.properties"\}') as error,
        handed_over("kafka", {}, cluster_mode=True),
    ):
        pass
    assert SECRET not in str(error.value)


def test_files_go_along_as_text_and_the_key_is_opened(connect: Connect, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("airflow", password=SECRET)
    files = {"ssl.ca.location": str(authority.ca), "ssl.certificate.location": str(signed.certificate)}
    own = {"ssl.key.location": str(signed.key), "ssl.key.password": SECRET}
    connect(**{"bootstrap.servers": "kafka:9093", "security.protocol": "ssl", **files, **own})
    with handed_over("kafka", {}, cluster_mode=False) as settings:
        text = file_of(settings).read_text()
    assert "ssl.keystore.key=-----BEGIN PRIVATE KEY-----" in text
    assert text.count("-----BEGIN CERTIFICATE-----") == 2
    assert "location" not in text
    assert "password" not in text


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"ssl.ca.location": "/nowhere", "https.ca.location": "/"}, "ssl.ca.location is '/nowhere', .*No such file"),
        ({"ssl.ca.location": "/nowhere", "https.ca.location": "/"}, "https.ca.location is '/', .*no regular file"),
        ({"ssl.ca.location": "/dev/zero"}, "ssl.ca.location is '/dev/zero', .*no regular file"),
        ({"ssl.ca.location": "a\0b"}, "ssl.ca.location is .*, which cannot be read here: ValueError"),
        ({"ssl.key.pem": "-----BEGIN PRIVATE KEY-----"}, "ssl.key.pem .* is no private key"),
        ({"ssl.key.pem": OF_AN_UNKNOWN_KIND}, "ssl.key.pem .* is no private key"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(connect: Connect, changed: dict[str, str], problem: str) -> None:
    connect(**SCRAM, **changed)
    with pytest.raises(InvalidRequest, match=problem), handed_over("kafka", {}, cluster_mode=False):
        pass


def test_a_file_of_more_than_any_pem_has_is_refused(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_kafka_offsets.hooks.spark_kafka._PEM_BYTES", 10)
    (tmp_path / "ca.pem").write_text("x" * 11)
    connect(**SCRAM, **{"ssl.ca.location": str(tmp_path / "ca.pem")})
    with pytest.raises(InvalidRequest, match="more than 10 bytes"), handed_over("kafka", {}, cluster_mode=False):
        pass


def test_what_is_no_text_is_refused_by_name_all_at_once(connect: Connect) -> None:
    connect(**{**SCRAM, "sasl.password": [SECRET], "ssl.ca.location": 5, "ssl.key.pem": {SECRET: 1}})
    with pytest.raises(InvalidRequest) as error, handed_over("kafka", {}, cluster_mode=False):
        pass
    named = ("sasl.password", "ssl.ca.location", "ssl.key.pem")
    assert error.value.problems == tuple(f"{name} is no text." for name in named)


def test_java_s_own_options_are_kept_beside_the_token_server_s(connect: Connect) -> None:
    oidc = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
    names = ("token.endpoint.url", "client.id", "client.secret")
    connect(**{**SCRAM, **oidc, **{f"sasl.oauthbearer.{name}": "https://login" for name in names}})
    name = "spark.driver.extraJavaOptions"
    with handed_over("kafka", {name: "-Dmine=1"}, cluster_mode=False) as settings:
        assert settings[name] == "-Dmine=1 -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://login"


def test_a_user_says_where_the_driver_finds_it() -> None:
    assert where_on_the_cluster({"file": "/mnt/x"}) == {SETTING: "/mnt/x"}
    assert where_on_the_cluster({"credential": "alias"}) == {SETTING: "credential:alias"}
    assert where_on_the_cluster({}) == {}
    for wrong in ({"path": "/x"}, {"file": ""}, {"file": "/x", "credential": "y"}):
        with pytest.raises(InvalidRequest, match="Give the name of a Kafka connection"):
            where_on_the_cluster(wrong)


def of_task(kafka: Any = None, configured: dict[str, str] | None = None, **more: Any) -> dict[str, str]:
    """Spark's settings that a Spark task makes of the connection `kafka`, with which the batch was planned."""
    plan = "pipelines/x/batches/00000000/0000000001/1.json"
    arguments = job_arguments(plan, "p", 0, "file:///store", "a:9092", "kafka")
    task = SparkSubmitPlanOperator(task_id="spark", application_args=arguments, kafka=kafka, **more)
    with task._kafka(configured or {}) as settings:
        if SETTING in settings and settings[SETTING].startswith(HANDED_OVER):
            return {"text": file_of(settings).read_text()}
        return settings


def test_the_connection_of_the_plan_is_handed_over_unless_somebody_says_otherwise(connect: Connect) -> None:
    connect(**SCRAM)
    connect("kafka_spark", **{**SCRAM, "sasl.username": "spark"})
    assert 'username="airflow"' in of_task()["text"]
    assert 'username="spark"' in of_task("kafka_spark")["text"]
    assert of_task({}) == {}
    assert of_task({"file": "/mnt/x"}, deploy_mode="cluster") == {SETTING: "/mnt/x"}
    assert of_task(configured={SETTING: "/etc/x"}) == {}


@pytest.mark.parametrize("by", ["operator", "connection", "settings"])
def test_a_cluster_mode_is_seen_wherever_it_is_said(connect: Connect, by: str) -> None:
    connect(**SCRAM)
    if by == "connection":
        connect("spark_default", "spark", "spark://host", **{"deploy-mode": "cluster"})
    configured = {"spark.submit.deployMode": "cluster"} if by == "settings" else {}
    with pytest.raises(InvalidRequest, match="the driver runs on the cluster"):
        of_task(configured=configured, **({"deploy_mode": "cluster"} if by == "operator" else {}))
