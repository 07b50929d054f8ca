"""The Spark task over Spark Connect: a real Airflow, Kafka and server, and no JVM of the task's own."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home, jars
from testbed.broker import KafkaBroker
from testbed.checks import rows_of_delta
from testbed.dag_runs import continue_run, load_dag, retry_lost_tasks, run_and_lose_the_worker
from testbed.java import Java
from testbed.spark import SMALL_QUERIES
from testbed.spark_connect import SparkConnectServer
from testbed.topics import wait_for
from tests.airflow.conftest import WIRING, Orders
from tests.spark.conftest import EXTENSIONS

SECRET, TOKEN = 'hunter2 "pass\\word"', "hunter2-token"
NEVER_MS = 600_000
SESSIONS: list[Any] = []  # that tests have opened: as the operator's, they are not collected


Serve = Callable[..., SparkConnectServer]


@pytest.fixture(scope="module")
def serve(java: Java, spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """`serve(**settings)`: a server with Delta, Iceberg and a token."""
    settings = {
        **SMALL_QUERIES,
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path_factory.mktemp("lake")),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.connect.authenticate.token": TOKEN,
        "spark.driver.extraJavaOptions": "-Dtests.wait_ms=0 -Dtests.waiting=false",
    }
    tables = [*jars.delta_jars(java), *jars.iceberg_jars(java)]
    return lambda **more: SparkConnectServer(java, [*spark_jars, *tables], settings | more)


@pytest.fixture(scope="module")
def server(serve: Serve) -> Iterator[SparkConnectServer]:
    with serve() as running:
        yield running


@pytest.fixture(scope="module")
def forgetful(serve: Serve) -> Iterator[SparkConnectServer]:
    """One that ends a session after five seconds without a request; a client that waits for its query sends one each
    second, and not each two minutes."""
    manager = "spark.connect.session.manager"
    settings = {
        f"{manager}.defaultSessionTimeout": "5s",
        f"{manager}.maintenanceInterval": "1s",
        "spark.connect.execute.reattachable.senderMaxStreamDuration": "1s",
    }
    with serve(**settings) as running:
        yield running


def connect(patch: pytest.MonkeyPatch, server: SparkConnectServer) -> None:
    """Airflow's connection leads to this server."""
    connection = {"conn_type": "spark_connect", "host": "localhost", "port": server.port, "password": TOKEN}
    patch.setenv("AIRFLOW_CONN_SPARK_CONNECT_DEFAULT", json.dumps(connection))


