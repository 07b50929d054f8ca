"""The core path on each row of the matrix: resolve → Spark → commit, a backfill, the sensors, two runs at once, a loss.

Airflow's scheduler, triggerer and tasks run as processes of the row's own environment, in which the built wheel is
installed as a user does it; this process only asks. `make test-matrix` runs it, with `ROWS="lowest highest"` two rows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from airflow_kafka_offsets.errors import WorkStoreLost
from airflow_kafka_offsets.hooks.spark_installation import DELTA_CONF, package_of
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.stores.open import open_store
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.checks import committed_offsets, duplicated_or_missing, rows_by_batch
from testbed.jars import delta_jars, iceberg_jars, spark_jars
from testbed.java import Java
from testbed.kdc import Kdc
from testbed.postgres import Postgres
from testbed.secured_broker import SecuredBroker
from testbed.spark import PATIENT, SHORT_JOBS, spark_conf, spark_env
from testbed.standalone import StandaloneAirflow
from testbed.topics import wait_for
from tests.conftest import unique_name
from tests.matrix.document import SINKS, Seen
from tests.matrix.environments import airflow_python, build_wheel, installed, spark_python
from tests.matrix.rows import Row
from tests.secured.page import connection

DAGS = Path(__file__).resolve().parent / "dags"
BEGIN = datetime(2026, 11, 20, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
_JARS = {"delta": delta_jars, "iceberg": iceberg_jars}
# Run by the row's Spark: the values of all rows.
_READ = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.config(map=json.loads(sys.argv[1])).getOrCreate()
print(json.dumps(sorted(int(row[0].decode()) for row in spark.sql(sys.argv[2]).collect())))
"""
DEADLINE_S = 480.0  # a row's Airflow has four processes, and Spark is the fifth


