"""A whole Airflow as processes: an asset's watcher and a deferred sensor in its triggerer, windows side by side."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.postgres import Postgres
from testbed.standalone import StandaloneAirflow
from tests.airflow.reader import rows_of
from tests.conftest import unique_name

pytestmark = pytest.mark.slow  # the parts of an Airflow start for minutes
ROOT = Path(__file__).resolve().parents[2]
DAY = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Site:
    airflow: StandaloneAirflow
    broker: KafkaBroker
    topics: dict[str, str]
    output: Path

    def values(self, name: str) -> list[int]:
        return sorted(value for values in rows_of(self.output / name).values() for value in values)


class WithConnections(StandaloneAirflow):
    """Its API server has no variables with connections: it looks into the database."""

    def environment_of(self, part: str) -> dict[str, str]:
        own = super().environment_of(part)
        is_server = part == "api-server"
        return {name: own[name] for name in own if not (is_server and name.startswith("AIRFLOW_CONN_"))}


@pytest.fixture(scope="module")
def site(broker: KafkaBroker, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("scheduler")
    topics = {name: unique_name(name) for name in ("lag", "hours", "awaited")}
    environment = {
        **airflow_home.connections(broker.client_config),
        "PYTHONPATH": str(ROOT),
        "TEST_OUTPUT": str(folder / "output"),
        **{f"TEST_{name.upper()}": topic for name, topic in topics.items()},
    }
    for name in ("lag", "hours"):
        broker.create_topic(topics[name])
    dags = [Path(__file__).parent / "scheduled"]
    with WithConnections(folder / "airflow", dags, postgres.new_database(), environment, triggerer=True) as airflow:
        airflow.add_connection("kafka_default", json.loads(environment["AIRFLOW_CONN_KAFKA_DEFAULT"]))
        airflow.wait_for_dag("hours")
        yield Site(airflow, broker, topics, folder / "output")


def test_a_backlog_starts_one_run_and_the_next_one_another(site: Site) -> None:
    topic, airflow = site.topics["lag"], site.airflow

    def runs_are(*states: str) -> bool:
        return sorted(airflow.runs("lag_driven").values()) == sorted(states)

    site.broker.produce_many(topic, 3)
    airflow.wait_until("one run was started, and has committed", lambda: runs_are("success"))
    site.broker.produce_many(topic, 3, value=lambda n: b"%d" % (n + 3))
    airflow.wait_until("another one", lambda: runs_are("success", "success"))
    assert site.values("lag") == [*range(6)]


def test_the_page_of_the_api_server_finds_the_connection_in_the_database(site: Site) -> None:
    airflow, topic = site.airflow, site.topics["lag"]
    site.broker.produce_many(topic, 1)  # fewer than start a run
    assert airflow.wait_for_run("lag_driven", airflow.trigger("lag_driven")) == "success"
    site.broker.produce_many(topic, 1)
    airflow.wait_until(
        "the page shows the unread record",
        lambda: 'id="figure-unread"><b>1</b>' in airflow.page("/kafka-offsets/dags/lag_driven"),
    )


def test_a_sensor_waits_in_the_triggerer_without_a_worker(site: Site) -> None:
    run = site.airflow.trigger("awaited")
    site.airflow.wait_for_task("awaited", run, "wait", lambda task: task.state == "deferred")
    site.broker.create_topic(site.topics["awaited"])
    assert site.airflow.wait_for_run("awaited", run) == "success"


def test_a_day_of_windows_in_random_order_and_side_by_side_has_each_record_once(site: Site) -> None:
    topic, airflow, hours = site.topics["hours"], site.airflow, [*range(12)]
    random.Random(7).shuffle(hours)
    produced = 0

    def produce(hour: int, count: int) -> None:
        nonlocal produced
        at = round((DAY + timedelta(hours=hour, minutes=30)).timestamp() * 1000)
        site.broker.produce(topic, [(0, None, str(produced + n).encode(), at) for n in range(count)])
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
