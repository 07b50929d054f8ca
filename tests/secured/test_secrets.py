"""A secret is looked for in all that runs leave. It is in every credential of these runs: Kafka's password, key, key's
password and client secret, S3's secret key, the database's password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fsspec
import httpx
import pytest

from testbed import airflow_home, jars
from testbed.java import Java
from testbed.postgres import PASSWORD, Postgres, tables_of
from testbed.process_watch import ProcessWatch
from testbed.s3_server import SECRET
from testbed.secured_broker import SecuredBroker
from testbed.spark import PATIENT, s3a_conf, spark_conf
from testbed.standalone import StandaloneAirflow
from testbed.topics import wait_for
from tests.conftest import unique_name
from tests.secured.page import connection
from tests.stores.kinds import BUCKET, s3_server

ROOT = Path(__file__).resolve().parents[2]
DAG_ID, MARK, WRONG = "searched", b"hunter2", "hunter2-wrong"
DEADLINE_S = 600.0
LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.kafka.name = org.apache.kafka
logger.kafka.level = debug
logger.source.name = org.apache.spark.sql
logger.source.level = debug
logger.tokens.name = org.apache.spark.kafka010
logger.tokens.level = debug
"""
UI = [
    "/environment/",
    "/SQL/",
    "/jobs/",
    "/stages/",
    "/executors/",
    "/api/v1/applications/{app}/environment",
    "/api/v1/applications/{app}/sql?details=true&planDescription=true&length=100",
    "/api/v1/applications/{app}/jobs",
    "/api/v1/applications/{app}/stages?details=true",
    "/api/v1/applications/{app}/allexecutors",
]


@pytest.fixture
def spark_folder(spark_jars: list[Path], s3a_jars: list[Path], java: Java, tmp_path: Path) -> Path:
    """Spark's own configuration, with the secrets that are not Kafka's, as a platform's operator writes it."""
    folder = tmp_path / "spark"
    (tmp_path / "events").mkdir()
    settings = {
        **spark_conf([*spark_jars, *s3a_jars, *jars.postgresql_jars(java)]),
        **s3a_conf(s3_server().endpoint),
        **PATIENT,
        "spark.kafka_offsets.jdbc.user": "postgres",
        "spark.kafka_offsets.jdbc.password": PASSWORD,
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (tmp_path / "events").as_uri(),
    }
    airflow_home.spark_defaults(folder, settings)
    (folder / "log4j2.properties").write_text(LOG4J)
    return folder


