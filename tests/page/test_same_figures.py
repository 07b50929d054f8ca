"""``kafka-offsets show`` and ``lag``, the page and the metrics give the same figures for the same pipeline."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.batch.measured_lag import left_by
from airflow_kafka_offsets.cli import cluster_commands
from airflow_kafka_offsets.cli.cluster_commands import lag
from airflow_kafka_offsets.cli.store_commands import show
from airflow_kafka_offsets.hooks import metrics
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.page import kafka_look
from airflow_kafka_offsets.plan.lag_and_margin import together
from tests.contract.pipeline import Pipeline, Run
from tests.page.conftest import TOPIC, figures, produce, report_some_as_bad, run, said, view

MINUTE = 60_000


class Sent:
    """What Airflow's metrics were told: counters add up, of a gauge the last counts."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.gauges: dict[str, float] = {}

    def incr(self, name: str, count: int = 1, **_: Any) -> None:
        self.counters[name.removeprefix("kafka_offsets.records_")] += count

    def gauge(self, name: str, value: float, **_: Any) -> None:
        self.gauges[name.removeprefix("kafka_offsets.")] = value


class NotClosed:
    """The cluster in memory, as a command opens it."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __enter__(self) -> Any:
        return self._cluster

    def __exit__(self, *_: object) -> None: ...


def commit(pipeline: Pipeline, resolved: Run) -> None:
    """The commit task: it commits, looks at what is left, and sends both."""
    outcome = resolved.commit()
    assert outcome.plan is not None
    left = left_by(outcome.plan, pipeline.cluster, pipeline.now_ms)
    metrics.send_commit(pipeline.pipeline_id, outcome, together((left or {}).values()), pipeline.now_ms)


def test_show_lag_page_and_metrics_say_the_same(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent()
    monkeypatch.setattr(metrics, "Stats", sent)
    monkeypatch.setattr(cluster_commands, "KafkaCluster", lambda _: NotClosed(pipeline.cluster))
    for module in (cluster_commands, kafka_look):  # all look at one moment, as the commit does
        monkeypatch.setattr(module, "now_ms", lambda: pipeline.now_ms)
    earlier = replace(pipeline, now_ms=pipeline.now_ms - 10 * MINUTE)
    produce(earlier, 4)
    first = earlier.resolve(run(10))
    report_some_as_bad(first, set_aside=2, left_out=1)
    commit(earlier, first)
    produce(earlier, 4)
    pipeline.cluster.delete_records(TopicPartition(TOPIC, 1), 7)
    commit(earlier, earlier.resolve(run(11), policies={"data_loss": "advance"}).spark())
    produce(pipeline, 5, ago_ms=MINUTE)
    commit(pipeline, pipeline.resolve(run(12), max_records=9).spark())

    options = {"pipeline_id": pipeline.pipeline_id, "work_store": pipeline.store.uri}
    shown = dict(show(options).facts)["totals"]
    lagging = lag({**options, "bootstrap_servers": "in memory"}).facts
    page = view(pipeline)
    assert shown == {
        "batches": 3,
        "records": 12 + 12 - 3 + 9,
        "lost": 3,
        "skipped": 0,
        "set_aside": 2,
        "left_out": 1,
        "last_set_aside": 1,
        "last_left": 2,
    }
    assert figures(page)["lost"] == shown["lost"] + shown["skipped"]
    assert figures(page)["set_aside"] == shown["set_aside"]
    assert {name: sent.counters[name] for name in ("planned", "lost", "skipped", "set_aside", "left_out")} == {
        "planned": shown["records"],
        **{name: shown[name] for name in ("lost", "skipped", "set_aside", "left_out")},
    }
    assert sum(row.records or 0 for row in page.batches.rows) == shown["records"]
    assert sum(point.records or 0 for point in page.chart) == shown["records"]
    assert sum(point.set_aside or 0 for point in page.chart) == shown["set_aside"]
    assert sum(point.lost or 0 for point in page.chart) == shown["lost"] + shown["skipped"]

    assert figures(page)["unread"] == lagging["lag"] == sent.gauges["lag"] == 6
    assert figures(page)["oldest"] == lagging["behind_ms"] == MINUTE
    read_until_ms = sent.gauges["read_until_seconds"] * 1000  # a run that leaves records sends none
    assert read_until_ms == page.batches.rows[1].planned_ms == earlier.now_ms
    assert (page.chart[1].left, page.chart[2].left) == (0, 6)
    assert figures(page)["oldest"] <= pipeline.now_ms - read_until_ms, (
        "what the dashboard shows is the most that it can be"
    )
    assert page.chart[-1].left == 6
    assert "Batch 3 was planned at " in said(page), "it did not read up to that time"
    assert "6 records are not read yet" in said(page)
    assert figures(page)["retention"] == lagging["margin_ms"]
