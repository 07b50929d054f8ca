"""Which window a run of a real Airflow has: by its timetable, by how it was triggered, by its partition."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets.hooks.run_context import run_context_of
from testbed.broker import KafkaBroker
from testbed.dag_runs import RunResult, load_dag, run_dag, run_partition
from tests.airflow.fixtures import TEST_DAGS, plan_in_store

WIRING = TEST_DAGS / "wiring.py"
HOUR = 3_600_000
FOR_EVER = {"retention.ms": "-1"}  # records of the past are not for retention to take
TEN = datetime(2026, 1, 20, 10, tzinfo=UTC)
TEN_MS = int(TEN.timestamp()) * 1000
Plans = Callable[[str, RunResult], Any]


@pytest.fixture
def hourly(broker: KafkaBroker, topic: Callable[..., str]) -> str:
    """A record at each half hour from 05:30 to 14:30, offsets 0 to 9."""
    name = topic(1, FOR_EVER)
    broker.produce(name, [(0, None, b"x", TEN_MS + (hour - 5) * HOUR + HOUR // 2) for hour in range(10)])
    return name


@pytest.fixture
def plan_of(xcom: Callable[..., Any]) -> Plans:
    return lambda dag_id, result: plan_in_store(xcom(dag_id, result, "resolve", "plan"))


@pytest.mark.parametrize("dag_id", ["windows", "windows_of_a_trigger"])
def test_a_timetable_with_intervals_gives_a_manual_run_its_window(
    airflow: Any, plan_of: Plans, hourly: str, group: str, dag_id: str
) -> None:
    """A manual run with a logical date: the last complete interval at that moment."""
    result = run_dag(load_dag(WIRING, dag_id), conf={"topic": hourly, "group": group}, logical_date=TEN)
    plan = plan_of(dag_id, result)
    assert plan["window_bounds"] == [TEN_MS - HOUR, TEN_MS]
    assert (plan["topics"][hourly]["start_offset"], plan["topics"][hourly]["end_offset"]) == ([4], [5])
    assert plan["topics"][hourly]["timestamp_type"] == "CreateTime"


def test_a_run_without_a_schedule_is_refused_with_the_timetables_that_have_intervals(
    airflow: Any, hourly: str, group: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its intervals have no length: every window would be empty, and every run green."""
    result = run_dag(
        load_dag(WIRING, "windows_without_a_schedule"), conf={"topic": hourly, "group": group}, logical_date=TEN
    )
    assert result.states("resolve") == ["failed"]
    said = capfd.readouterr()
    text = said.out + said.err + caplog.text
    assert "has no length" in text
    assert "CronDataIntervalTimetable" in text


def test_a_run_without_a_logical_date_is_refused_with_the_way_to_give_it_a_window(
    airflow: Any, hourly: str, group: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """As an asset triggers it, or the API without a date."""
    dag = load_dag(WIRING, "windows_of_assets")
    result = dag.test(run_conf={"topic": hourly, "group": group}, logical_date=None)
    assert [str(ti.state) for ti in result.get_task_instances()] == ["failed"]
    said = capfd.readouterr()
    assert "this run has no data interval" in said.out + said.err + caplog.text


def test_a_run_without_an_interval_takes_its_times_from_the_conf(
    airflow: Any, plan_of: Plans, hourly: str, group: str
) -> None:
    """Templates arrive as text, a mapping by topic as the text of its JSON."""
    conf = {"topic": hourly, "group": group, "start": "2026-01-20T06:00Z", "end": {hourly: TEN_MS}}
    dag = load_dag(WIRING, "windows_of_the_conf")
    result = run_dag(dag, conf=conf)
    plan = plan_of("windows_of_the_conf", result)
    assert plan["window_bounds_by_topic"] == {hourly: [TEN_MS - 4 * HOUR, TEN_MS]}
    assert (plan["topics"][hourly]["start_offset"], plan["topics"][hourly]["end_offset"]) == ([1], [5])


def test_a_partitioned_run_reads_its_partition_a_day_of_its_own_zone(
    airflow: Any, plan_of: Plans, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    """The 29th of March 2026 has 23 hours in Berlin: from 23:00Z of the 28th to 22:00Z."""
    name = topic(1, FOR_EVER)
    first = int(datetime(2026, 3, 28, 22, 30, tzinfo=UTC).timestamp()) * 1000
    broker.produce(name, [(0, None, b"x", first + hour * HOUR) for hour in range(26)])
    result = run_partition(
        load_dag(WIRING, "windows_of_partitions"), "2026-03-29T00:00:00", conf={"topic": name, "group": group}
    )
    plan = plan_of("windows_of_partitions", result)
    assert plan["window_bounds"] == [first + HOUR // 2, first + HOUR // 2 + 23 * HOUR]
    assert (plan["topics"][name]["start_offset"], plan["topics"][name]["end_offset"]) == ([1], [24])


def test_the_context_of_a_run_says_which_times_it_has() -> None:
    """What is absent from a context is no key of it."""
    assert (run_context_of({}).interval, run_context_of({}).partition, run_context_of({}).run_type) == (
        None,
        None,
        "manual",
    )
    assert run_context_of({"partition_key": None, "partition_date": None}).partition is None
    assert run_context_of({"data_interval_start": TEN, "data_interval_end": TEN}).interval == (TEN_MS, TEN_MS)
    dag = SimpleNamespace(timetable=SimpleNamespace(timezone="Europe/Berlin"))
    found = run_context_of({"partition_key": "2026-01-20", "partition_date": TEN, "dag": dag}).partition
    assert found is not None
    assert (found.key, found.date_ms, str(found.zone)) == ("2026-01-20", TEN_MS, "Europe/Berlin")
    by_key = run_context_of({"partition_key": "north", "partition_date": None}).partition
    assert by_key is not None
    assert by_key.date_ms is None
