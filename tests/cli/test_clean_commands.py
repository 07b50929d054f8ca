"""`kafka-offsets clean` and `release-output`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.output_claims import owner_of
from tests.cli.conftest import Say
from tests.cli.pipeline import Pipeline
from tests.cli.test_store_commands import window

DAY = 86_400_000


@pytest.fixture
def old(stored: Pipeline) -> Pipeline:
    """Four batches and a window of a hundred days ago, in a store with one batch of today."""
    pipeline = Pipeline(stored.cluster, stored.store, "orders", "old", name="old", at_ms=now_ms() - 100 * DAY)
    for run in range(4):
        stored.cluster.produce(TopicPartition("orders", 1), [1])
        pipeline.run(f"run-{run}")
    pipeline.at_ms = now_ms()
    window(pipeline, "today", 0)
    return pipeline


def test_clean_counts_what_is_old_and_removes_it_when_told_to(says: Say, old: Pipeline) -> None:
    words = ("clean", "--work-store", old.store.uri, "--keep", "90d")
    before = old.objects()
    status, output, messages = says(*words, "--output", "json")
    assert status == 0
    assert "dry run" in messages
    shown = json.loads(output)
    assert (shown["version"], shown["dry_run"]) == (1, True)
    # Of each batch a plan, a commit, a begun and a report; the last two commits stay however old they are.
    assert shown["removed"] == [{"pipeline": old.pipeline_id, "kind": "batches", "count": 2, "objects": 8}]
    assert old.objects() == before

    status, output, messages = says(*words, "--execute", "--output", "json")
    assert (status, messages) == (0, "")
    assert json.loads(output)["removed"] == shown["removed"]
    assert len(before) - len(old.objects()) == 8
    assert [old.log.batch(number) is None for number in (1, 2, 3, 4)] == [True, True, False, False]
    status, output, messages = says(*words)
    assert (status, messages) == (0, "")
    assert output.startswith("0 batches and windows (0 objects)")


def test_old_windows_go_too_and_take_their_claims_with_them(says: Say, stored: Pipeline) -> None:
    windows = Pipeline(stored.cluster, stored.store, "orders", "w", name="w", at_ms=now_ms())
    window(windows, "today", 0)
    windows.at_ms = now_ms() - 100 * DAY
    bounds = {"startup_timestamp": windows.at_ms - DAY, "bounded_timestamp": windows.at_ms - DAY // 2}
    windows.run("then", **bounds, startup_mode="timestamp", bounded_mode="timestamp")
    assert len(windows.log.windows()) == 2
    _, output, _ = says("clean", "--work-store", stored.store.uri, "--keep", "90d", "--execute", "--output", "json")
    [removed] = json.loads(output)["removed"]
    assert (removed["pipeline"], removed["kind"], removed["count"]) == (windows.pipeline_id, "windows", 1)
    assert len(windows.log.windows()) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(["--keep", "soon"], "--keep is 'soon'", id="no duration"),
        pytest.param(["--keep", "PT1H"], "at least a day", id="an hour"),
    ],
)
def test_clean_wants_to_know_how_long_is_kept(says: Say, tmp_path: Path, words: list[str], sentence: str) -> None:
    status, output, messages = says("clean", "--work-store", str(tmp_path), *words)
    assert (status, output) == (2, "")
    assert sentence in messages


def test_clean_takes_its_default_from_airflows_configuration(
    airflow: Path, says: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, messages = says("clean", "--work-store", str(tmp_path))
    assert status == 2
    assert "No retention period given: pass --keep 90d." in messages
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__RETENTION_DAYS", "30")
    assert says("clean", "--work-store", str(tmp_path))[0] == 0


def test_an_output_is_released_when_told_to_and_another_pipeline_may_have_it(says: Say, stored: Pipeline) -> None:
    stored.run("two", output_name="s3://bucket/orders")
    words = ("release-output", "--work-store", stored.store.uri, "--output-name", "s3://bucket/orders/")
    before = stored.objects()
    status, output, messages = says(*words, "--output", "json")
    assert status == 0
    assert "dry run" in messages
    found = json.loads(output)
    assert (found["version"], found["dry_run"], found["pipeline"], found["kind"]) == (1, True, "g/dag/resolve", "log")
    assert stored.objects() == before

    status, output, messages = says(*words, "--execute")
    assert (status, messages) == (0, "")
    assert "Output s3://bucket/orders of pipeline 'g/dag/resolve' is released" in output
    assert owner_of(stored.store, "s3://bucket/orders") is None
    other = Pipeline(stored.cluster, stored.store, "orders", "other", name="other")
    other.run("one", output_name="s3://bucket/orders")
    status, output, messages = says(*words)
    assert "pipeline 'other/other/resolve' would be released" in output


@pytest.mark.parametrize("words", [(), ("--execute",)], ids=["dry", "execute"])
def test_an_output_that_nobody_has_is_said_and_stays_so(says: Say, stored: Pipeline, words: tuple[str, ...]) -> None:
    before = stored.objects()
    status, output, messages = says("release-output", "--work-store", stored.store.uri, "--output-name", "x", *words)
    assert (status, messages) == (0, "")
    assert "Output x is nobody's" in output
    assert stored.objects() == before


@pytest.mark.parametrize(
    ("words", "sentence"), [((), "--output-name is missing"), (("--output-name", " "), "is empty")]
)
def test_no_output_is_a_wrong_request(says: Say, tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    status, _, messages = says("release-output", "--work-store", str(tmp_path), *words)
    assert status == 2
    assert sentence in messages
