"""`kafka-offsets plan --windows`: what a backfill would read, before anybody starts it."""

import csv
import io
import json
from collections.abc import Callable

import pytest

from testbed.broker import KafkaBroker
from tests.cli.conftest import Say

START = 1_795_132_800_000  # 2026-11-20T00:00Z, and 01:00 in Berlin
HOUR = 3_600_000


@pytest.fixture
def asked(broker: KafkaBroker, topic: Callable[..., str]) -> tuple[str, ...]:
    """A topic of two partitions with a record in each hour from 00:00 to 05:00."""
    name = topic(2, {"retention.ms": "-1"})
    broker.produce(name, [(p, None, b"x", START + hour * HOUR) for p in range(2) for hour in range(6)])
    return ("plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name)


def test_the_table_has_a_line_a_window(says: Say, asked: tuple[str, ...]) -> None:
    status, output, messages = says(*asked, "--windows", "hourly", "--from", "2026-11-20", "--to", "2026-11-20T03:00Z")
    assert (status, messages) == (0, "")
    lines = output.splitlines()
    assert lines[0].split() == ["start", "end", "records", "complete", "retention"]
    assert lines[1].split() == ["2026-11-20T00:00Z", "2026-11-20T01:00Z", "2", "yes", "kept"]
    assert lines[-1].startswith("3 windows, up to 6 records of 2 partitions, read_uncommitted, cluster ")


def test_times_and_days_are_of_the_time_zone(says: Say, asked: tuple[str, ...]) -> None:
    words = ("--windows", "PT2H", "--from", "2026-11-20T01:00", "--to", "2026-11-20T06:00")
    _, output, _ = says(*asked, *words, "--timezone", "Europe/Berlin", "--output", "csv")
    rows = list(csv.DictReader(io.StringIO(output)))
    assert [row["start"] for row in rows] == [f"2026-11-20T0{hour}:00+01:00" for hour in (1, 3, 5)]
    assert [row["records"] for row in rows] == ["4", "4", "2"], "the last one is shorter"
    assert rows[0][asked[-1]] == "4"


def test_a_window_that_is_gone_is_status_1_and_says_where_to_start(
    says: Say, asked: tuple[str, ...], broker: KafkaBroker
) -> None:
    name = asked[-1]
    broker.delete_records({(name, 0): 2, (name, 1): 1})
    words = ("--windows", "hourly", "--from", str(START), "--to", str(START + 4 * HOUR), "--output", "json")
    status, output, messages = says(*asked, *words)
    assert status == 1
    found = json.loads(output)
    assert found["version"] == 1
    assert [window["retention"] for window in found["windows"]] == [
        "gone",
        "partly gone",
        "perhaps partly gone",
        "kept",
    ]
    assert found["windows"][1]["gone"] == [f"{name}[0]"]
    assert found["timestamp_types"] == {name: "CreateTime"}
    assert "2 of 4 windows are gone in whole or in part" in messages
    assert "--from 2026-11-20T02:00Z" in messages


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--windows", "hourly"), "--from is missing."),
        (("--from", "now-1d"), "--from goes with --windows only."),
        (("--windows", "monthly", "--from", "now-1d", "--to", "now"), "--windows is 'monthly'; give hourly"),
        (("--windows", "daily", "--from", "now", "--to", "now-1d"), "--to ("),
        (("--windows", "daily", "--from", "now-1d", "--to", "now", "--timezone", "Mars"), "--timezone is 'Mars'"),
        (("--windows", "daily", "--from", "now-1d", "--to", "soon"), "--to is 'soon'"),
        (("--windows", "PT1S", "--from", "now-90d", "--to", "now"), "makes more than 100000 windows"),
        (
            ("--windows", "daily", "--from", "now-1d", "--to", "now", "--startup-mode", "earliest-offset"),
            "--startup-mode cannot be given with --windows: a window's bounds come from --from, --to and --windows",
        ),
        (
            ("--windows", "daily", "--from", "now-1d", "--to", "now", "--max-records", "5", "--pipeline-id", "p"),
            "--pipeline-id, --max-records cannot be given with --windows",
        ),
        (
            ("--windows", "daily", "--from", "now-1d", "--to", "now", "--topic-pattern", "x"),
            "Give exactly one of --topics, --topic-pattern and --partitions",
        ),
        (("--windows", "daily", "--from", "now-1d", "--to", "9" * 30), "--to is '999"),
        (
            ("--windows", "daily", "--from", "now-1d", "--to", "now", "--output", "offsets-csv"),
            "--output offsets-csv is for one plan",
        ),
    ],
)
def test_a_wrong_request_is_said_in_the_options_own_names(
    says: Say, asked: tuple[str, ...], words: tuple[str, ...], sentence: str
) -> None:
    status, output, messages = says(*asked, *words)
    assert (status, output) == (2, "")
    assert sentence in messages


def test_all_problems_of_windows_come_at_once(says: Say, asked: tuple[str, ...]) -> None:
    words = ("--windows", "monthly", "--from", "soon", "--to", "now", "--timezone", "Mars", "--idle-timeout", "inf")
    status, _, messages = says(*asked, *words, "--isolation-level", "some")
    assert status == 2
    for flag in ("--windows", "--from", "--timezone", "--idle-timeout", "--isolation-level"):
        assert f"- {flag} " in messages


def test_a_mode_by_time_says_nothing_else_and_is_no_problem(says: Say, asked: tuple[str, ...]) -> None:
    words = ("--windows", "hourly", "--from", str(START), "--to", str(START + HOUR))
    assert says(*asked, *words, "--startup-mode", "timestamp", "--bounded-mode", "timestamp")[0] == 0
