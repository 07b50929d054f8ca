"""``kafka-offsets show`` and ``lag``, the page and the metrics say the same of one pipeline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from airflow_kafka_offsets import clock
from airflow_kafka_offsets.cli.call import World
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.engine.commit import commit
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import GroupActive
from airflow_kafka_offsets.hooks import metrics
from testbed.topics import wait_for
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import Pipeline, tp, whole_counts
from tests.page.conftest import Html


class Sent:
    """What is sent to Airflow's metrics: gauges as they are last, counters as sums."""

    def __init__(self) -> None:
        self.gauges: dict[str, float] = {}
        self.counts: Counter[tuple[str, ...]] = Counter()

    def gauge(self, name: str, value: float, tags: dict[str, str]) -> None:
        assert tags == {"pipeline": "orders"}
        self.gauges[name.removeprefix("kafka_offsets.")] = value

    def incr(self, name: str, value: int, tags: dict[str, str]) -> None:
        assert tags.pop("pipeline") == "orders"
        self.counts[name.removeprefix("kafka_offsets."), *tags.values()] += value


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    sent = Sent()
    monkeypatch.setattr(metrics, "Stats", sent)
    return sent


def measured_run(pipeline: Pipeline, bad: int = 0, **changed: Any) -> ResolvedBatch:
    """A run as the operators do it; of partition 1, so many records are bad."""
    with metrics.measured("resolve", "orders"):
        work = pipeline.work(**changed)
    counts = whole_counts(work)
    if bad:
        whole = counts[tp(1)]
        counts[tp(1)] = whole._replace(rows=whole.rows - bad, bad=bad)
    pipeline.report(work, pipeline.begin(work), counts)
    with metrics.measured_commit(pipeline.log, work.batch.number, pipeline.cluster):
        commit(work.given(), pipeline.log, pipeline.cluster)
    return work


def test_the_command_line_the_page_and_the_metrics_agree(
    cluster: InMemoryCluster,
    pipeline: Pipeline,
    page: Callable[..., Html],
    sent: Sent,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.produce(tp(0), [cluster.now_ms] * 50)
    cluster.produce(tp(1), [cluster.now_ms] * 30)
    measured_run(pipeline)
    cluster.produce(tp(0), [cluster.now_ms] * 20)
    cluster.produce(tp(1), [cluster.now_ms] * 9)
    cluster.delete_records(tp(0), 57)
    cluster.produce(tp(2), [cluster.now_ms] * 1_000)
    measured_run(pipeline, bad=4, on_data_loss="advance", max_records=100)

    world = World(lambda _: cluster, lambda _: pipeline.store, lambda: cluster.now_ms)
    capsys.readouterr()
    assert main(["show", "orders", "--output", "json"], world) == 0
    rows = json.loads(capsys.readouterr().out)["batches"]
    assert main(["lag", "orders", "--bootstrap-servers", "m", "--output", "json"], world) == 0
    unread = json.loads(capsys.readouterr().out)["unread"]
    totals = {
        **{name: sum(row[name] for row in rows) for name in ("offsets", "rows", "bad", "filtered")},
        **{kind: sum(row["given_up"][kind] for row in rows) for kind in ("lost", "skipped")},
    }
    assert totals["lost"] == 7
    assert totals["bad"] == 4
    assert unread > 0

    names = {"offsets": "planned"}
    counted = {what: sent.counts[f"records_{names.get(what, what)}",] for what in totals}
    assert counted == totals
    assert sent.gauges["lag"] == unread
    assert sent.counts["commits", "done"] == sent.counts["resolves", "done"] == len(rows) == 2
    assert sent.gauges["lost_at_seconds"] == sent.gauges["bad_at_seconds"] == sent.gauges["committed_at_seconds"]

    shown = page()
    assert shown.figure("unread") == f"{unread:,}"
    newest = rows[0]
    for name in ("offsets", "rows", "bad", "filtered"):
        assert shown.figure(name) == f"{newest[name]:,}"
    for kind in ("lost", "skipped"):
        assert shown.figure(kind) == str(newest["given_up"][kind])
    table = [[cell.replace(",", "") for cell in row[3:8]] for row in shown.cells("batches")]
    assert table == [
        [str(row[name]) for name in ("offsets", "rows", "bad", "filtered")] + [str(row["given_up"]["lost"])]
        for row in rows
    ]


def test_a_batch_is_counted_once_and_a_commit_that_fails_is_named(
    cluster: InMemoryCluster, pipeline: Pipeline, sent: Sent
) -> None:
    cluster.produce(tp(0), [cluster.now_ms] * 5)
    work = pipeline.work()
    pipeline.drive(work)
    cluster.members["lake"] = ["somebody"]
    for _ in range(2):  # the commit stands after the first try, and the group cannot follow
        with suppress(GroupActive), metrics.measured_commit(pipeline.log, 1, cluster):
            commit(work.given(), pipeline.log, cluster)
        wait_for("a later millisecond", lambda: clock.now_ms() > pipeline.log.existing(1).commits[-1].at_ms)
    assert sent.counts["records_rows",] == 5
    assert sent.counts["commits", "GroupActive"] == 2
    assert sent.gauges["lag"] == 0


def test_what_is_not_known_is_not_sent(cluster: InMemoryCluster, pipeline: Pipeline, sent: Sent) -> None:
    cluster.produce(tp(0), [cluster.now_ms] * 5)
    work = pipeline.work(require_report=False)
    with metrics.measured_commit(pipeline.log, 1, cluster) as lag:
        commit(work.given(), pipeline.log, cluster)
    assert sent.counts["records_planned",] == 5
    assert ("records_rows",) not in sent.counts
    assert lag == {"lag": 0, "in_transaction": 0}
    with pytest.raises(ZeroDivisionError), metrics.measured("resolve", "orders"):
        raise ZeroDivisionError
    assert sent.counts["resolves", "ZeroDivisionError"] == 1
    lag_before = sent.gauges.pop("lag")
    metrics.send_nothing(pipeline.log, InMemoryCluster("another"), 0)
    assert "lag" not in sent.gauges
    cluster.produce(tp(1), [cluster.now_ms] * 3)
    metrics.send_nothing(pipeline.log, cluster, clock.now_ms() + 1)
    assert sent.gauges["lag"] == lag_before + 3


def test_an_empty_batch_that_resolve_has_committed_is_sent_with_what_was_lost(
    cluster: InMemoryCluster, pipeline: Pipeline, sent: Sent
) -> None:
    cluster.produce(tp(0), [cluster.now_ms] * 5)
    pipeline.whole_run()
    cluster.produce(tp(0), [cluster.now_ms] * 4)
    cluster.delete_records(tp(0), 9)
    with metrics.measured("resolve", "orders") as began_ms:
        assert isinstance(pipeline.resolve(on_data_loss="advance"), NoBatch)
        metrics.send_nothing(pipeline.log, cluster, began_ms)
    assert sent.counts["records_lost",] == 4
    assert (sent.gauges["lag"], "lost_at_seconds" in sent.gauges) == (0, True)


def test_tags_have_the_characters_that_airflow_sends() -> None:
    assert metrics._tags(pipeline="a b/0-of-4;ü") == {"pipeline": "a_b/0-of-4__"}
