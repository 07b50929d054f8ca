"""What the page says of a pipeline: state, unread, since when; what is to do; nothing in it is taken for HTML."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from fastapi import HTTPException

from airflow_kafka_offsets.errors import ClusterUnavailable, InvalidRequest
from airflow_kafka_offsets.log.reports import Counts
from airflow_kafka_offsets.offsets import Timestamp
from airflow_kafka_offsets.page import shapes, unread, view
from airflow_kafka_offsets.page.view import FailedRun
from airflow_kafka_offsets.plan.body import Stretch
from airflow_kafka_offsets.times import parse_timestamp_ms
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, tp, whole_counts
from tests.page.conftest import DAG, Html, pushed

Page = Callable[..., Html]
BY_WINDOW = {"start": Timestamp(), "end": Timestamp(), "group_id": None}


def produced(cluster: InMemoryCluster, *counts: int) -> None:
    for number, count in enumerate(counts):
        cluster.produce(tp(number), [cluster.now_ms] * count)


def test_a_pipeline_that_has_read_all_says_so(cluster: InMemoryCluster, pipeline: Pipeline, page: Page) -> None:
    produced(cluster, 5, 3)
    pipeline.whole_run()
    shown = page()
    assert "The newest batch is committed. Batch 1 was committed" in shown.text
    assert "No record is unread." in shown.text
    assert (shown.figure("unread"), shown.figure("rows"), shown.figure("offsets")) == ("0", "8", "8")
    assert 'class="todo"' not in shown


def test_unread_records_are_counted_and_the_oldest_is_dated(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page
) -> None:
    produced(cluster, 5)
    pipeline.whole_run()
    produced(cluster, 1, 2)
    assert "3 records unread, the oldest since 2027-01-15 08:00." in page().text


def test_records_behind_an_open_transaction_are_said(cluster: InMemoryCluster, pipeline: Pipeline, page: Page) -> None:
    pipeline.connection = {"isolation.level": "read_committed"}
    pipeline.whole_run()
    cluster.begin_transaction().produce(tp(1), [cluster.now_ms] * 1_000)
    shown = page()
    assert "No record is unread. 1,000 records behind an open transaction." in shown.text
    assert (shown.figure("unread"), shown.figure("in_transaction")) == ("0", "1,000")


@pytest.mark.parametrize(("state", "words"), [
    ("running", "Batch 1 is planned, and Spark has not begun, since"),
    ("failed", "Batch 1 is planned, and Spark has not begun. No run has worked on it since"),
    (None, "No run has worked on it since"),
])  # fmt: skip
def test_an_unfinished_batch_has_a_running_owner_or_needs_a_person(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page, states: dict[str, str], state: str | None, words: str
) -> None:
    produced(cluster, 5)
    pipeline.resolve("first")
    states |= {"first": state} if state else {}
    shown = page()
    assert words in shown.text
    command = "kafka-offsets plan orders --kafka-config-id kafka_default --checkpoint-location memory://checkpoint"
    assert (command in shown.text) == (state != "running")


@pytest.mark.parametrize(("drive", "words"), [
    (lambda pipeline, work: pipeline.begin(work), "being written by Spark"),
    (lambda pipeline, work: pipeline.drive(work), "written, and not committed yet"),
])  # fmt: skip
def test_how_far_spark_is(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page, states: dict[str, str], drive: Any, words: str
) -> None:
    produced(cluster, 5)
    drive(pipeline, pipeline.work("first"))
    states["first"] = "running"
    assert f"Batch 1 is {words}, since" in page().text


def test_records_that_are_gone_bring_the_command_that_says_what_to_do(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page
) -> None:
    produced(cluster, 5)
    pipeline.whole_run()
    produced(cluster, 5)
    cluster.delete_records(tp(0), 8)
    shown = page()
    assert "1 partition: records are gone." in shown.text
    assert '<code tabindex="0">kafka-offsets plan orders ' in shown


def test_bad_and_lost_records_of_the_newest_batch_are_said(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page
) -> None:
    produced(cluster, 5, 5)
    pipeline.whole_run()
    produced(cluster, 5, 5)
    cluster.delete_records(tp(0), 7)
    work = pipeline.work(on_data_loss="advance")
    counts = {**whole_counts(work), tp(1): Counts(rows=3, bad=1, filtered=1, offsets=5, first=5, last=9)}
    pipeline.report(work, pipeline.begin(work), counts)
    pipeline.commit(work)
    shown = page()
    assert "In batch 2: 1 record bad, 2 records lost or skipped." in shown.text
    assert [shown.figure(name) for name in ("rows", "bad", "filtered", "lost", "skipped")] == ["6", "1", "1", "2", "0"]
    first = shown.cells("batches")[0]
    assert first[:2] + first[3:9] == ["2", "committed", "8", "6", "1", "1", "2", "1"]
    assert "rows 6, bad 1, filtered 1, proof receipt" in page(2).text


def test_kafka_that_does_not_answer_leaves_a_page_that_says_so(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    produced(cluster, 5)
    pipeline.whole_run()

    def fail(*_: Any) -> Any:
        raise ClusterUnavailable("Cannot reach the cluster", "no broker answers", "Check it.", retriable=True)

    monkeypatch.setattr(cluster, "describe", fail)
    shown = page()
    assert "The number of unread records is not known:" in shown.text
    assert "no broker answers" in shown.text
    assert shown.figure("unread") == ""
    assert len(shown.cells("batches")) == 1


def test_what_is_not_an_error_of_ours_is_named_by_its_class_alone(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    produced(cluster, 5)
    pipeline.whole_run()
    monkeypatch.setattr(cluster, "describe", lambda *_: 1 / int("hunter2", 36) and {}["hunter2"])
    shown = page()
    assert "Kafka could not be asked: KeyError." in shown.text
    assert "hunter2" not in shown


def test_kafka_is_asked_once_for_many_readers(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    produced(cluster, 5)
    pipeline.whole_run()
    asked: list[Any] = []
    describe = cluster.describe
    monkeypatch.setattr(cluster, "describe", lambda topics: asked.append(topics) or describe(topics))
    for _ in range(3):
        page()
    assert len(asked) == 1
    monkeypatch.setattr(unread, "NOT_OFTENER_S", 0.0)
    page()
    assert len(asked) == 2


def test_batches_are_paged_by_number(cluster: InMemoryCluster, pipeline: Pipeline, page: Page,
                                     monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    from airflow_kafka_offsets.page import routes

    for _ in range(5):
        produced(cluster, 1)
        pipeline.whole_run()
    for module in (routes, view):
        monkeypatch.setattr(module, "PAGE", 2)
    assert [row[0] for row in page().cells("batches")] == ["5", "4"]
    last = page(number=3)
    assert [row[0] for row in last.cells("batches")] == ["1"]
    assert "page 3 of 3" in last.text
    assert page(number=9).cells("batches") == []


def test_the_page_says_who_decided_what_when_and_why(cluster: InMemoryCluster, pipeline: Pipeline, page: Page) -> None:
    produced(cluster, 5)
    pipeline.whole_run("a")
    reset = {"start": {"orders-0": 2}, "allow_duplicates": True}
    pipeline.act("b", after=1, reason="<b>two</b> were wrong", reset=reset)
    identities = page().cells("identities")
    decided = ["2", "2027-01-15 08:00", "dag/b/orders", "maria", "&lt;b&gt;two&lt;/b&gt; were wrong"]
    assert identities[0][:5] == decided
    assert json.loads(unescape(identities[0][5])) == {"reset": reset}
    assert identities[1][:6] == ["1", "2027-01-15 08:00", "dag/a/orders", "maria", "the pipeline&#39;s begin", ""]
    assert identities[1][7] == "delta:/lake/orders"
    assert "under identity 2" in page(2).text


def test_a_run_that_was_refused_brings_the_command_that_says_why(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page, failed: list[FailedRun]
) -> None:
    produced(cluster, 5)
    pipeline.whole_run()
    failed.append(FailedRun("scheduled__1", (0, HOUR)))
    shown = page()
    assert "Run scheduled__1 has failed before it had a batch: its resolve task's log says why." in unescape(shown)
    assert '<code tabindex="0">kafka-offsets plan orders --kafka-config-id kafka_default ' in shown
    pipeline.parameters["pipeline_id"] = "by_window"
    pipeline.airflow.planned = None  # another task has not planned anything
    pipeline.whole_run(want=pipeline.window(0, HOUR))
    assert "plan by_window --start timestamp:1970-01-01T00:00Z --end timestamp:1970-01-01T01:00Z " in page()


# ── one batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_has_its_entries_attempts_partitions_and_decisions(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page
) -> None:
    produced(cluster, 5, 9)
    pipeline.whole_run()
    produced(cluster, 5)
    cluster.delete_records(tp(0), 7)
    pipeline.whole_run(on_data_loss="advance")
    shown = page(2)
    assert [row[1] for row in shown.cells("entries")] == ["plan", "commit"]
    assert shown.cells("attempts") == [["1", "reported"]]
    assert [row[:4] for row in shown.cells("decisions")] == [["orders-0", "5", "7", "lost"]]
    assert shown.cells("partitions")[0] == ["orders-0", "5", "7", "10", "3", "–", "3", "0", "0", "0"]
    by_size = page(1, order="offsets").cells("partitions")
    assert [row[0] for row in by_size] == ["orders-1", "orders-0", "orders-2"]


def test_the_tab_of_a_run_shows_its_batch(cluster: InMemoryCluster, pipeline: Pipeline, page: Page) -> None:
    produced(cluster, 5)
    pipeline.whole_run("manual__2026-11-20T10:00:00+00:00")
    for run in ("manual__2026-11-20T10:00:00+00:00", "manual__2026-11-20T10:00:00 00:00"):
        assert "Batch 1 of orders" in page(run=run, task="orders.commit").text
    assert "The batch of this run is not known: it has none so far" in page(run="another").text


def test_other_runs_are_asked_for_only_where_the_run_has_no_plan_of_the_task(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_kafka_offsets.page import routes

    asked: list[str] = []
    of_run = routes.plans_of
    monkeypatch.setattr(routes, "plans_of", lambda dag_id, run="": asked.append(run) or of_run(dag_id, run))
    produced(cluster, 5)
    pipeline.whole_run("run")
    for task, runs in {"orders.commit": ["run"], "": ["run"], "others": ["run", ""]}.items():
        asked.clear()
        assert ("Batch 1 of orders" in page(run="run", task=task).text, asked) == (True, runs)


def test_a_batch_that_is_not_there_and_a_pipeline_that_is_not_the_dags_are_refused(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page
) -> None:
    with pytest.raises(HTTPException, match="What this DAG has read is not known"):
        page()
    produced(cluster, 5)
    pipeline.whole_run()
    with pytest.raises(HTTPException, match="has no batch 9"):
        page(9)
    with pytest.raises(HTTPException, match="is known to have read a batch of this pipeline"):
        page(pipeline="another")


def test_a_plan_that_was_pushed_leads_to_the_newest_batch(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """A run that pushed none may have planned it: one by hand, or of a purged XCom."""
    from airflow_kafka_offsets.page.pipelines import newest_batch

    for _ in range(2):
        produced(cluster, 5)
        pipeline.whole_run()
    for number in (1, 2):
        plan = pushed(pipeline, pipeline.log.existing(number))
        assert newest_batch(DAG, plan, pipeline.log).number == 2


def test_a_pipeline_whose_log_names_another_dag_is_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    from airflow_kafka_offsets.page.pipelines import require_dag

    produced(cluster, 5)
    pipeline.whole_run()
    plan = pushed(pipeline, pipeline.log.existing(1))
    require_dag(DAG, plan, pipeline.log)
    for dag_id, wrong in (("other", plan), (DAG, replace(plan, key="0000000001-20261122T022057-xxxx")),
                          (DAG, replace(plan, batch=2))):  # fmt: skip
        with pytest.raises(InvalidRequest, match="has no pipeline"):
            require_dag(dag_id, wrong, pipeline.log)


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_windows_are_a_calendar_in_which_a_missing_one_is_seen(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page, states: dict[str, str]
) -> None:
    now = cluster.now_ms
    cluster.produce(tp(0), [now - 1])
    for ago in (5, 3, 2):
        pipeline.whole_run(want=pipeline.window(now - ago * HOUR, now - (ago - 1) * HOUR))
    pipeline.work("left", want=pipeline.window(now - HOUR, now))
    states["left"] = "running"
    shown = page()
    assert "2027-01-15 03:00–04:00 read 04:00–05:00 not planned 05:00–07:00 read 07:00–08:00 planned" in shown.text
    assert 'class="todo"' not in shown
    window = ["2027-01-15T04:00Z", "2027-01-15T05:00Z"]
    assert f"airflow dags trigger dag --conf '{json.dumps({'kafka_offsets': {'window': window}})}'" in unescape(shown)
    pipeline.whole_run(want=pipeline.request(conf={"window": window}, **BY_WINDOW))
    assert "2027-01-15 03:00–07:00 read 07:00–08:00 planned" in page().text


def test_a_window_that_was_left_brings_its_own_command(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Page
) -> None:
    now = cluster.now_ms
    cluster.produce(tp(0), [now - 7 * HOUR])
    pipeline.work(want=pipeline.window(now - 8 * HOUR, now - 6 * HOUR))
    for ago in range(60, 0, -1):  # more than a page has
        pipeline.whole_run(want=pipeline.window(now - ago * HOUR // 10, now - (ago - 1) * HOUR // 10))
    shown = page()
    assert "The newest batch is committed." in shown.text
    assert "Not committed: 1 batch." in shown.text
    assert "Batch 1 was left by run dag/run1/orders" in shown.text
    assert "kafka-offsets plan orders --start timestamp:2027-01-15T00:00Z --end timestamp:2027-01-15T02:00Z " in shown


def test_a_calendar_is_of_five_weeks_from_monday_to_sunday() -> None:
    """A year of hours, with a hole of two days and a half in the last week: 2026-11-26 was a Thursday."""
    day, end = 24 * HOUR, parse_timestamp_ms("2026-11-26T12:00Z")
    hole = end - 3 * day, end - 12 * HOUR
    weeks = shapes.weeks_of([Stretch(end - 365 * day, hole[0], {}, {}), Stretch(hole[1], end, {}, {})], [])
    assert [(week[0][0].weekday(), len(week)) for week in weeks] == [(0, 7)] * 6
    assert {cell[:3] for week in weeks[:-1] for _, cells in week for cell in cells} == {("00:00", "24:00", "read")}
    morning, whole_day = ("00:00", "12:00", "read"), ("00:00", "24:00", "not planned")
    assert [[cell[:3] for cell in cells] for _, cells in weeks[-1]] == [
        [morning, ("12:00", "24:00", "not planned")], [whole_day], [whole_day], [morning], [], [], []
    ]  # fmt: skip
    assert shapes.weeks_of([], []) == []


def test_a_bar_is_as_high_as_its_records_and_never_invisible() -> None:
    rows = [
        {"offsets": 1000, "rows": 1000, "bad": 0, "filtered": 0, "given_up": {}},
        {"offsets": 500, "rows": 499, "bad": 1, "filtered": 0, "given_up": {"lost": 1}},
        {"offsets": 500, "rows": None, "bad": None, "filtered": None, "given_up": {}},
        {"offsets": 0, "rows": 0, "bad": 0, "filtered": 0, "given_up": {}},
    ]
    whole, mixed, planned, empty = (pieces for _, pieces in shapes.chart_of(rows)[0])
    assert [piece.height for piece in whole] == [shapes.FLOOR - shapes.TOP]
    assert [(piece.kind, piece.height >= 2) for piece in mixed] == [
        ("rows", True),
        ("bad", True),
        ("lost", True),
    ]
    assert [(piece.kind, piece.height) for piece in planned] == [("planned", 50.0)]
    assert not empty
    assert shapes.chart_of([])[1][-1][1] == 2


# ── what others have written ──────────────────────────────────────────────────────────────────────────────────────────

EVIL = "\"><script>alert('x')</script>\u202e"


def test_names_of_others_are_text(cluster: InMemoryCluster, pipeline: Pipeline, page: Page) -> None:
    pipeline.parameters |= {"pipeline_id": "\"><script>alert('x')<", "group_id": "<img src=x onerror=alert(1)>"}
    pipeline.output = EVIL
    produced(cluster, 5)
    pipeline.whole_run("<b>run</b>")
    for shown in (page(), page(1)):
        assert "<script>alert" not in shown
        assert "<img" not in shown
        assert "<b>run" not in shown
        assert "\u202e" not in shown
        assert "&lt;script&gt;alert(&#39;x&#39;)" in shown
    assert "\\u202e" in page()


@pytest.mark.parametrize("value", [
    None, 7, [], "no JSON", '["pipeline"]', {}, {"pipeline": 7}, "[" * 100_000,
    {"__classname__": "airflow.sdk.definitions.connection.Connection", "__version__": 1, "__data__": {"conn_id": "x"}},
    {"pipeline": "p", "checkpoint_location": "/c", "key": "k", "kafka_config_id": "kafka_default", "batch": "7"},
])  # fmt: skip
def test_an_xcom_that_is_no_plan_is_left_alone(value: Any) -> None:
    from airflow_kafka_offsets.page.pipelines import _parse

    assert _parse(value) is None
