"""The calendar of windows: done, late, not committed, overlapping, given way, and missing between two others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import StoreUnavailable, WindowOverlaps
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.page.pipeline_page import pipeline_view
from airflow_kafka_offsets.page.views import BatchesAsked, WindowsView
from airflow_kafka_offsets.page.window_page import windows_view
from airflow_kafka_offsets.plan.window_claims import TimeClaim, batch_name_of
from airflow_kafka_offsets.stores.objects import create_object
from tests.contract.pipeline import Pipeline
from tests.page.conftest import TOPIC, page_of, said, values, view

HOUR = 3_600_000
T = 1_793_664_000_000  # 2026-11-03T00:00Z


def hours(first: float, last: float) -> dict[str, Any]:
    return {
        "startup_mode": "timestamp",
        "startup_timestamp": int(T + first * HOUR),
        "bounded_mode": "timestamp",
        "bounded_timestamp": int(T + last * HOUR),
    }


@pytest.fixture
def windows(pipeline: Pipeline) -> Pipeline:
    """A record in each of twelve hours."""
    pipeline.cluster.produce(TopicPartition(TOPIC, 0), [T + hour * HOUR for hour in range(12)])
    pipeline.parameters = {}
    return pipeline


def states(shown: WindowsView) -> list[tuple[float, str]]:
    return [((cell.start_ms - T) / HOUR, cell.state) for cell in shown.cells]


def test_a_day_of_windows(windows: Pipeline) -> None:
    windows.run("a", **hours(0, 1))
    windows.run("b", **hours(1, 2))
    windows.run("c", **hours(4, 5))
    windows.resolve("d", **hours(5, 6))
    shown = windows_view(page_of(windows))
    assert states(shown) == [
        (0, "done"),
        (1, "done"),
        (2, "missing"),
        (3, "missing"),
        (4, "done"),
        (5, "not committed"),
    ]
    assert (shown.month, shown.months, shown.not_asked) == ("2026-11", ("2026-11",), ())
    first = shown.cells[0].row
    assert first is not None
    assert (first.title, first.records) == ("2026-11-03T00:00Z to 2026-11-03T01:00Z", 1)
    assert shown.cells[2].row is None


def test_a_window_that_lacks_what_came_later_is_late(windows: Pipeline) -> None:
    windows.run("a", **hours(0, 1))
    windows.cluster.produce(TopicPartition(TOPIC, 1), [T + 5])
    windows.run("a", **hours(0, 1))
    shown = windows_view(page_of(windows))
    assert states(shown) == [(0, "late")]
    assert "it lacks 1 record of its time that came later" in shown.cells[0].why


def test_windows_that_overlap_are_marked_until_one_gives_way(windows: Pipeline) -> None:
    windows.run("a", **hours(0, 2))
    with pytest.raises(WindowOverlaps):
        windows.resolve("b", **hours(1, 3))
    assert states(windows_view(page_of(windows))) == [(0, "done"), (1, "given way")]
    other = windows.resolve("c", **hours(6, 8))
    with pytest.raises(WindowOverlaps):
        begun_meanwhile(windows, other)
    assert states(windows_view(page_of(windows)))[-2:] == [(6, "overlapping"), (7, "overlapping")]


def begun_meanwhile(windows: Pipeline, other: Any) -> None:
    """Both are planned and begun: neither can give way."""
    claim = TimeClaim(T + 7 * HOUR, T + 9 * HOUR)
    asked = replace(other.plan.asked, window_bounds=(claim.start_ms, claim.end_ms))
    plan = replace(other.plan, batch=batch_name_of(claim, windows.pipeline_id), asked=asked)
    begun = windows.log.begin_window(claim.name, 1, Planned(plan))
    assert begun is not None
    windows.log.claim(claim.name, claim.places, 1)
    create_object(windows.store, f"{begun.folder}/0-000001-abcd.begun.json", {"version": 1, "plan_id": plan.plan_id})
    other.job().begin()
    windows.resolve("c", **hours(6, 8))


def test_the_page_of_a_pipeline_that_has_windows_alone(windows: Pipeline) -> None:
    for hour in range(3):
        windows.run(f"r{hour}", **hours(hour, hour + 1))
    seen = view(windows)
    assert seen.has_windows
    assert said(seen) == "The newest window is committed. Nothing is lost or skipped."
    lost = next(figure for figure in seen.figures if figure.name == "lost")
    assert (lost.value, lost.words) == ("0", "lost or skipped, in the last 3 windows")
    assert values(seen)["unread"] == "unknown"
    assert [row.title[11:16] for row in seen.batches.rows] == ["02:00", "01:00", "00:00"]
    page = pipeline_view(page_of(windows), BatchesAsked(find=seen.batches.rows[2].name, size=1))
    assert [row.name for row in page.batches.rows] == [seen.batches.rows[2].name]


def test_a_store_that_does_not_answer_leaves_a_sentence(windows: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> Any:
        raise StoreUnavailable("Cannot list it", "no route", "Look at it.")

    monkeypatch.setattr(type(windows.store), "list", gone)
    shown = windows_view(page_of(windows))
    assert (shown.cells, len(shown.not_asked)) == ((), 1)
