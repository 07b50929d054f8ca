"""What Airflow sends to StatsD has, at a real statsd_exporter, the names and sums that the dashboard asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import pytest

from airflow_kafka_offsets.hooks.airflow_versions import Stats
from airflow_kafka_offsets.hooks.metrics import Counter, Gauge
from testbed.statsd_exporter import StatsdExporter
from testbed.topics import wait_for
from tests.ops.test_names import COUNTERS, GAUGES


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatsdExporter]:
    """Airflow sends there."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    with StatsdExporter() as server:
        set_up = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(server.port), "INFLUXDB_ENABLED": "True"}
        for name, value in set_up.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
        yield server
    monkeypatch.undo()
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)


def test_names_and_sums_are_those_of_the_dashboard(exporter: StatsdExporter) -> None:
    tags = {"pipeline": "g/billing/resolve"}
    for _ in range(2):
        for name in get_args(Gauge):
            Stats.gauge(f"kafka_offsets.{name}", 3, tags=tags)
        for name in get_args(Counter):
            Stats.incr(f"kafka_offsets.{name}", 3, tags=tags)

    def ours() -> dict[str, float]:
        found = {name: value for name, value in exporter.shown().items() if name.startswith("airflow_kafka_offsets_")}
        assert all(re.search(r'{pipeline="g/billing/resolve"}$', name) for name in found)
        return {name.partition("{")[0]: value for name, value in found.items()}

    expected = {**dict.fromkeys(GAUGES, 3), **dict.fromkeys(COUNTERS, 6)}
    wait_for("all have come", lambda: ours() == expected)
