"""A whole Airflow as processes: what its scheduler and its triggerer do to runs, and what people do to those."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from airflow import __version__

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import values_of
from testbed.postgres import Postgres
from testbed.standalone import StandaloneAirflow
from tests.airflow.fixtures import PROJECT_DAGS
from tests.airflow.reader import rows_of, submitting
from tests.conftest import unique_name

pytestmark = pytest.mark.slow  # the parts of an Airflow start for minutes
ROOT = Path(__file__).resolve().parents[2]
DAY = datetime(2026, 3, 1, tzinfo=UTC)
HAS_PARTITIONS, WRITTEN = __version__ >= "3.3", (14, 15)


def to_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


@dataclass
class Site:
    """:ivar dags: the folder of its DAGs, a copy. A topic is named after its DAG."""

    airflow: StandaloneAirflow
    broker: KafkaBroker
    prefix: str
    dags: Path
    output: Path

    def produce(self, name: str, *values: int, at: datetime | None = None) -> None:
        at_ms = None if at is None else to_ms(at)
        self.broker.produce(f"{self.prefix}-{name}", [(0, None, b"%d" % value, at_ms) for value in values])

    def values(self, name: str) -> list[int]:
        return sorted(value for values in rows_of(self.output / name).values() for value in values)

    def job(self, name: str, number: int) -> int | None:
        """The process of a pipeline's job with that number, from 1; ``None``: it has not started."""
        log = self.output / f"{name}.jobs"
        started = log.read_text().splitlines() if log.exists() else []
        return int(started[number - 1].split()[1]) if len(started) >= number else None

    def run_and_hold(self, name: str, number: int) -> str:
        """Start a run whose job waits for :meth:`release`."""
        (self.output / f"{name}.hold").touch()
        run = self.airflow.trigger(name)
        self.airflow.wait_until("its job has started", lambda: self.job(name, number) is not None)
        return run

    def release(self, name: str) -> None:
        (self.output / f"{name}.hold").unlink()

    def run(self, name: str, conf: Mapping[str, object] | None = None) -> str:
        return self.airflow.wait_for_run(name, self.airflow.trigger(name, conf))


class WithConnections(StandaloneAirflow):
    """Its API server has no variables with connections: it looks into the database."""

    def environment_of(self, part: str) -> dict[str, str]:
        own = super().environment_of(part)
        is_server = part == "api-server"
        return {name: own[name] for name in own if not (is_server and name.startswith("AIRFLOW_CONN_"))}


