"""Airflow's own metrics, by its OpenTelemetry exporter and by StatsD, at receivers on loopback: what tasks, sensors and
triggers send.
"""

from __future__ import annotations

import atexit
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from airflow_kafka_offsets.batch.carry_out import CommitOutcome
from airflow_kafka_offsets.batch.follow_group import Followed
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.hooks.metrics import Counter, Gauge, outcome_counted, read_until_ms, send_commit
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin
from airflow_kafka_offsets.plan.plan import Draft
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.triggers.deferred_wait import NotYet
from airflow_kafka_offsets.triggers.lag_event import LagWatch
from airflow_kafka_offsets.triggers.sensor_waits import WindowCompleteTrigger
from testbed.topics import Topics
from tests.airflow.conftest import Orders
from tests.airflow.fixtures import RunDag
from tests.builders import NOW, draft, plan, planned

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitor.md"


@dataclass
class Received:
    """What has come in, by name; counters add up from when Airflow's exporter was made.

    :ivar kinds: by name, ``gauge`` or ``sum``, a counter; with the unit, of which there is none.
    :ivar instances: what the processes call themselves that have sent something.
    """

    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)
    instances: set[str] = field(default_factory=set)
    values: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            about = {a.key: a.value.string_value for a in resource.resource.attributes}
            self.instances.add(about["service.instance.id"])
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                kind = metric.WhichOneof("data")
                points = getattr(metric, kind).data_points
                if metric.name.startswith("airflow.kafka_offsets."):
                    name = metric.name.removeprefix("airflow.kafka_offsets.")
                    self.kinds[name] = kind, metric.unit
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


def test_a_run_says_what_the_batch_had_and_what_is_left(orders: Orders, received: Received) -> None:
    before_ms = now_ms()
    orders.produce(5)
    first = orders.run()
    assert first.state == "success"
    seen = received.of(pipeline=orders.log.pipeline_id)
    assert {name: seen[name] for name in seen if not name.endswith("_seconds")} == {
        "splits": 1,
        "attempts": 1,
        "records_planned": 5,
        "records_rows": 5,
        "records_set_aside": 0,
        "records_left_out": 0,
        "records_lost": 0,
        "records_skipped": 0,
    }
    kinds = {"gauge": get_args(Gauge), "sum": get_args(Counter)}  # by both a name in Prometheus is made, and by a unit
    assert all(name in kinds[kind] and not unit for name, (kind, unit) in received.kinds.items())
    steps = {"look_up_seconds", "plan_seconds", "verify_seconds", "commit_seconds"}
    assert {name for name in seen if name.endswith("_seconds")} == {
        *steps,
        "committed_at_seconds",
        "read_until_seconds",
    }
    assert all(0 < seen[name] < 60 for name in steps)
    assert before_ms <= seen["read_until_seconds"] * 1000 <= seen["committed_at_seconds"] * 1000 <= now_ms()
    assert seen["read_until_seconds"] * 1000 == orders.newest.log.plan.resolved_at_ms
    left = received.of(pipeline=orders.log.pipeline_id, by="run")
    assert left["lag"] == 0
    assert seen["read_until_seconds"] < left["lag_looked_at_seconds"] <= seen["committed_at_seconds"]
    done = {"pipeline": orders.log.pipeline_id, "outcome": "done"}
    assert received.of(**done) == {"resolves": 1, "commits": 1}

    assert orders.clear(first, "orders.commit").state == "success"
    again = received.of(pipeline=orders.log.pipeline_id)
    assert again["records_planned"] == 5, "the batch is counted once"
    assert again["committed_at_seconds"] == seen["committed_at_seconds"]
    assert received.of(**done) == {"resolves": 1, "commits": 2}

    nothing = orders.run()
    assert nothing.state == "success"
    quiet = received.of(pipeline=orders.log.pipeline_id)
    assert quiet["committed_at_seconds"] > quiet["read_until_seconds"] > again["committed_at_seconds"]
    assert received.of(pipeline=orders.log.pipeline_id, by="run") == {
        "lag": 0,
        "lag_looked_at_seconds": quiet["read_until_seconds"],
    }
    assert quiet["records_planned"] == 5


