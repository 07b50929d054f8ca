"""Schedules, backfills, runs by hand and after an asset, on a real scheduler: what each run read is what was produced.

Records carry their hour as value, so an output shows whether it holds its own window and nothing else.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.stores.objects import safe_name
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from testbed.standalone import StandaloneAirflow
from testbed.topics import wait_for

HOUR = timedelta(hours=1)
DAGS = Path(__file__).resolve().parent / "dags"
RECORDS = 5  # an hour and partition
PARTITIONS = 2
NOW = datetime.now(UTC)
LAST = NOW.replace(minute=0, second=0, microsecond=0)  # the end of the last interval that is over
DAY = LAST - 30 * HOUR  # where the day that is backfilled begins
START = LAST - 4 * HOUR


@dataclass
class Site:
    """An Airflow, and what the tests know of it."""

    airflow: StandaloneAirflow
    broker: KafkaBroker
    output: Path
    store: Path

    def wait_for(self, what: str, is_so: Callable[[], bool], deadline_s: float) -> None:
        def so() -> bool:
            self.airflow.revive()
            return is_so()

        wait_for(what, so, deadline_s)

    def hours(self, count: int, first: datetime) -> str:
        """A topic with records in each of ``count`` hours from ``first``; a value names its hour and is unique."""
        topic = f"hours-{uuid.uuid4().hex[:8]}"
        self.broker.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})
        for number in range(count):
            begin = first + number * HOUR
            self.produce(topic, begin)
        return topic

    def produce(self, topic: str, hour: datetime) -> None:
        step = HOUR / RECORDS
        self.broker.produce(
            topic,
            [
                (partition, None, f"{hour.isoformat()} {partition} {n}", int((hour + n * step).timestamp() * 1000))
                for partition in range(PARTITIONS)
                for n in range(RECORDS)
            ],
        )

    def run(self, dag_id: str, expected: str = "success", **more: Any) -> str:
        run_id = self.airflow.trigger(dag_id, **more)
        assert self.airflow.wait_for_run(dag_id, run_id) == expected, self.airflow.tasks(dag_id, run_id)
        return run_id

    def read(self, dag_id: str, run_id: str) -> list[str]:
        file = self.output / dag_id / f"{safe_name(run_id)}.json"
        return sorted(json.loads(file.read_text())) if file.exists() else []

    def log_of_resolve(self, dag_id: str, run_id: str) -> str:
        return self.airflow.task_log(dag_id, run_id, "resolve").replace('\\"', '"')


def of_hour(hour: datetime) -> list[str]:
    return sorted(f"{hour.isoformat()} {partition} {n}" for partition in range(PARTITIONS) for n in range(RECORDS))


@pytest.fixture(scope="module")
def site(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("standalone")
    output = folder / "output"
    environment = {
        **airflow_home.connections(broker.client_config),
        "BY_TIME_START": START.isoformat(),
        "BY_TIME_OUTPUT": str(output),
    }
    with StandaloneAirflow(folder / "airflow", [DAGS], environment, triggerer=True) as airflow:
        airflow.wait_for_dag("waits_in_the_triggerer")
        yield Site(airflow, broker, output, folder / "airflow" / "kafka_offsets")


@pytest.fixture(autouse=True)
def revived(site: Site) -> None:
    site.airflow.revive()


def test_a_schedule_of_several_intervals_reads_each_record_once_and_late_ones_in_the_next_run(site: Site) -> None:
    """Position and ``bounded_mode="timestamp"``: the recommended pair for a live schedule."""
    dag_id = "live_hourly"
    topic = site.hours(4, START)
    site.produce(topic, LAST)  # of an interval that is not over: no run may read them
    site.airflow.set_variable("by_time_topic", topic)
    site.airflow.pause(dag_id, paused=False)

    def states() -> list[str]:
        return [state for _, state in sorted(site.airflow.runs(dag_id).items())]

    site.wait_for("four runs have succeeded", lambda: states().count("success") >= 4, 240)
    site.airflow.pause(dag_id)
    runs = sorted(site.airflow.runs(dag_id))[:4]
    assert [site.read(dag_id, run_id) for run_id in runs] == [of_hour(START + n * HOUR) for n in range(4)]
    assert committed_offsets(site.broker, f"{topic}-group", topic) == dict.fromkeys(range(PARTITIONS), 4 * RECORDS)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_a_backfill_of_a_day_reads_each_window_once_into_its_own_output(site: Site, backwards: bool) -> None:
    """Three at once; then the same day reprocessed. No group is touched, and no position kept."""
    dag_id = "windows_hourly"
    topic = site.hours(26, DAY - HOUR)  # an hour more on both sides
    end = DAY + 23 * HOUR
    how = {"run_backwards": backwards, "max_active_runs": 3, "reprocess_behavior": "completed" if backwards else "none"}
    backfill = site.airflow.create_backfill(dag_id, DAY, end, dag_run_conf={"topic": topic}, **how)

    def filled() -> dict[str, str]:
        return {run: state for run, state in sorted(site.airflow.runs(dag_id).items()) if run.startswith("backfill__")}

    site.wait_for("24 windows have been read", lambda: list(filled().values()) == ["success"] * 24, 420)
    site.wait_for("the backfill is over", lambda: site.airflow.backfill_is_over(backfill), 60)
    assert [site.read(dag_id, run_id) for run_id in filled()] == [of_hour(DAY + n * HOUR) for n in range(24)]
    assert committed_offsets(site.broker, f"{topic}-group", topic) == {}
    assert not any(site.store.glob(f"checkpoints/*/*{topic}*")), "a window keeps no position"


def test_a_plain_cron_string_is_an_error_that_names_the_timetable(site: Site) -> None:
    topic = site.hours(2, START)
    run_id = site.run("windows_without_intervals", "failed", conf={"topic": topic}, logical_date=START)
    assert "CronDataIntervalTimetable" in site.log_of_resolve("windows_without_intervals", run_id)
    assert site.read("windows_without_intervals", run_id) == []


def test_a_run_by_hand_reads_the_window_that_it_names(site: Site) -> None:
    topic = site.hours(3, START)
    conf = {"topic": topic, "from": (START + HOUR).isoformat(), "until": (START + 2 * HOUR).isoformat()}
    site.airflow.cli("dags", "trigger", "windows_by_hand", "--run-id", topic, "--conf", json.dumps(conf))
    assert site.airflow.wait_for_run("windows_by_hand", topic) == "success"
    assert site.read("windows_by_hand", topic) == of_hour(START + HOUR)


def test_a_run_by_hand_of_an_hourly_dag_without_a_date_says_what_is_missing(site: Site) -> None:
    topic = site.hours(1, START)
    run_id = site.run("windows_hourly", "failed", conf={"topic": topic})
    assert "no data interval" in site.log_of_resolve("windows_hourly", run_id)


def test_a_run_after_an_asset_reads_from_its_position_and_a_window_says_what_is_missing(site: Site) -> None:
    topic = site.hours(1, START)
    site.airflow.set_variable("by_time_topic", topic)
    site.run("produces_the_asset")

    def over(dag_id: str, count: int) -> bool:
        return sum(state in ("success", "failed") for state in site.airflow.runs(dag_id).values()) == count

    site.wait_for("both runs are over", lambda: over("after_an_asset", 1) and over("windows_after_an_asset", 1), 120)
    [(run_id, state)] = site.airflow.runs("after_an_asset").items()
    assert (state, site.read("after_an_asset", run_id)) == ("success", of_hour(START))
    [(run_id, state)] = site.airflow.runs("windows_after_an_asset").items()
    assert state == "failed"
    assert "no data interval" in site.log_of_resolve("windows_after_an_asset", run_id)
    assert committed_offsets(site.broker, f"{topic}-group", topic) == dict.fromkeys(range(PARTITIONS), RECORDS)


def test_a_deferred_sensor_survives_a_restart_of_the_triggerer(site: Site) -> None:
    dag_id, topic = "waits_in_the_triggerer", f"later-{uuid.uuid4().hex[:8]}"
    run_id = site.airflow.trigger(dag_id, {"topic": topic})
    site.airflow.wait_for_task(dag_id, run_id, "wait", lambda task: task.state == "deferred")
    site.airflow.kill_part("triggerer")
    site.airflow.start_part("triggerer")
    site.broker.create_topic(topic, 1)
    assert site.airflow.wait_for_run(dag_id, run_id) == "success"
