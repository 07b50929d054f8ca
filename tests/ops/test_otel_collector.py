"""What Airflow sends by OpenTelemetry has, at a real collector, the names that the rules and the dashboard ask for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from airflow_kafka_offsets.hooks.metrics import Counter, Gauge
from testbed.otel_collector import OtelCollector
from testbed.topics import wait_for
from tests.ops.test_names import COUNTERS, GAUGES

# As a task's process: it sends, and what is left when it ends.
_SEND = f"""
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
from airflow_kafka_offsets.hooks.airflow_versions import Stats
for _ in range(2):
    for name in {get_args(Gauge)!r}:
        Stats.gauge("kafka_offsets." + name, 3, tags={{"pipeline": "g/billing/resolve"}})
    for name in {get_args(Counter)!r}:
        Stats.incr("kafka_offsets." + name, 3, tags={{"pipeline": "g/billing/resolve"}})
from opentelemetry import metrics
metrics.get_meter_provider().shutdown()
"""


def test_names_are_those_of_the_dashboard_and_each_process_has_a_series_of_its_own(tmp_path: Path) -> None:
    with OtelCollector() as collector:
        where = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(collector.port), "SSL_ACTIVE": "False"}
        environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
        environment |= {f"AIRFLOW__METRICS__OTEL_{name}": value for name, value in where.items()}
        for _ in range(2):
            subprocess.run([sys.executable, "-c", _SEND], env=environment, check=True, capture_output=True, text=True)

        def ours() -> dict[str, dict[str, float]]:
            """By name, the value that each process has sent."""
            found: dict[str, dict[str, float]] = {}
            for series, value in collector.shown().items():
                name, _, tags = series.partition("{")
                if name.startswith("airflow_kafka_offsets_"):
                    labels = dict(re.findall(r'(\w+)="([^"]*)"', tags))
                    assert labels["pipeline"] == "g/billing/resolve"
                    found.setdefault(name, {})[labels["instance"]] = value
            return found

        expected = {**dict.fromkeys(GAUGES, [3.0] * 2), **{f"{name}_total": [6.0] * 2 for name in COUNTERS}}
        wait_for("all have come", lambda: {name: list(values.values()) for name, values in ours().items()} == expected)
        assert len({frozenset(values) for values in ours().values()}) == 1, "of the same two processes"
