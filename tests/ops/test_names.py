"""What Airflow's own metrics send to a StatsD server: the names that the rules ask for, with the pipeline as a tag."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import get_args

import pytest

from airflow_kafka_offsets.hooks.metrics import Counter, Gauge

# As a task's process, which has Airflow's settings.
_SEND = f"""
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
from airflow_kafka_offsets.hooks.metrics import _counts, _gauges
_gauges("orders/0-of-4", dict.fromkeys({get_args(Gauge)!r}, 3))
_counts("orders/0-of-4", dict.fromkeys({get_args(Counter)!r}, 2))
"""


@pytest.mark.starts_processes
def test_airflow_sends_each_figure_with_its_pipeline() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(60)
        where = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(server.getsockname()[1]), "INFLUXDB_ENABLED": "True"}
        environment = {**os.environ, **{f"AIRFLOW__METRICS__STATSD_{name}": value for name, value in where.items()}}
        subprocess.run([sys.executable, "-c", _SEND], env=environment, check=True, capture_output=True, text=True)
        kinds = {**dict.fromkeys(get_args(Gauge), "3|g"), **dict.fromkeys(get_args(Counter), "2|c")}
        expected = {f"airflow.kafka_offsets.{name},pipeline=orders/0-of-4:{kind}" for name, kind in kinds.items()}
        received = set[str]()
        while expected - received:  # Airflow sends figures of its own, too
            received.add(server.recv(4096).decode())
        assert {line for line in received if "kafka_offsets" in line} == expected