@pytest.fixture
def connected(airflow: Path, orders: Orders, server: SparkConnectServer, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """A pipeline over the server, on a worker that has no Java."""
    connect(monkeypatch, server)
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("JAVA_HOME", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    orders.dag_id = "batch_into_delta"
    return orders


@pytest.fixture
def session(server: SparkConnectServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`with session(id) as spark`: a session of the server, by default a new one. A process has one at a time."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # so that this process forgets it at the end

    @contextmanager
    def join(session_id: str | None = None) -> Iterator[Any]:
        from pyspark.sql import SparkSession

        own = "" if session_id is None else f";session_id={session_id}"
        url = f"sc://localhost:{server.port}/;user_id=airflow;token={TOKEN}{own}"
        spark = SparkSession.builder.remote(url).create()
        SESSIONS.append(spark)
        try:
            yield spark
        finally:
            spark.stop()

    return join


@pytest.fixture
def of_jvm(session: Callable[..., Any]) -> Callable[..., str]:
    """`of_jvm("getProperty", "name")`: what a static method of the server's `System` returns."""

    def call(*words: str) -> str:
        with session() as spark:
            values = ", ".join(f"'{word}'" for word in words)
            return str(spark.sql(f"SELECT reflect('java.lang.System', {values})").collect()[0][0])

    return call


@pytest.fixture
def wait_ms(of_jvm: Callable[..., str]) -> Iterator[Callable[[int], None]]:
    """`wait_ms(n)`: each row that is written from now on waits that long."""

    def change(wait: int) -> None:
        of_jvm("setProperty", "tests.wait_ms", str(wait))
        of_jvm("setProperty", "tests.waiting", "false")

    yield change
    change(0)


@pytest.fixture
def is_waiting(of_jvm: Callable[..., str]) -> Callable[[], bool]:
    """`is_waiting()`: a row has begun to wait."""
    return lambda: of_jvm("getProperty", "tests.waiting") == "true"


@pytest.fixture
def is_idle(session: Callable[..., Any]) -> Callable[[str], bool]:
    """`is_idle(text)`: nothing runs in the sessions that tasks have named."""

    def ask(text: str) -> bool:
        found = set(re.findall(r"the Spark Connect session ([0-9a-f-]+)", text))
        running = []
        for session_id in found:
            with session(session_id) as spark:
                running += spark.interruptAll()
        return bool(found) and not running

    return ask


def ids(table: Path) -> list[int]:
    return sorted(row["id"] for row in rows_of_delta(table))


def attempts(table: Path) -> list[int]:
    """The attempts that have committed to a table, in order."""
    commits = [commit.read_text() for commit in sorted((table / "_delta_log").glob("*.json"))]
    return [int(found[1]) for text in commits if (found := re.search(r'attempt\\": (\d+)', text))]


@pytest.mark.slow
def test_rows_bad_records_and_an_entity_table_are_written_without_a_jvm_and_no_secret_is_said(
    connected: Orders,
    server: SparkConnectServer,
    java: Java,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    session: Callable[..., Any],
    said: Callable[[], str],
) -> None:
    with KafkaBroker(tmp_path / "kafka", sasl_users={"app": SECRET}, java=java) as broker:
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "app", "sasl.password": SECRET}
        servers = {"bootstrap.servers": broker.sasl_bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
        for name, value in airflow_home.connections({**servers, **login}).items():
            monkeypatch.setenv(name, value)
        broker.create_topic(connected.topic)
        connected.broker = broker
        connected.produce(5)
        broker.produce(connected.topic, [(0, None, b"bad", None)])
        run = connected.run()
        assert connected.committed == {0: 6}
        connected.produce(2)
        again = connected.run()  # in the same session, with a file of credentials of its own
        assert connected.committed == {0: 8}
        broker.produce(connected.topic, [(0, None, b"bad", None)] * 2)
        failed = connected.run()

    text = said()
    assert (run.state, again.state, failed.state) == ("success", "success", "failed"), text
    *_, session_id = re.findall(r"the Spark Connect session ([0-9a-f-]+)", text)
    with session(session_id) as spark:
        assert [name for name in spark.conf.getAll if "kafka_offsets" in name] == []
    assert ids(connected.output / "rows") == ids(connected.output / "current") == [*range(7)]
    assert [row["offset"] for row in rows_of_delta(connected.output / "bad")] == [5]
    written = [file.read_bytes() for file in connected.output.rglob("*") if file.is_file()]
    assert [text for text in (text.encode(), server.log.read_bytes(), *written) if b"hunter2" in text] == []


@pytest.mark.slow
def test_iceberg_tables_are_written_and_merged_over_a_server(
    connected: Orders, session: Callable[..., Any], said: Callable[[], str]
) -> None:
    connected.dag_id, connected.output = "batch_into_iceberg", Path("lake.orders")
    connected.produce(5)
    first = connected.run()
    connected.broker.produce(connected.topic, [(0, None, b"bad", None)])
    second = connected.run()

    text = said()
    assert (first.state, second.state) == ("success", "success"), text
    of_first, its_merge, of_second, next_merge = re.findall(r"the Spark Connect session ([0-9a-f-]+)", text)
    assert of_first == of_second  # a session is faster after its first batch
    assert len({of_first, its_merge, next_merge}) == 3  # the next batch may be written while one is merged
    names = ("rows", "current", "bad")
    with session() as spark:
        found = {name: spark.table(f"lake.orders.{name}").orderBy("offset").collect() for name in names}
    assert [row.id for row in found["rows"]] == [row.id for row in found["current"]] == [*range(5)]
    assert [row.offset for row in found["bad"]] == [5]
    assert connected.committed == {0: 6}


@pytest.mark.slow
@pytest.mark.parametrize(("dag_id", "task_id"), [("batch_into_delta", "orders.spark"), ("one_into_delta", "orders")])
def test_the_write_of_a_client_that_was_killed_is_stopped_before_the_next_attempt_writes(
    dag_id: str,
    task_id: str,
    connected: Orders,
    wait_ms: Callable[[int], None],
    is_waiting: Callable[[], bool],
    is_idle: Callable[[str], bool],
    tmp_path: Path,
    said: Callable[[], str],
) -> None:
    wait_ms(NEVER_MS)
    connected.dag_id = dag_id
    connected.produce(3)
    dag = load_dag(WIRING, dag_id)
    run_id = run_and_lose_the_worker(WIRING, dag, is_waiting, tmp_path / "log", conf=connected._conf(None, {}))
    assert retry_lost_tasks(dag, run_id) == [task_id]
    wait_ms(0)
    said()
    run = continue_run(dag, run_id)

    text = said()
    assert (run.state, connected.committed) == ("success", {0: 3}), text
    assert "had left running" in text
    assert is_idle(text)
    assert attempts(connected.output / "rows") == [2]
    connected.produce(2)
    assert (connected.run().state, connected.committed) == ("success", {0: 5})
    assert ids(connected.output / "rows") == ids(connected.output / "current") == [*range(5)]
    assert {task.state for task in connected.run().tasks if task.task_id == task_id} == {"skipped"}


@pytest.mark.slow
@pytest.mark.parametrize(("dag_id", "task_id"), [("batch_timed_out", "orders.spark"), ("one_timed_out", "orders")])
def test_a_task_that_airflow_ends_stops_its_write(
    dag_id: str,
    task_id: str,
    connected: Orders,
    wait_ms: Callable[[int], None],
    is_waiting: Callable[[], bool],
    is_idle: Callable[[str], bool],
    said: Callable[[], str],
) -> None:
    wait_ms(NEVER_MS)
    connected.dag_id = dag_id
    connected.produce(3)
    run = connected.run()

    text = said()
    assert run.states(task_id) == ["failed"], text
    assert is_waiting()
    assert is_idle(text)


@pytest.mark.slow
def test_a_pipeline_goes_on_where_the_server_has_ended_its_idle_session(
    connected: Orders, forgetful: SparkConnectServer, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    """A server ends a session after an hour, so a daily pipeline meets that each day."""
    connect(monkeypatch, forgetful)
    of_runs = []
    for _ in range(2):
        connected.produce(2)
        run = connected.run()
        text = said()
        assert run.state == "success", text
        found = re.findall(r"the Spark Connect session ([0-9a-f-]+)", text)
        ended = [re.compile(rf"(?i)clos.*session.*{session_id}") for session_id in found]
        wait_for("the sessions have ended", lambda ended=ended: all(e.search(forgetful.log.read_text()) for e in ended))
        of_runs.append(set(found))
    assert of_runs[0].isdisjoint(of_runs[1])
    assert ids(connected.output / "rows") == ids(connected.output / "current") == [*range(4)]


@pytest.mark.slow
def test_a_session_that_is_over_closes_nothing_of_the_next_one(
    connected: Orders, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    """pyspark closes the threads that all sessions of a process share, when it collects one."""
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

    closed = []
    connected.produce(1)
    gc.disable()
    try:
        assert connected.run().state == "success", said()
        monkeypatch.setattr(ExecutePlanResponseReattachableIterator, "shutdown", lambda: closed.append(True))
        gc.collect()
    finally:
        gc.enable()
    assert closed == []


@pytest.mark.slow
def test_what_only_a_person_can_mend_is_not_tried_again(connected: Orders, said: Callable[[], str]) -> None:
    connected.broker.produce(connected.topic, [(0, None, b"bad", None)] * 2)
    run = connected.run()

    (tries,) = (task.tries for task in run.tasks if task.task_id == "orders.spark")
    assert (run.state, tries) == ("failed", 1)
    assert "2 of 2, and the limit is 1" in said()


@pytest.mark.slow
def test_a_batch_that_is_written_and_whose_records_are_gone_needs_no_server(
    connected: Orders, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    connected.produce(5)
    assert connected.run(reject=True).states("orders.spark") == ["success"]
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_CONNECT_DEFAULT")
    assert connected.run().states("orders.spark") == ["failed"]
    assert "There is no connection 'spark_connect_default'" in said()

    connected.broker.delete_records({(connected.topic, 0): 3})
    assert (connected.run().states("orders.commit"), connected.committed) == (["success"], {0: 5})
