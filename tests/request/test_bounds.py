"""Which window a run has, and times that differ by topic."""

import json
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from airflow_kafka_offsets.request.bounds import Partition
from airflow_kafka_offsets.request.modes import AtTimestamp
from tests.builders import NOW
from tests.request import asking
from tests.request.asking import HOUR, INTERVAL

EMPTY = (NOW, NOW)
PARTITION = Partition("2026-11-20T08:00:00", NOW - 2 * HOUR)
BY_TOPIC = {"orders": "2026-11-20T08:00:00Z", "payments": "now-1h"}


def parse(**parameters):
    return asking.parse(**{"topics": "orders,payments", **asking.WINDOW, **parameters})


def problems(**parameters):
    return asking.problems(**{"topics": "orders,payments", **asking.WINDOW, **parameters})


# ── the run's window ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("run", "bounds", "words"),
    [
        pytest.param({"interval": INTERVAL}, INTERVAL, "of the data interval", id="the data interval"),
        pytest.param(
            {"interval": INTERVAL, "partition": Partition("x", 0), "partition_width": "PT1H"}, INTERVAL,
            "of the data interval", id="the data interval before the partition",
        ),
        pytest.param(
            {"partition": PARTITION, "partition_width": "PT1H"}, INTERVAL, "of the partition", id="the partition"
        ),
        pytest.param(
            {"interval": EMPTY, "partition": PARTITION, "partition_width": timedelta(hours=1)}, INTERVAL,
            "of the partition", id="an interval without length is none",
        ),
        pytest.param(
            {"interval": INTERVAL, "startup_timestamp": NOW - 3 * HOUR}, (NOW - 3 * HOUR, INTERVAL[1]), None,
            id="an explicit start before all",
        ),
        pytest.param(
            {"startup_timestamp": "now-2h", "bounded_timestamp": "now-PT1H"}, INTERVAL, "now-2h", id="relative times"
        ),
    ],
)  # fmt: skip
def test_the_window_is_the_first_that_there_is(run, bounds, words):
    request = parse(**run)
    assert request.window
    assert request.window_bounds == bounds
    assert request.startup.written == words


def test_a_partition_of_days_has_the_days_of_its_timetable():
    zone = ZoneInfo("Europe/Berlin")
    sunday = int(datetime(2026, 10, 25, tzinfo=zone).timestamp()) * 1000
    request = parse(partition=Partition("2026-10-25", sunday, zone), partition_width="P1D")
    assert request.window_bounds == (sunday, sunday + 25 * HOUR)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        pytest.param(
            {"interval": EMPTY},
            "the run's data interval has no length: a plain cron string, @hourly and a timedelta "
            "give such intervals, and each window would be empty. Give the time, or schedule the DAG with "
            "CronDataIntervalTimetable or CronTriggerTimetable(..., interval=...)", id="a plain cron string",
        ),
        pytest.param({}, "this run has no data interval (asset-triggered runs, and runs triggered without", id="asset"),
        pytest.param({}, "CronPartitionTimetable and partition_width", id="every timetable is named"),
        pytest.param({"partition": PARTITION}, "give partition_width, such as PT1H", id="a partition without a width"),
        pytest.param(
            {"partition": Partition("north"), "partition_width": "PT1H"},
            "for partition 'north', which Airflow knows no date of", id="a partition that is no time",
        ),
    ],
)  # fmt: skip
def test_a_run_that_has_no_window_is_told_why_and_what_gives_it_one(run, sentence):
    found = problems(**run)
    assert [problem.split(" ")[0] for problem in found] == ["startup_timestamp", "bounded_timestamp"]
    for problem in found:
        assert " is missing and " in problem
        assert sentence in problem


def test_a_partition_that_has_not_ended_is_refused_once_with_the_offset_that_helps():
    [found] = problems(partition=Partition("now", NOW), partition_width="PT1H")
    assert found.startswith("The partition from 2026-11-20T10:00Z to 2026-11-20T11:00Z has not ended")
    assert "run_offset=-1" in found


def test_a_width_that_is_none_is_one_problem():
    [found] = problems(partition=PARTITION, partition_width="an hour")
    assert found.startswith("partition_width is 'an hour'")