def test_runs_leave_no_secret_anywhere(
    kafka: SecuredBroker,
    postgres: Postgres,
    spark_environment: Mapping[str, str],
    spark_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One run that Spark's wrong password fails, and one that succeeds."""
    for name in s3_server().environment:  # which is for the libraries of this process
        monkeypatch.delenv(name, raising=False)
    topic, group, store = unique_name("topic"), unique_name("group"), f"{BUCKET}/{unique_name('store')}"
    kafka.plain.create_topic(topic, 1)
    kafka.plain.produce_many(topic, 20)
    kafka.allow("airflow", ("topic", topic, "read"), ("group", group, "read"))
    kafka.allow("spark", ("topic", topic, "read"))
    spark = connection(kafka, "scram", "spark") | {
        name: value for name, value in connection(kafka, "mtls", "spark").items() if name.startswith("ssl.")
    }
    opened = _key_of(spark)
    home, go, temporary = tmp_path / "airflow", tmp_path / "go", tmp_path / "tmp"
    temporary.mkdir()
    environment = {
        **spark_environment,
        "SPARK_CONF_DIR": str(spark_folder),
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(temporary),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
        "AIRFLOW__KAFKA_OFFSETS__WORK_STORE": f"s3://lake@{store}",
    }
    database = postgres.new_database()
    with StandaloneAirflow(home, [ROOT / "tests/secured/dags"], database, environment) as airflow:
        s3 = json.loads(airflow_home.s3_connection("lake", s3_server().endpoint)["AIRFLOW_CONN_LAKE"])
        airflow.set_connection("lake", **s3)
        airflow.set_connection("spark_default", conn_type="spark", host="local[2]")
        airflow.set_connection(
            "kafka_default", conn_type="kafka", extra=json.dumps(connection(kafka, "oauth", "airflow"))
        )
        airflow.set_connection("kafka_spark", conn_type="kafka", extra=json.dumps(spark | {"sasl.password": WRONG}))
        airflow.wait_for_dag(DAG_ID)
        conf = {"topic": topic, "group": group, "url": postgres.url, "go": str(go)}
        with ProcessWatch(str(home)) as watch:
            failed = airflow.trigger(DAG_ID, conf)
            assert airflow.wait_for_run(DAG_ID, failed, deadline_s=DEADLINE_S) == "failed"
            airflow.set_connection("kafka_spark", conn_type="kafka", extra=json.dumps(spark))
            good = airflow.trigger(DAG_ID, conf)
            log = _wait_for_log(airflow, good, "written, and waiting")
            shown = _ui(log)
            go.touch()
            assert airflow.wait_for_run(DAG_ID, good, deadline_s=DEADLINE_S) == "success", log[-4000:]
        said = airflow.task_log(DAG_ID, failed, "orders.spark", map_index=0)
    leaves = {
        "Airflow's home": _files(home),
        "the metadata database": tables_of(database),
        "the event log": _files(tmp_path / "events"),
        "temporary files": _files(temporary),
        "the work store": _objects(store),
        "Spark's UI": shown,
    }
    _require_that_it_was_all_looked_at(leaves, watch, said, topic)
    secrets = [MARK, SECRET.encode(), PASSWORD.encode(), *opened]
    assert [f"{place}: {found}" for place, files in leaves.items() for found in _found(secrets, files)] == []
    assert [f"{secret!r}: {command}" for secret in secrets for command in watch.holding(secret)] == []


def _require_that_it_was_all_looked_at(
    leaves: Mapping[str, Mapping[str, bytes]], watch: ProcessWatch, said: str, topic: str
) -> None:
    """What is no secret is found in each place."""
    assert "AKO-501 ClusterUnavailable: Spark cannot ask the Kafka cluster" in said
    assert "invalid credentials" in said
    home = leaves["Airflow's home"]
    assert all(topic.encode() in leaves["the metadata database"][table] for table in ("dag_run", "xcom"))
    assert any(name.endswith(".log") and b"AdminClientConfig values" in text for name, text in home.items())
    assert any(name.endswith(".log") and b'"level":"debug"' in text for name, text in home.items())
    assert any(b"SparkListenerSQLExecutionStart" in text for text in leaves["the event log"].values())
    assert any(topic.encode() in text for text in leaves["the work store"].values())
    shown = leaves["Spark's UI"]
    assert b"spark.kafka_offsets.client_properties" in shown[UI[0]] + shown[UI[5]]
    assert b"Kafka" in shown[UI[6]]
    for words in ("org.apache.spark.deploy.SparkSubmit", "jobs/waits.py", "client_properties=handed-over:"):
        assert any(words in command for command in watch.commands), words


def _found(secrets: list[bytes], files: Mapping[str, bytes]) -> list[str]:
    return sorted(f"{name}: {secret[:12]!r}" for name, text in files.items() for secret in secrets if secret in text)


def _files(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def _objects(store: str) -> dict[str, bytes]:
    system = fsspec.filesystem("s3", endpoint_url=s3_server().endpoint, key="testbed", secret=SECRET)
    return {name: system.cat_file(name) for name in system.find(store)}


def _ui(log: str) -> dict[str, bytes]:
    port = re.findall("service 'SparkUI' on port ([0-9]+)", log)[-1]
    url = f"http://127.0.0.1:{port}"
    app = httpx.get(f"{url}/api/v1/applications", timeout=60).json()[0]["id"]
    return {path: httpx.get(url + path.format(app=app), timeout=60).raise_for_status().content for path in UI}


def _wait_for_log(airflow: StandaloneAirflow, run_id: str, words: str) -> str:
    def log() -> str:
        return airflow.task_log(DAG_ID, run_id, "orders.spark", map_index=0)

    wait_for(
        f"the job says {words}", lambda: words in log() or airflow.run_state(DAG_ID, run_id) == "failed", DEADLINE_S
    )
    assert words in log(), log()[-6000:]
    return log()


def _key_of(settings: Mapping[str, Any]) -> list[bytes]:
    """A line of the private key, as it is handed over; that of the encrypted file is no secret by itself."""
    from airflow_kafka_offsets.hooks.spark_kafka import _with_texts

    return [_with_texts(settings)["ssl.key.pem"].splitlines()[1].encode()]
