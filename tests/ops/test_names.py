"""What Airflow's own metrics send, and the names that Prometheus then has, which rules and dashboard ask for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import get_args

import pytest

from airflow_kafka_offsets.hooks.metrics import Counter, Gauge
from testbed.otel_collector import OtelCollector
from testbed.statsd_exporter import StatsdExporter
from testbed.topics import wait_for
from tests.ops.test_rules import COUNTERS, GAUGES

# As a task's process, which has Airflow's settings.
_SEND = f"""
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
from airflow_kafka_offsets.hooks.metrics import _counts, _gauges
_gauges("orders/0-of-4", dict.fromkeys({get_args(Gauge)!r}, 3))
_counts("orders/0-of-4", dict.fromkeys({get_args(Counter)!r}, 2))
"""


def send(settings: Mapping[str, object]) -> None:
    """Each figure once, from a process whose ``[metrics]`` has these settings."""
    environment = {**os.environ, **{f"AIRFLOW__METRICS__{name}": str(value) for name, value in settings.items()}}
    subprocess.run([sys.executable, "-c", _SEND], env=environment, check=True, capture_output=True, text=True)


def statsd(port: int) -> dict[str, object]:
    where = {"ON": True, "HOST": "127.0.0.1", "PORT": port, "INFLUXDB_ENABLED": True}
    return {f"STATSD_{name}": value for name, value in where.items()}


def otel(port: int) -> dict[str, object]:
    return {"OTEL_ON": True, "OTEL_HOST": "127.0.0.1", "OTEL_PORT": port}


@pytest.mark.starts_processes
def test_airflow_sends_each_figure_with_its_pipeline() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(60)
        send(statsd(server.getsockname()[1]))
        kinds = {**dict.fromkeys(get_args(Gauge), "3|g"), **dict.fromkeys(get_args(Counter), "2|c")}
        expected = {f"airflow.kafka_offsets.{name},pipeline=orders/0-of-4:{kind}" for name, kind in kinds.items()}
        received = set[str]()
        while expected - received:  # Airflow sends figures of its own, too
            received.add(server.recv(4096).decode())
        assert {line for line in received if "kafka_offsets" in line} == expected


WAYS = {
    "statsd_exporter": (StatsdExporter, statsd, COUNTERS),
    "OpenTelemetry": (OtelCollector, otel, {f"{name}_total" for name in COUNTERS}),
}


@pytest.mark.clouds
@pytest.mark.parametrize("way", WAYS)
def test_prometheus_has_the_names_that_rules_and_dashboard_ask_for(way: str) -> None:
    kind, settings, counters = WAYS[way]
    expected = dict.fromkeys(GAUGES, 3.0) | dict.fromkeys(counters, 2.0)
    with kind() as server:

        def shown() -> dict[str, float]:
            return {
                name.partition("{")[0]: value
                for name, value in server.shown().items()
                if "kafka_offsets" in name and 'pipeline="orders/0-of-4"' in name
            }

        send(settings(server.port))
        wait_for("each figure has come", lambda: expected.keys() <= shown().keys())
        assert shown() == expected