@pytest.fixture(scope="module")
def site(
    broker: KafkaBroker,
    postgres: Postgres,
    spark_environment: Mapping[str, str],
    spark_settings: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    folder, prefix = tmp_path_factory.mktemp("scheduler"), unique_name("scheduler")
    dags, output = folder / "scheduled", folder / "output"
    shutil.copytree(Path(__file__).parent / "scheduled", dags)
    if HAS_PARTITIONS:
        shutil.copy(PROJECT_DAGS / "hours_as_partitions.py", dags)
    output.mkdir()
    hours = {"topics": f"{prefix}-by_hour", "hours_output": str(output / "by_hour")}
    environment = {
        **airflow_home.connections(broker.client_config),
        **airflow_home.variables({f"kafka_offsets_{name}": value for name, value in hours.items()}),
        **spark_environment,
        **airflow_home.spark_defaults(folder / "spark", spark_settings),
        "TEST_OUTPUT": str(output),
        "TEST_PREFIX": prefix,
    }
    environment |= submitting(folder / "bin", "spark3-submit", environment["PATH"])
    for name in ("lag", "hours", "checked", "by_hour", "marked", "at_once", "changed", "timed_out"):
        broker.create_topic(f"{prefix}-{name}")
    # Before Airflow plans the hour that has ended last: windows before it are fitted to it.
    broker.produce(
        hours["topics"], [(0, None, b"%d" % h, to_ms(DAY + timedelta(hours=h, minutes=30))) for h in WRITTEN]
    )
    with WithConnections(folder / "airflow", [dags], postgres.new_database(), environment, triggerer=True) as airflow:
        airflow.add_connection("kafka_default", json.loads(environment["AIRFLOW_CONN_KAFKA_DEFAULT"]))
        for name in ("hours", "changed"):
            airflow.wait_for_dag(name)
        yield Site(airflow, broker, prefix, dags, output)


def test_a_backlog_starts_one_run_and_the_next_one_another(site: Site) -> None:
    airflow = site.airflow

    def runs_are(*states: str) -> bool:
        return sorted(airflow.runs("lag_driven").values()) == sorted(states)

    site.produce("lag", *range(3))
    airflow.wait_until("one run was started, and has committed", lambda: runs_are("success"))
    site.produce("lag", *range(3, 6))
    airflow.wait_until("another one", lambda: runs_are("success", "success"))
    assert site.values("lag") == [*range(6)]


def test_the_page_of_the_api_server_finds_the_connection_in_the_database(site: Site) -> None:
    airflow = site.airflow
    site.produce("lag", 6)  # fewer than start a run
    assert airflow.wait_for_run("lag_driven", airflow.trigger("lag_driven")) == "success"
    site.produce("lag", 7)
    airflow.wait_until(
        "the page shows the unread record",
        lambda: 'id="figure-unread"><b>1</b>' in airflow.page("/kafka-offsets/dags/lag_driven"),
    )


def test_a_sensor_waits_in_the_triggerer_without_a_worker(site: Site) -> None:
    run = site.airflow.trigger("awaited")
    site.airflow.wait_for_task("awaited", run, "wait", lambda task: task.state == "deferred")
    site.broker.create_topic(f"{site.prefix}-awaited")
    assert site.airflow.wait_for_run("awaited", run) == "success"


def test_a_day_of_windows_in_random_order_and_side_by_side_has_each_record_once(site: Site) -> None:
    airflow, hours = site.airflow, [*range(12)]
    random.Random(7).shuffle(hours)
    produced = 0

    def produce(hour: int, count: int) -> None:
        nonlocal produced
        values = range(produced, produced + count)
        site.produce("hours", *values, at=DAY + timedelta(hours=hour, minutes=30))
        produced += count

    for hour in range(12):
        produce(hour, 5)
    runs = []
    for hour in [*hours, 12]:  # the last window takes what has come late
        if hour == 12:
            assert {airflow.wait_for_run("hours", run) for run in runs} == {"success"}
        begin = DAY + timedelta(hours=hour)
        runs.append(airflow.trigger("hours", interval=(begin, begin + timedelta(hours=1))))
        if hour < 12:
            produce(hour // 2, 2)
    assert airflow.wait_for_run("hours", runs[-1]) == "success"
    assert site.values("hours") == [*range(produced)]


def test_a_check_that_is_skipped_commits_nothing_and_a_run_with_nothing_to_read_is_not_one(site: Site) -> None:
    airflow = site.airflow
    site.produce("checked", 0, 1)
    skipped = airflow.trigger("checked", {"is_skipped": True})
    assert airflow.wait_for_run("checked", skipped) == "failed"
    states = {task.task_id: task.state for task in airflow.tasks("checked", skipped)}
    assert (states["check"], states["checked.commit"]) == ("skipped", "failed")

    assert site.run("checked") == "success"  # the same batch
    assert [*rows_of(site.output / "checked").values()] == [[0, 1]]
    nothing = airflow.trigger("checked")
    assert airflow.wait_for_run("checked", nothing) == "success"
    assert {task.state for task in airflow.tasks("checked", nothing) if task.task_id != "checked.wait"} == {"skipped"}


def test_a_task_marked_by_hand_ends_its_job_and_the_next_run_does_its_batch(site: Site) -> None:
    airflow, states = site.airflow, ("success", "failed")
    for number, state in enumerate(states):
        site.produce("marked", number)
        run = site.run_and_hold("marked", 2 * number + 1)
        job = site.job("marked", 2 * number + 1)
        airflow.mark("marked", run, "orders", state)
        assert airflow.wait_for_run("marked", run) == state
        airflow.wait_until("its job has ended", lambda job=job: not psutil.pid_exists(job))
        assert site.values("marked") == [*range(number)]
        site.release("marked")
        assert site.run("marked") == "success"
    assert [*rows_of(site.output / "marked").values()] == [[0], [1]]


def test_of_two_runs_at_once_the_second_one_waits_and_reads_what_is_new(site: Site) -> None:
    airflow = site.airflow
    site.produce("at_once", 0, 1)
    first = site.run_and_hold("at_once", 1)
    assert "Batch 1 of" in airflow.page(airflow.links("at_once", first, "orders")["Kafka offsets"])
    site.produce("at_once", 2)
    second = airflow.trigger("at_once")
    airflow.wait_for_task("at_once", second, "orders", lambda task: task.state == "up_for_retry")
    site.release("at_once")
    assert {airflow.wait_for_run("at_once", run) for run in (first, second)} == {"success"}
    assert airflow.task("at_once", first, "orders").tries == 1
    assert [*rows_of(site.output / "at_once").values()] == [[0, 1], [2]]


def test_a_clear_writes_the_batch_again_although_the_dag_has_other_retries_since(site: Site) -> None:
    airflow = site.airflow
    site.produce("changed", 0, 1)
    run = airflow.trigger("changed", {"first_try_fails": True})
    assert airflow.wait_for_run("changed", run) == "success"
    assert (airflow.task("changed", run, "orders").tries, site.job("changed", 2)) == (2, None)

    file = site.dags / "one_task.py"
    file.write_text(file.read_text().replace("RETRIES = 1", "RETRIES = 4"))
    airflow.wait_until("the change is parsed", lambda: airflow.retries("changed", "orders") == 4)
    site.produce("changed", 2)
    airflow.clear_run("changed", run)
    airflow.wait_for_task("changed", run, "orders", lambda task: (task.state, task.tries) == ("success", 3))
    assert site.job("changed", 2) is not None
    assert [*rows_of(site.output / "changed").values()] == [[0, 1]]
    assert site.run("changed") == "success"
    assert [*rows_of(site.output / "changed").values()] == [[0, 1], [2]]


def test_the_wait_for_a_window_times_out_while_it_is_deferred_and_a_clear_waits_again(site: Site) -> None:
    airflow, end = site.airflow, datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    site.produce("timed_out", 0, 1, at=end - timedelta(minutes=30))
    run = airflow.trigger("timed_out", interval=(end - timedelta(hours=1), end))
    airflow.wait_for_task("timed_out", run, "orders", lambda task: task.state == "deferred")
    assert airflow.wait_for_run("timed_out", run) == "failed"
    assert airflow.task("timed_out", run, "orders").tries == 1  # Airflow retries no time-out
    assert site.job("timed_out", 1) is None

    site.produce("timed_out", 2, at=end)
    airflow.clear_run("timed_out", run)
    assert airflow.wait_for_run("timed_out", run) == "success"
    assert site.values("timed_out") == [0, 1]


def test_a_dag_downstream_runs_once_for_the_hour_that_is_written_whichever_is_first(site: Site) -> None:
    """`dags/hours_as_partitions.py`, as it is, with a real Spark."""
    airflow, table = site.airflow, site.output / "by_hour"

    def reported() -> list[str]:
        runs = airflow.runs("kafka_hour_is_complete")
        return [airflow.xcom("kafka_hour_is_complete", run, "report") for run in runs]

    for hour, written in zip(reversed(WRITTEN), ([15], [14, 15]), strict=True):
        begin = DAY + timedelta(hours=hour)
        assert f"{begin:%FT%T}" not in reported()
        run = airflow.trigger("kafka_hours_as_partitions", interval=(begin, begin + timedelta(hours=1)))
        airflow.wait_until("its run has started", lambda begin=begin: f"{begin:%FT%T}" in reported())
        assert values_of(table) == written
        assert airflow.wait_for_run("kafka_hours_as_partitions", run) == "success"
    assert [sum(key.startswith(f"2026-03-01T{hour}") for key in reported()) for hour in WRITTEN] == [1, 1]
