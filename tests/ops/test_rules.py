"""Prometheus itself on ops/: each rule fires where it should and not on an old figure; the dashboard's queries parse.

`promtool` is this machine's, or Debian's. Its clock begins at 0, and a series has one value each minute: ``5x3`` is 5
four times, ``_x3`` nothing three times.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from airflow_kafka_offsets.hooks.metrics import Counter, Gauge
from testbed.debian_packages import unpacked

OPS = Path(__file__).parents[2] / "ops"
RULES, DASHBOARD = OPS / "prometheus-rules.yml", OPS / "grafana-dashboard.json"
(GROUP,) = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for rule in GROUP["rules"] if "alert" in rule}
GAUGES = {f"airflow_kafka_offsets_{name}" for name in get_args(Gauge)}
COUNTERS = {f"airflow_kafka_offsets_{name}" for name in get_args(Counter)}
TARGETS = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
PIPELINE = "orders/0-of-4"

HOURLY = {"lag_looked_at_seconds": "0x59 3600x59 7200x59 10800x59 14400x59"}


def of_processes(*lags: int) -> dict[str, str]:
    """Hourly lags as OpenTelemetry has them: each of a process of its own, for some minutes."""
    series = {}
    for number, lag in enumerate(lags):
        before = f"_x{number * 60} " if number else ""
        series[f'lag{{instance="{number}"}}'] = f"{before}{lag}x6"
        series[f'lag_looked_at_seconds{{instance="{number}"}}'] = f"{before}{number * 3600}x6"
    return series


# alert, why, minute, series, value in its text (None: there is no alert)
CASES: list[tuple[str, str, int, dict[str, str], str | None]] = [
    ("KafkaOffsetsLagGrows", "three rises", 239, {"lag": "10x59 20x59 30x59 40x59", **HOURLY}, ""),
    ("KafkaOffsetsLagGrows", "of a process each", 190, of_processes(10, 20, 30, 40), ""),
    ("KafkaOffsetsLagGrows", "a process before left more", 190, of_processes(10, 90, 30, 40), None),
    ("KafkaOffsetsLagGrows", "one run left less", 299, {"lag": "9x59 10x59 20x59 15x59 40x59", **HOURLY}, None),
    ("KafkaOffsetsLagGrows", "two rises", 239, {"lag": "10x59 10x59 20x59 30x59", **HOURLY}, None),
    ("KafkaOffsetsNoRun", "two hours and a half", 180, {"committed_at_seconds": "1800x180"}, "2h 30m 0s"),
    ("KafkaOffsetsNoRun", "known for minutes", 180, {"committed_at_seconds": "1800x4"}, "2h 30m 0s"),
    ("KafkaOffsetsNoRun", "a commit since", 180, {"committed_at_seconds": "1800x59 7200x120"}, None),
    ("KafkaOffsetsNoRun", "nothing to read since", 180,
     {"committed_at_seconds": "1800x180", "lag_looked_at_seconds": "1800x59 7200x120"}, None),
    ("KafkaOffsetsNoRun", "an older process beside", 180,
     {'committed_at_seconds{instance="a"}': "1800x180", 'committed_at_seconds{instance="b"}': "7200x180"}, None),
    *(
        (alert, *case)
        for alert, gauge in (
            ("KafkaOffsetsRecordsLost", "lost_at_seconds"),
            ("KafkaOffsetsBadRecords", "bad_at_seconds"),
        )
        for case in (
            ("half an hour ago", 60, {gauge: "_x29 1800x31"}, ""),
            ("known for minutes", 60, {gauge: "_x29 1800x4"}, ""),
            ("an hour and a half ago", 120, {gauge: "_x29 1800x91"}, None),
            ("never", 60, {"committed_at_seconds": "0x60"}, None),
        )
    ),
]  # fmt: skip


@pytest.fixture(scope="session")
def promtool() -> str:
    return shutil.which("promtool") or str(unpacked("prometheus") / "usr/bin/promtool")


def says(*command: str) -> str:
    """:raises AssertionError: it has found a fault."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_rules_ask_for_gauges_alone_and_the_dashboard_shows_each_figure_by_both_names() -> None:
    def named(text: str) -> set[str]:
        return set(re.findall(r"airflow_kafka_offsets_\w+", text))

    in_rules = RULES.read_text().replace("(committed|lag_looked)", "committed")
    assert named(in_rules) < GAUGES, "a counter has another name by OpenTelemetry, and other sums"
    shown = named(" ".join(TARGETS)) | named(in_rules)
    assert shown == GAUGES | COUNTERS | {f"{name}_total" for name in COUNTERS}


def test_each_alert_has_a_case_where_it_fires_and_one_where_it_does_not() -> None:
    tried = {(alert, value is not None) for alert, _, _, _, value in CASES}
    assert tried == {(alert, fires) for alert in ALERTS for fires in (True, False)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alert", "why", "at", "series", "value"), CASES, ids=[f"{case[0]}: {case[1]}" for case in CASES]
)
def test_an_alert_fires_and_only_then(
    alert: str, why: str, at: int, series: dict[str, str], value: str | None, promtool: str, tmp_path: Path
) -> None:
    rule, expected = ALERTS[alert], list[dict[str, Any]]()
    if value is not None:
        texts = {
            name: text.replace("{{ $labels.pipeline }}", PIPELINE).replace("{{ $value | humanizeDuration }}", value)
            for name, text in rule["annotations"].items()
        }
        expected = [{"exp_labels": {**rule["labels"], "pipeline": PIPELINE}, "exp_annotations": texts}]
    written = []
    for name, values in series.items():
        gauge, _, tags = name.rstrip("}").partition("{")
        labels = ",".join(filter(None, [f'pipeline="{PIPELINE}"', tags]))
        written.append({"series": f"airflow_kafka_offsets_{gauge}{{{labels}}}", "values": values})
    asked = {"eval_time": f"{at}m", "alertname": alert, "exp_alerts": expected}
    case = {"interval": "1m", "input_series": written, "alert_rule_test": [asked]}
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [case]}))
    assert "SUCCESS" in says(promtool, "test", "rules", str(file))


@pytest.mark.slow
def test_prometheus_reads_the_rules_and_each_query_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    says(promtool, "check", "rules", str(RULES))
    queries = [expr.replace("$pipeline", ".*").replace("$__range", "1d") for expr in TARGETS]
    assert not [query for query in queries if "$" in query]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "dashboard.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in says(promtool, "check", "rules", str(file))