def test_what_was_lost_is_counted_and_a_refusal_by_its_error(orders: Orders, received: Received) -> None:
    orders.produce(5)
    assert orders.run().state == "success"
    assert "lost_at_seconds" not in received.of(pipeline=orders.log.pipeline_id)
    orders.produce(5)
    orders.broker.delete_records({(orders.topic, 0): 8})
    assert orders.run().state == "failed"
    assert received.of(pipeline=orders.log.pipeline_id, outcome="DataLoss") == {"resolves": 1}

    assert orders.run({"policies": {"data_loss": "advance"}}).state == "success"
    seen = received.of(pipeline=orders.log.pipeline_id)
    assert (seen["records_planned"], seen["records_lost"]) == (5 + 2, 3)
    assert seen["lost_at_seconds"] == pytest.approx(seen["committed_at_seconds"])


ALL_READ = [planned(0, 10, 15, past_end=0, held_back=0), planned(1, 7, 7, past_end=0, held_back=0)]


@pytest.mark.parametrize(
    ("made", "is_known"),
    [
        (plan(ALL_READ), True),
        (draft(ALL_READ), True),
        (plan([*ALL_READ, planned(2, 0, 5, past_end=1, held_back=0)]), False),
        (plan([*ALL_READ, planned(2, 0, 5, past_end=0, held_back=1)]), False),
        (plan([*ALL_READ, planned(2, 0, 0)]), False),
        (plan(ALL_READ, window=True), False),
        (plan(ALL_READ, reason="data_loss=advance"), False),
    ],
    ids=["a plan", "nothing to read", "a cap", "an open transaction", "held", "a window", "planned anew"],
)
def test_until_when_all_is_read_is_known_where_a_plan_leaves_nothing(made: Draft, is_known: bool) -> None:
    assert read_until_ms(made) == (made.resolved_at_ms if is_known else None)


def test_a_margin_is_sent_with_its_time_and_nothing_where_it_is_not_known(received: Received) -> None:
    nothing = CommitOutcome(None, False, Followed())
    send_commit("known", nothing, LagAndMargin(5, None, 3, 7000), NOW)
    send_commit("unknown", nothing, LagAndMargin(), NOW)
    sent = {"retention_margin_seconds": 7, "retention_looked_at_seconds": NOW / 1000}
    assert sent.items() < received.of(pipeline="known").items()
    assert received.of(pipeline="known", by="run") == {"lag": 5, "lag_looked_at_seconds": NOW / 1000}
    assert received.of(pipeline="unknown").keys() == {"committed_at_seconds"}
    assert not received.of(pipeline="unknown", by="run")


def test_each_process_of_opentelemetry_names_itself(received: Received) -> None:
    """So each has series of its own in Prometheus, and of a counter what it has counted itself."""
    with outcome_counted("commits", "once"):
        pass
    assert received.of(pipeline="once", outcome="done") == {"commits": 1}
    (instance,) = received.instances
    assert str(uuid.UUID(instance)) == instance


def test_what_a_cap_leaves_is_sent_and_not_that_all_is_read(orders: Orders, received: Received, run: RunDag) -> None:
    orders.produce(5)
    assert (
        run("resolve_and_commit", {"topic": orders.topic, "group": orders.group, "max_records": 3}).state == "success"
    )
    pipeline = f"{orders.group}/resolve_and_commit/resolve"
    seen = received.of(pipeline=pipeline)
    assert received.of(pipeline=pipeline, by="run")["lag"] == 2
    assert "read_until_seconds" not in seen
    counts = {"splits": 1, "records_planned": 3, "records_lost": 0, "records_skipped": 0}
    assert {name: seen[name] for name in seen if not name.endswith("_seconds")} == counts, "nobody has reported"


