"""Prometheus itself on the rules and the dashboard of ops/: each rule fires where it should, and not on an old figure.

`promtool` is this machine's, or Debian's. Its clock begins at 0, and a series has one value each minute.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.debian_packages import unpacked
from tests.ops.dashboard import dashboard

RULES = Path(__file__).parents[2] / "ops" / "prometheus-rules.yml"
(GROUP,) = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for rule in GROUP["rules"] if "alert" in rule}


@dataclass(frozen=True)
class Case:
    """
    :ivar at: the minute.
    :ivar series: by name and further tags of the gauge: ``5x3`` is 5 four times, ``_x3`` nothing three times.
    :ivar value: of the alert, as its text shows it; ``None``: there is no alert.
    """

    alert: str
    why: str
    at: int
    series: dict[str, str]
    value: str | None


RUN, LAG_AT = 'lag{by="run"}', 'lag_looked_at_seconds{by="run"}'
MARGIN, MARGIN_AT = "retention_margin_seconds", "retention_looked_at_seconds"
HOURLY = {LAG_AT: "0x59 3600x59 7200x59 10800x59 14400x59"}


def of_processes(*values: int, minutes: int = 60) -> dict[str, str]:
    """A lag every so many minutes, as OpenTelemetry has it: of a process of its own, for some minutes."""
    series = {}
    for number, value in enumerate(values):
        tags, at = f'{{by="run",instance="{number}"}}', number * minutes
        before = f"_x{at} " if at else ""
        series |= {f"lag{tags}": f"{before}{value}x6", f"lag_looked_at_seconds{tags}": f"{before}{at * 60}x6"}
    return series


CASES = [
    Case("KafkaOffsetsLagGrows", "three rises", 239, {RUN: "10x59 20x59 30x59 40x59", **HOURLY}, ""),
    Case("KafkaOffsetsLagGrows", "of a process each", 190, of_processes(10, 20, 30, 40), ""),
    Case("KafkaOffsetsLagGrows", "one left less", 90, of_processes(10, 20, 15, 30, 40, minutes=20), None),
    Case("KafkaOffsetsLagGrows", "one run left less", 299, {RUN: "9x59 10x59 20x59 15x59 40x59", **HOURLY}, None),
    Case("KafkaOffsetsLagGrows", "two rises", 239, {RUN: "10x59 10x59 20x59 30x59", **HOURLY}, None),
    Case(
        "KafkaOffsetsLagGrows",
        "only what a trigger sees rises",
        239,
        {RUN: "10x239", 'lag{by="look"}': "10x59 20x59 30x59 40x59", 'lag_looked_at_seconds{by="look"}': "90000x239"}
        | HOURLY,
        None,
    ),
    Case(
        "KafkaOffsetsLagGrows",
        "a trigger sends its last lag beside",
        239,
        {RUN: "10x59 20x59 30x59 40x59", 'lag{by="look"}': "900x239", 'lag_looked_at_seconds{by="look"}': "90000x239"}
        | HOURLY,
        "",
    ),
    Case(
        "KafkaOffsetsRetentionNear",
        "25 hours, two hours ago",
        120,
        {MARGIN: "90000x120", MARGIN_AT: "0x120", LAG_AT: "0x120"},
        "23h 0m 0s",
    ),
    Case(
        "KafkaOffsetsRetentionNear",
        "known for minutes",
        120,
        {MARGIN: "90000x4", MARGIN_AT: "0x4", LAG_AT: "0x4"},
        "23h 0m 0s",
    ),
    Case(
        "KafkaOffsetsRetentionNear",
        "27 hours, two hours ago",
        120,
        {MARGIN: "97200x120", MARGIN_AT: "0x120", LAG_AT: "0x120"},
        None,
    ),
    Case(
        "KafkaOffsetsRetentionNear",
        "of a look before the newest",
        120,
        {MARGIN: "90000x120", MARGIN_AT: "0x120", LAG_AT: "0x59 3600x60"},
        None,
    ),
    Case(
        "KafkaOffsetsRetentionNear",
        "of a process whose margin is an older one",
        120,
        {
            'retention_margin_seconds{instance="a"}': "90000x120",
            'retention_looked_at_seconds{instance="a"}': "0x120",
            'retention_margin_seconds{instance="b"}': "_x59 970000x61",
            'retention_looked_at_seconds{instance="b"}': "_x59 3600x61",
            'lag_looked_at_seconds{by="run",instance="a"}': "0x120",
            'lag_looked_at_seconds{by="run",instance="b"}': "_x59 3600x61",
        },
        None,
    ),
    *(
        case
        for alert, gauge in (
            ("KafkaOffsetsRecordsLost", "lost_at_seconds"),
            ("KafkaOffsetsRecordsSetAside", "set_aside_at_seconds"),
        )
        for case in (
            Case(alert, "half an hour ago", 60, {gauge: "_x29 1800x31"}, ""),
            Case(alert, "known for minutes", 60, {gauge: "_x29 1800x4"}, ""),
            Case(alert, "an hour and a half ago", 120, {gauge: "_x29 1800x91"}, None),
            Case(alert, "never", 60, {"committed_at_seconds": "0x60"}, None),
        )
    ),
    Case("KafkaOffsetsNoCommit", "two hours and a half ago", 180, {"committed_at_seconds": "1800x180"}, "2h 30m 0s"),
    Case("KafkaOffsetsNoCommit", "known for minutes", 180, {"committed_at_seconds": "1800x4"}, "2h 30m 0s"),
    Case("KafkaOffsetsNoCommit", "renewed", 180, {"committed_at_seconds": "1800x59 7200x120"}, None),
    Case(
        "KafkaOffsetsNoCommit",
        "an older task's figure beside",
        180,
        {'committed_at_seconds{instance="a"}': "1800x180", 'committed_at_seconds{instance="b"}': "7200x180"},
        None,
    ),
]


@pytest.fixture(scope="session")
def promtool() -> str:
    return shutil.which("promtool") or str(unpacked("prometheus") / "usr/bin/promtool")


def with_words(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def says(*command: str) -> str:
    """:raises AssertionError: it has found a fault."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_each_rule_has_a_case_where_it_fires_and_one_where_it_does_not() -> None:
    tried = {(case.alert, case.value is not None) for case in CASES}
    assert tried == {(alert, fires) for alert in ALERTS for fires in (True, False)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.why}")
