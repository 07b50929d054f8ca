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


@pytest.mark.clouds
def test_prometheus_has_the_names_that_rules_and_dashboard_ask_for() -> None:
    """By its own StatsD server."""
    expected = {f'{name}{{pipeline="orders/0-of-4"}}': 3.0 for name in GAUGES}
    expected |= {f'{name}{{pipeline="orders/0-of-4"}}': 2.0 for name in COUNTERS}
    with StatsdExporter() as exporter:
        send(statsd(exporter.port))
        wait_for("each figure has come", lambda: expected.keys() <= exporter.shown().keys())
        assert {name: value for name, value in exporter.shown().items() if "kafka_offsets" in name} == expected