def test_a_look_at_the_lag_is_sent_with_its_time(
    received: Received, broker: Topics, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)] * 4)
    with KafkaCluster(broker.client_config) as cluster:
        cluster.commit_offsets(group, {TopicPartition(name, 0): CommittedOffset(1)})
    found = LagWatch(topics=[name], group_id=group).measured()
    assert received.of(group=group, by="look") == {"lag": 3, "lag_looked_at_seconds": found.looked_at_ms / 1000}


def test_a_look_at_a_window_says_how_far_it_has_arrived(
    received: Received, broker: Topics, topic: Callable[..., str], run: RunDag
) -> None:
    name, end = topic(2), now_ms()
    broker.produce(name, [(0, None, b"x", end + 7), (1, None, b"x", end - 7)])
    scope = {"topics": [name], "pipeline_id": "lake: orders"}
    trigger = WindowCompleteTrigger(
        kafka_config_id="kafka_default",
        scope=ScopeParameters(**scope).to_dict(),
        isolation_level="read_uncommitted",
        end_ms=end,
        idle_timeout_ms=3_600_000,
        clock_skew_ms=0,
        poke_interval=1,
    )
    assert isinstance(trigger.look(), NotYet)
    seen = received.of(pipeline="lake__orders")
    assert seen.pop("window_looked_at_seconds") >= end / 1000
    assert seen == {"window_arrived_until_seconds": (end - 7) / 1000, "window_partitions_waiting": 1}
    broker.produce(name, [(1, None, b"x", end)])
    assert not isinstance(trigger.look(), NotYet)
    assert received.of(pipeline="lake__orders")["window_partitions_waiting"] == 0


@pytest.fixture
def sent(airflow: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, str]]]:
    """`sent()`: what has come to a StatsD server since, by name with tags."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)  # on loopback a datagram is there when its sender goes on
        set_up = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(server.getsockname()[1]), "INFLUXDB_ENABLED": "True"}
        for name, value in set_up.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)

        def read() -> dict[str, str]:
            found: dict[str, str] = {}
            with suppress(BlockingIOError):
                while True:
                    name, _, value = server.recv(4096).decode().partition(":")
                    if name.startswith("airflow.kafka_offsets."):
                        assert name not in found
                        found[name] = value
            return found

        yield read
    monkeypatch.undo()
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)


def test_statsd_gets_the_same_with_the_pipeline_as_a_tag(
    sent: Callable[[], dict[str, str]], broker: Topics, topic: Callable[..., str], group: str, run: RunDag
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)] * 4)
    assert run("resolve_and_commit", {"topic": name, "group": group, "max_records": 3}).state == "success"
    tag = f"pipeline={group}/resolve_and_commit/resolve"
    of_run = {name.removeprefix("airflow.kafka_offsets."): value for name, value in sent().items()}
    times = {name: of_run.pop(name) for name in list(of_run) if "_seconds," in name}
    assert of_run == {
        f"resolves,{tag},outcome=done": "1|c",
        f"commits,{tag},outcome=done": "1|c",
        f"lag,{tag},by=run": "1|g",
        f"splits,{tag}": "1|c",
        f"records_planned,{tag}": "3|c",
        f"records_lost,{tag}": "0|c",
        f"records_skipped,{tag}": "0|c",
    }
    steps = ("look_up", "plan", "verify", "commit", "committed_at")
    assert times.keys() == {f"lag_looked_at_seconds,{tag},by=run", *(f"{step}_seconds,{tag}" for step in steps)}
    assert all(value.endswith("|g") and float(value[:-2]) > 0 for value in times.values())

    LagWatch(topics=[name], group_id=group).measured()
    assert sent()[f"airflow.kafka_offsets.lag,group={group},by=look"] == "1|g"


def test_the_page_names_each_figure_that_there_is() -> None:
    named = set(re.findall(r"`kafka_offsets\.(\w+)`", PAGE.read_text()))
    assert named == {*get_args(Gauge), *get_args(Counter)}