def test_a_rule_fires_and_only_then(case: Case, promtool: str, tmp_path: Path) -> None:
    rule, pipeline = ALERTS[case.alert], "g/billing/resolve"
    expected: list[dict[str, Any]] = []
    if case.value is not None:
        words = {"{{ $labels.pipeline }}": pipeline, "{{ $value | humanizeDuration }}": case.value}
        texts = {name: with_words(text, words) for name, text in rule["annotations"].items()}
        expected = [{"exp_labels": {**rule["labels"], "pipeline": pipeline}, "exp_annotations": texts}]
    series = []
    for written, values in case.series.items():
        name, _, tags = written.rstrip("}").partition("{")
        more = f",{tags}" if tags else ""
        series.append({"series": f'airflow_kafka_offsets_{name}{{pipeline="{pipeline}"{more}}}', "values": values})
    asked = {"eval_time": f"{case.at}m", "alertname": case.alert, "exp_alerts": expected}
    of_case = {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [of_case]}))
    assert "SUCCESS" in says(promtool, "test", "rules", str(file))


def test_prometheus_reads_the_rules_and_each_expression_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    says(promtool, "check", "rules", str(RULES))
    words = {"$pipeline": ".*", "$__rate_interval": "5m", "$__range": "1d"}
    targets = [target for panel in dashboard()["panels"] for target in panel["targets"]]
    expressions = [with_words(target["expr"], words) for target in targets]
    assert not [expr for expr in expressions if "$" in expr]
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(expressions)]
    file = tmp_path / "dashboard.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in says(promtool, "check", "rules", str(file))