@dataclass
class Site:
    """A row's Airflow, its broker, and the topic, group and output of one test."""

    row: Row
    airflow: StandaloneAirflow
    broker: KafkaBroker
    watched: str
    spark_python: Path
    spark_settings: dict[str, str]
    topic: str = ""
    group: str = ""
    output: Path = Path()

    @property
    def conf(self) -> dict[str, str]:
        return {"topic": self.topic, "group": self.group, "output": str(self.output)}

    def wait(self, dag_id: str, run_id: str) -> str:
        return self.airflow.wait_for_run(dag_id, run_id, deadline_s=DEADLINE_S)

    def wait_until_deferred(self, dag_id: str, run_id: str, task_id: str) -> None:
        self.wait_for_state(dag_id, run_id, task_id, "deferred")

    def wait_for_state(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        self.airflow.wait_for_task(dag_id, run_id, task_id, lambda task: task.state == state, deadline_s=DEADLINE_S)

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        return self.airflow.task_log(dag_id, run_id, task_id).replace('\\"', '"')

    def told(self, dag_id: str, run_id: str) -> str:
        """What an assertion shows of a run that did not end as it should."""
        tasks = self.airflow.tasks(dag_id, run_id)
        bad = [task for task in tasks if task.state in ("failed", "up_for_retry", "deferred", "running")]
        tails = [
            f"{t.task_id}:\n{self.airflow.task_log(dag_id, run_id, t.task_id, t.tries, t.map_index)[-6000:]}"
            for t in bad
        ]
        return "\n".join([str(tasks), *tails])

    def command_line(self, *words: str) -> str:
        """What `kafka-offsets` prints, installed beside the row's Airflow."""
        command = [str(Path(self.airflow.python).with_name("kafka-offsets")), *words]
        home = {"AIRFLOW_HOME": str(self.airflow.home), "PYTHONPATH": ""}
        return subprocess.run(
            command, env={**os.environ, **home}, cwd=self.airflow.home, capture_output=True, text=True, check=True
        ).stdout

    def values_of(self, table_format: str) -> list[int]:
        """Of all rows of the table, as a reader has them who knows nothing of this package."""
        table = f"lake.db.`{self.topic}`" if table_format == "iceberg" else f"delta.`{self.output}`"
        settings = {**self.spark_settings, **(DELTA_CONF if table_format == "delta" else {})}
        command = [str(self.spark_python), "-c", _READ, json.dumps(settings), f"SELECT value FROM {table}"]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        found: list[int] = json.loads(done.stdout.splitlines()[-1])
        return found

    def produce(self, count: int, first: int = 0, partitions: int = 2, **more: Any) -> None:
        """Records whose values count from `first`."""
        value = lambda n: str(first + n).encode()  # noqa: E731
        self.broker.produce_many(self.topic, count, partitions=partitions, value=value, **more)


@dataclass
class Kafka:
    """A row's broker, and what Airflow's connection, its processes and Spark need for it."""

    broker: KafkaBroker
    connection: dict[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
    spark_settings: dict[str, str] = field(default_factory=dict)


@contextmanager
def kafka_of(row: Row, folder: Path, java: Java, say: Say) -> Iterator[Kafka]:
    if not row.kerberos:
        with KafkaBroker(folder / "kafka", version=row.kafka, java=java, say=say) as broker:
            yield Kafka(broker, broker.client_config)
        return
    with (
        Kdc(folder / "kdc") as kdc,
        SecuredBroker(folder / "kafka", {"airflow": "of-no-use"}, java, say, kdc, row.kafka) as secured,
    ):
        secured.allow("airflow", ("topic", "*", "read"), ("group", "*", "read"))
        yield Kafka(
            secured.plain,
            connection(secured, "kerberos", "airflow"),
            {"KRB5_CONFIG": str(kdc.config), "KRB5CCNAME": f"FILE:{folder / 'tickets'}"},
            {"spark.driver.extraJavaOptions": f"-Djava.security.krb5.conf={kdc.config}"},
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def ground(
    row: Row,
    wheel: Path,
    java: Java,
    postgres: Postgres,
    say: Say,
    seen: Seen,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """The row's environments, and its Airflow and broker while they run."""
    say(f"{row.name}: environments …")
    airflow, spark = airflow_python(row, wheel, say), spark_python(row, wheel)
    seen.versions[row.name] = {**installed(airflow), "Python": row.python, "Kafka": row.kafka, "Spark": row.spark}
    say(f"{row.name}: {seen.versions[row.name]}")
    folder = tmp_path_factory.mktemp("matrix")
    watched = unique_name("watched")
    with kafka_of(row, folder, java, say) as kafka:
        broker = kafka.broker
        broker.create_topic(watched, 1)
        jars = [spark_jars(java, say, row.spark)]
        jars += [jars_of(java, say, row.minor) for name, jars_of in _JARS.items() if package_of(name, row.spark)]
        settings = {
            **spark_conf(jar for group in jars for jar in group),
            **PATIENT,
            **kafka.spark_settings,
            "spark.databricks.delta.snapshotPartitions": "1",  # of 50, for a table of a few files
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        }
        environment = {
            **airflow_home.connections(kafka.connection),
            **kafka.environment,
            **airflow_home.variables({"matrix_watched": watched}),
            **spark_env(java, spark),
            **SHORT_JOBS,
            **airflow_home.spark_defaults(folder / "spark", settings),
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "PYTHONPATH": "",  # the wheel's package, and not this checkout's
        }
        dags = shutil.copytree(DAGS, folder / "dags")  # of this row, whatever becomes of the checkout meanwhile
        home, database = folder / "airflow", postgres.new_database()
        with StandaloneAirflow(home, [dags], database, environment, triggerer=True, python=str(airflow)) as running:
            for dag_id in ("batch", "windows", "by_hand", "lag", "watched", *SINKS):
                running.wait_for_dag(dag_id)
            yield Site(row, running, broker, watched, spark, settings)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def site(ground: Site, tmp_path: Path) -> Site:
    ground.topic, ground.group, ground.output = unique_name("topic"), unique_name("group"), tmp_path / "output"
    return ground


def test_batches(site: Site) -> None:
    """A sensor that waits in the triggerer for a partition, then two batches by Spark; then the second is cleared."""
    airflow, broker = site.airflow, site.broker
    broker.create_topic(site.topic, 1)
    site.produce(100, partitions=1)
    first = airflow.trigger("batch", site.conf)
    site.wait_until_deferred("batch", first, "orders.wait_for_partitions")
    admin = broker.admin()  # one that is dropped ends its requests
    admin.create_partitions([NewPartitions(site.topic, 2)])[site.topic].result(30)
    assert site.wait("batch", first) == "success", site.told("batch", first)
    assert list(rows_by_batch(site.output).values()) == [100]

    site.produce(60, first=100)
    second = airflow.trigger("batch", site.conf)
    assert site.wait("batch", second) == "success", site.told("batch", second)
    before = rows_by_batch(site.output)
    assert list(before.values()) == [100, 60]
    assert committed_offsets(broker, site.group, site.topic) == {0: 130, 1: 30}

    airflow.clear_task("batch", second, ["orders.resolve"])
    assert site.wait("batch", second) == "success", site.told("batch", second)
    assert airflow.task("batch", second, "orders.commit").tries == 2
    assert rows_by_batch(site.output) == before
    assert duplicated_or_missing(site.output, 160) == (0, 0)
    assert committed_offsets(broker, site.group, site.topic) == {0: 130, 1: 30}


def test_typed_rows(site: Site) -> None:
    """JSON becomes columns; what is bad is set aside, what is not wanted is left out, and all of it is counted."""
    site.broker.create_topic(site.topic, 1)
    records = [b'{"n": %d, "at": "2026-11-20T10:00:00Z"}' % n for n in range(1, 11)]
    bad = [b'{"n": 0}', b'{"n": 1} ', b'{"n": 1} x', b'{"at": "2026-11-20"}', b'{"n": 9, "at": "now"}', b"\xff"]
    bad += [b'{"n": 9, "due": "31/12/2026"}']
    site.broker.produce_many(site.topic, 17, partitions=1, value=lambda n: (records + bad)[n])
    run = site.airflow.trigger("typed", site.conf)
    assert site.wait("typed", run) == "success", site.told("typed", run)
    assert list(rows_by_batch(site.output).values()) == [10]  # without 3, and with the one that ends in a blank
    assert list(rows_by_batch(Path(f"{site.output}-bad")).values()) == [6]
    assert "6 set aside as bad, 1 left out" in site.log("typed", run, "orders.commit")


def test_backfill(site: Site) -> None:
    """Two hours, each once into its own place; ``WindowCompleteSensor`` stands before each."""
    site.broker.create_topic(site.topic, 2, {"retention.ms": "-1"})
    start_ms = int(BEGIN.timestamp() * 1000)
    site.produce(120, timestamp_ms=lambda n: start_ms + n * 60_000)
    hours = (BEGIN, BEGIN + HOUR)
    backfill = site.airflow.create_backfill("windows", *hours, dag_run_conf=site.conf, max_active_runs=1)
    wait_for("the backfill is over", lambda: site.airflow.backfill_is_over(backfill), DEADLINE_S)

    runs = {run: state for run, state in site.airflow.runs("windows").items() if run.startswith("backfill__")}
    assert list(runs.values()) == ["success"] * 2, [site.told("windows", run) for run in runs]
    assert sorted(rows_by_batch(site.output).values()) == [60, 60]
    assert duplicated_or_missing(site.output, 120) == (0, 0)


def test_sensors(site: Site) -> None:
    """A lag that is waited for in the triggerer and in a worker; a watcher that starts a run."""
    site.broker.create_topic(site.topic, 2)
    run = site.airflow.trigger("lag", site.conf)
    site.wait_until_deferred("lag", run, "deferred")
    site.produce(4)
    assert site.wait("lag", run) == "success", site.told("lag", run)

    site.broker.produce_many(site.watched, 4, partitions=1)
    wait_for("the watcher has started a run", lambda: bool(site.airflow.runs("watched")), DEADLINE_S)
    [of_the_watcher] = site.airflow.runs("watched")
    assert site.wait("watched", of_the_watcher) == "success", site.told("watched", of_the_watcher)


def test_two_runs(site: Site, tmp_path: Path) -> None:
    """The second run waits in the triggerer for the first, without a try; the command line shows the pipeline."""
    airflow, go = site.airflow, tmp_path / "go"
    site.broker.create_topic(site.topic, 2)
    site.produce(10)
    first = airflow.trigger("by_hand", {**site.conf, "go": str(go)})
    site.wait_for_state("by_hand", first, "gate", "running")
    site.produce(4, first=10)
    second = airflow.trigger("by_hand", site.conf)
    site.wait_until_deferred("by_hand", second, "resolve")

    go.touch()

    for run in (first, second):
        assert site.wait("by_hand", run) == "success", site.told("by_hand", run)
    assert airflow.task("by_hand", second, "resolve").tries == 1
    assert committed_offsets(site.broker, site.group, site.topic) == {0: 7, 1: 7}
    assert f"{site.group}/by_hand/resolve" in site.command_line("pipelines", "--output", "json")


def test_loss(site: Site) -> None:
    """Work store and group are gone, and Airflow still knows of an earlier run: refused, and not begun anew."""
    site.broker.create_topic(site.topic, 2)
    site.produce(10)
    first = site.airflow.trigger("by_hand", site.conf)
    assert site.wait("by_hand", first) == "success", site.told("by_hand", first)
    store = open_store(str(site.airflow.home / "kafka_offsets"))
    shutil.rmtree(site.airflow.home / "kafka_offsets" / PipelineLog(store, f"{site.group}/by_hand/resolve").root)
    admin = site.broker.admin()
    admin.delete_consumer_groups([site.group])[site.group].result(30)

    second = site.airflow.trigger("by_hand", site.conf)

    assert site.wait("by_hand", second) == "failed", site.told("by_hand", second)
    assert WorkStoreLost.code in site.log("by_hand", second, "resolve")
    assert committed_offsets(site.broker, site.group, site.topic) == {}


def test_delta(site: Site) -> None:
    _two_batches_and_a_clear(site, "delta")


def test_iceberg(site: Site) -> None:
    _two_batches_and_a_clear(site, "iceberg")


def _two_batches_and_a_clear(site: Site, table_format: str) -> None:
    """Two batches into a table; then the second is cleared, and replaces its rows."""
    if not package_of(table_format, site.row.spark):
        pytest.skip(f"no {table_format} is known for Spark {site.row.spark}: it is refused by name")
    airflow = site.airflow
    site.broker.create_topic(site.topic, 2)
    for first, count in ((0, 100), (100, 60)):
        site.produce(count, first=first)
        run = airflow.trigger(table_format, site.conf)
        assert site.wait(table_format, run) == "success", site.told(table_format, run)
    assert site.values_of(table_format) == [*range(160)]
    airflow.clear_task(table_format, run, ["orders.resolve"])
    assert site.wait(table_format, run) == "success", site.told(table_format, run)
    assert airflow.task(table_format, run, "orders.commit").tries == 2
    assert site.values_of(table_format) == [*range(160)]
