"""Airflow's own metrics, by its OpenTelemetry exporter, at a receiver on loopback: what tasks and sensors send."""

from __future__ import annotations

import atexit
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.triggers.wait_for_lag import LagWatch
from testbed.topics import Topics
from tests.airflow.conftest import Orders

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitor.md"


@dataclass
class Received:
    """What has come in, by name; counters add up from when Airflow's exporter was made."""

    values: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                points = getattr(metric, metric.WhichOneof("data")).data_points
                if metric.name.startswith("airflow.kafka_offsets."):
                    name = metric.name.removeprefix("airflow.kafka_offsets.")
                    self.values[name] = [
                        ({a.key: a.value.string_value for a in p.attributes}, p.as_double or p.as_int) for p in points
                    ]

    def of(self, **tags: str) -> dict[str, float]:
        """The values with these tags, by name; each once."""
        exporting().force_flush()
        found = [(name, value) for name, points in self.values.items() for has, value in points if has == tags]
        assert len(found) == len(dict(found))
        return dict(found)


def exporting() -> MeterProvider:
    """What Airflow has made."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider

    made = metrics.get_meter_provider()
    assert isinstance(made, MeterProvider)
    return made


@pytest.fixture
def received(airflow: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    """What Airflow's exporter sends; each task's process makes one, which is this process here."""
    from airflow.sdk._shared.observability.metrics.otel_logger import flush_otel_metrics
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.otel_logger import get_otel_logger
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    here = Received()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            here.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """It is no part of a test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"http://127.0.0.1:{server.server_port}/v1/metrics")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf")
    stats.initialize(factory=get_otel_logger, export_legacy_names=False)
    yield here
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
    exporting().shutdown()
    atexit.unregister(flush_otel_metrics)  # nobody is there to take it
    server.shutdown()
    server.server_close()


def test_a_commit_says_what_the_batch_had_and_what_is_left(orders: Orders, received: Received) -> None:
    orders.produce(5)
    first = orders.run()
    assert first.state == "success"
    seen = received.of(pipeline=orders.log.pipeline_id)
    assert {name: seen[name] for name in seen if not name.endswith("_seconds")} == {
        "lag": 0,
        "records_planned": 5,
        "records_rows": 5,
        "records_set_aside": 0,
        "records_left_out": 0,
        "records_lost": 0,
        "records_skipped": 0,
    }
    assert {name for name in seen if name.endswith("_seconds")} == {
        "resolve_seconds",
        "commit_seconds",
        "committed_at_seconds",
    }
    done = {"pipeline": orders.log.pipeline_id, "outcome": "done"}
    assert received.of(**done) == {"resolves": 1, "commits": 1}
    elsewhere = {"lag_looked_at_seconds", "retention_margin_seconds"}  # of a sensor, and where something is left
    assert set(re.findall(r"`kafka_offsets\.(\w+)`", PAGE.read_text())) == {*received.values, *elsewhere}

    assert orders.clear(first, "orders.commit").state == "success"
    assert received.of(pipeline=orders.log.pipeline_id)["records_planned"] == 5, "the batch is counted once"
    assert received.of(**done) == {"resolves": 1, "commits": 2}


def test_what_was_lost_is_counted_and_a_refusal_by_its_error(orders: Orders, received: Received) -> None:
    orders.produce(5)
    assert orders.run().state == "success"
    orders.produce(5)
    orders.broker.delete_records({(orders.topic, 0): 8})
    assert orders.run().state == "failed"
    assert received.of(pipeline=orders.log.pipeline_id, outcome="DataLoss") == {"resolves": 1}

    assert orders.run({"policies": {"data_loss": "advance"}}).state == "success"
    seen = received.of(pipeline=orders.log.pipeline_id)
    assert (seen["records_planned"], seen["records_lost"]) == (5 + 2, 3)


def test_a_look_at_the_lag_is_sent_with_its_time(
    received: Received, broker: Topics, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)] * 4)
    with KafkaCluster(broker.client_config) as cluster:
        cluster.commit_offsets(group, {TopicPartition(name, 0): CommittedOffset(1)})
    found = LagWatch(topics=[name], group_id=group).look()
    assert received.of(group=group) == {"lag": 3, "lag_looked_at_seconds": found.looked_at_ms / 1000}