# ── times by topic ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("written", [BY_TOPIC, json.dumps(BY_TOPIC)], ids=["a mapping", "the text of a template"])
def test_each_topic_has_its_own_time(written):
    request = parse(startup_timestamp=written, bounded_timestamp="now")
    orders, payments = NOW - 2 * HOUR, NOW - HOUR
    assert request.startup == AtTimestamp(orders, {"orders": orders, "payments": payments})
    assert request.bounded == AtTimestamp(NOW)
    assert request.window
    assert request.window_bounds == (orders, NOW)
    assert request.window_bounds_by_topic == {"orders": (orders, NOW), "payments": (payments, NOW)}
    assert str(request.startup) == "timestamp orders=2026-11-20T08:00Z, payments=now-1h"


def test_an_end_by_topic_is_all_topics_end_at_the_latest():
    request = parse(startup_mode="earliest-offset", bounded_timestamp=BY_TOPIC)
    assert request.bounded.timestamp_ms == NOW - HOUR
    assert (request.bounded.of("orders"), request.bounded.of("payments")) == (NOW - 2 * HOUR, NOW - HOUR)
    assert request.window_bounds_by_topic is None


def test_partitions_name_topics_too():
    request = parse(topics=None, partitions={"orders": [0]}, startup_timestamp={"orders": 1}, bounded_timestamp=NOW)
    assert request.startup.of("orders") == 1


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        pytest.param(
            {"startup_timestamp": {"orders": NOW}}, "startup_timestamp names no time for payments", id="a missing one"
        ),
        pytest.param(
            {"startup_timestamp": {**BY_TOPIC, "clicks": NOW}}, "names clicks, which is not subscribed to", id="strange"
        ),
        pytest.param(
            {"startup_timestamp": {**BY_TOPIC, "orders": "soon"}},
            "startup_timestamp of topic orders is 'soon'; give", id="no time",
        ),
        pytest.param(
            {"startup_timestamp": {**BY_TOPIC, "orders": NOW + 1}}, "10:00:00.001Z of topic orders is in the", id="B2"
        ),
        pytest.param({"startup_timestamp": "{orders: 1}"}, "startup_timestamp is not JSON", id="a broken template"),
        pytest.param(
            {"startup_timestamp": BY_TOPIC, "bounded_timestamp": {"orders": NOW, "payments": "now-2h"}},
            "bounded_timestamp (2026-11-20T08:00Z) is before startup_timestamp (2026-11-20T09:00Z) for topic payments",
            id="the end of one before its start",
        ),
        pytest.param(
            {"topics": None, "topic_pattern": "o.*", "startup_timestamp": {"orders": 1}}, "list the topics", id="re"
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_of_the_topic(parameters, sentence):
    [found] = problems(**{"bounded_timestamp": NOW, **parameters})
    assert sentence in found


def test_seconds_are_suspected_topic_by_topic():
    [warning] = parse(startup_timestamp={"orders": NOW // 1000, "payments": NOW}, bounded_timestamp=NOW).warnings
    assert warning.startswith("startup_timestamp of topic orders 1795168800 is 1970-01-21T18:39:28.800Z: is it in sec")


def test_a_relative_start_is_worded_alike_in_every_run():
    """Else each run would warn that the log records another startup request."""
    first, second = (
        str(asking.parse(now_ms=now, startup_mode="timestamp", startup_timestamp="now-2h").startup)
        for now in (NOW, NOW + HOUR)
    )
    assert first == second == "timestamp now-2h"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        pytest.param({}, "group-offsets", id="a mode alone"),
        pytest.param({"startup_mode": "timestamp", "startup_timestamp": NOW}, "timestamp 2026-11-20T10:00Z", id="time"),
        pytest.param(
            {"startup_mode": "specific-offsets", "specific_offsets": {"orders": {"1": 5, "0": 7}}},
            "specific-offsets orders[0]=7, orders[1]=5", id="offsets, sorted",
        ),
    ],
)  # fmt: skip
def test_what_the_log_records_of_the_startup_request_says_all_of_it(parameters, words):
    assert str(asking.parse(**parameters).startup) == words


@pytest.mark.parametrize("width", ["P9999999999D", "P4000000D", timedelta.max])
def test_a_partition_that_ends_past_the_calendar_has_not_ended(width):
    [found] = problems(partition=PARTITION, partition_width=width)
    assert "has not ended" in found
