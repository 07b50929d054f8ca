"""`kafka-offsets runs`: what each of the last runs did, by the log; and what only Airflow knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.cli.commands import COMMANDS
from airflow_kafka_offsets.cli.main import run
from airflow_kafka_offsets.cli.store_commands import NOTHING
from airflow_kafka_offsets.kafka_values import TopicPartition
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline
from tests.cli.test_store_commands import shown

NOON = 1_795_176_000_000  # 2026-11-20T12:00Z
HOUR = 3_600_000


def facts(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(row["run_id"], row["state"], row["batch"], row["what"]) for row in found["runs"]]


@pytest.fixture
def history(stored: Pipeline) -> Pipeline:
    """Run `two` fails after its plan, `three` does its batch, `four` has nothing to do."""
    stored.at_ms = NOON
    stored.plan("two")
    stored.at_ms = NOON + HOUR
    stored.run("three")
    stored.at_ms = NOON + 2 * HOUR
    stored.commit("scheduled__2026-11-20T14:00:00+00:00", stored.plan("scheduled__2026-11-20T14:00:00+00:00"))
    return stored


def test_each_run_is_there_with_what_it_did_the_red_one_and_the_empty_one_too(says: Say, history: Pipeline) -> None:
    before = history.objects()
    found = shown(says, "runs", *of(history))
    last = [row for row in facts(found) if row[0] != "one"]
    assert last == [
        ("scheduled__2026-11-20T14:00:00+00:00", None, None, "had nothing to do"),
        ("three", None, "batch 2", "took it, committed it"),
        ("two", None, "batch 2", "planned it, left it to run dag/three/resolve, who committed it"),
    ]
    assert ("one", None, "batch 1", "planned it, committed it") in facts(found)
    assert found["airflow_asked"] is False
    _, text, _ = says("runs", *of(history))
    assert "unknown" in text
    assert "airflow kafka-offsets runs" in text
    assert history.objects() == before


def test_a_run_whose_batch_is_not_committed_says_so(says: Say, stored: Pipeline) -> None:
    stored.plan("two")
    assert ("two", None, "batch 2", "planned it, did not commit it") in facts(shown(says, "runs", *of(stored)))


def test_only_as_many_as_are_asked_for_the_newest_first(says: Say, history: Pipeline) -> None:
    assert [row["run_id"] for row in shown(says, "runs", *of(history), "--last", "2")["runs"]][-1] == "three"
    history.cluster.produce(TopicPartition("orders", 0), [1])
    assert says("runs", *of(history), "--last", "0")[0] == 2


def test_airflow_knows_the_state_of_each_and_runs_that_left_nothing_in_the_log(
    airflow: object, history: Pipeline, capfd: pytest.CaptureFixture[str]
) -> None:
    from datetime import UTC, datetime

    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    times = {"three": 13, "refused": 15}
    with create_session() as session:
        for name, hour in times.items():
            at = datetime(2026, 11, 20, hour, tzinfo=UTC)
            made = DagRun("dag", name, run_type=DagRunType.MANUAL, logical_date=at, run_after=at)
            made.state = "success" if name == "three" else "failed"
            session.add(made)
    [command] = [one for one in COMMANDS if one.name == "runs"]
    names = {"work_store": history.store.uri, "pipeline_id": history.pipeline_id, "output": "json", "instance": "a"}
    capfd.readouterr()
    assert run(command, names) == 0
    found = [row for row in facts(json.loads(capfd.readouterr().out)) if row[0] != "one"]  # which was just now
    assert found[0] == ("refused", "failed", None, NOTHING)
    assert ("three", "success", "batch 2", "took it, committed it") in found
