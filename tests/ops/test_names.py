"""What the rules and the dashboard of ops/ ask for is what the package sends, by its name in Prometheus."""

import re
from pathlib import Path
from typing import get_args

from airflow_kafka_offsets.hooks.metrics import Counter, Gauge
from tests.ops import dashboard

OPS = Path(__file__).parents[2] / "ops"
GAUGES = {f"airflow_kafka_offsets_{name}" for name in get_args(Gauge)}
COUNTERS = {f"airflow_kafka_offsets_{name}" for name in get_args(Counter)}


def named_in(text: str) -> set[str]:
    return set(re.findall(r"airflow_kafka_offsets_\w+", text))


def test_an_alarm_needs_gauges_alone() -> None:
    rules = (OPS / "prometheus-rules.yml").read_text()
    assert named_in(rules) < GAUGES, "a counter has another name by OpenTelemetry, and other sums"


def test_the_dashboard_shows_each_figure_and_counters_by_both_names() -> None:
    assert named_in(dashboard.text()) == GAUGES | COUNTERS | {f"{name}_total" for name in COUNTERS}


def test_the_file_is_made_of_the_table() -> None:
    assert dashboard.FILE.read_text() == dashboard.text(), "python -m tests.ops.dashboard writes it anew"
