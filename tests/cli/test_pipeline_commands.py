"""`checkpoint`, `verify`, `commit`, `unblock`, `clean`: what a person does with a pipeline's work store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_kafka_offsets.stores.reads import begin_read
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from tests.cli.conftest import Say
from tests.contract.pipeline import CHECKPOINT, Pipeline

RUN_TWO = ("--dag-id", "dag", "--run-id", "two", "--task-id", "resolve")


def objects(pipeline: Pipeline) -> set[str]:
    return {str(file) for file in Path(pipeline.store.uri).glob("**/*") if file.is_file()}


# checkpoint


def test_the_checkpoint_says_where_the_pipeline_goes_on_and_whence(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    plan = pipeline.plan("one")
    status, output, messages = says("checkpoint", *at, "--checkpoint-id", CHECKPOINT, "--output", "json")
    assert (status, messages) == (0, "")
    found = json.loads(output)
    assert (found["sequence"], found["plan"], found["run"]) == (1, plan.plan_id, "dag/one/resolve")
    assert (found["startup"], found["parent"], found["restarts"]) == ("earliest-offset", plan.parent, [])
    assert [(row["partition"], row["offset"], row["group"]) for row in found["partitions"]] == [(0, 4, 4), (1, 0, 0)]
    _, table, _ = says(
        "checkpoint", "--work-store", pipeline.store.uri, "--checkpoint-id", CHECKPOINT,
        "--cluster-id", plan.cluster_id,
    )  # fmt: skip
    assert "run: dag/one/resolve" in table


def test_the_history_is_newest_first(says: Say, pipeline: Pipeline, at: tuple[str, ...]) -> None:
    pipeline.run("two", restart="again")
    _, output, _ = says("checkpoint", *at, "--checkpoint-id", CHECKPOINT, "--history", "3", "--output", "json")
    rows = json.loads(output)["checkpoints"]
    assert [(row["sequence"], row["run"], row["restarts"]) for row in rows] == [
        (3, "dag/two/resolve", "again"),
        (2, "dag/two/resolve", "again"),
        (1, "dag/one/resolve", ""),
    ]


def test_a_pipeline_without_a_checkpoint_is_status_1_and_says_where_it_looked(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    status, output, messages = says("checkpoint", *at, "--checkpoint-id", "another")
    assert (status, output) == (1, "")
    assert "no checkpoint of 'another'" in messages
    assert pipeline.store.uri in messages


# verify


def test_a_plan_that_was_read_is_verified(says: Say, pipeline: Pipeline) -> None:
    plan = pipeline.plan("two")
    pipeline.read(plan)
    before = objects(pipeline)
    for words in (RUN_TWO, ("--plan-id", plan.plan_id)):
        status, output, messages = says("verify", *words, "--work-store", pipeline.store.uri, "--output", "json")
        assert (status, messages) == (0, "")
        found = json.loads(output)
        assert (found["plan_id"], found["verified"]) == (plan.plan_id, True)
        assert [(row["split"], row["records"], row["proof"]) for row in found["splits"]] == [(0, 6, "counts")]
    assert objects(pipeline) == before


def test_a_plan_that_was_not_read_is_status_1_and_the_table_of_what_is_missing(says: Say, pipeline: Pipeline) -> None:
    plan = pipeline.plan("two")
    begin_read(pipeline.store, plan, 0, None)
    status, output, messages = says("verify", *RUN_TWO, "--work-store", pipeline.store.uri, "--output", "json")
    assert status == 1
    found = json.loads(output)
    assert found["verified"] is False
    assert "attempt 1 began and has not reported" in found["problems"][0]["missing"]
    assert "Clear the Spark task" in messages


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param([], "Which plan?", id="none"),
        pytest.param(["--plan-id", "p", *RUN_TWO], "Which plan?", id="both"),
        pytest.param(["--dag-id", "dag"], "Which plan?", id="half"),
        pytest.param(["--plan-id", "p"], "There is no plan p in the work store", id="unknown"),
        pytest.param(RUN_TWO, "There is no plan of run dag/two/resolve", id="unknown run"),
    ],
)
@pytest.mark.parametrize("command", ["verify", "commit"])
def test_an_unclear_plan_is_a_wrong_request(
    says: Say, tmp_path: Path, command: str, words: list[str], said: str
) -> None:
    cluster = ("--bootstrap-servers", "127.0.0.1:1") if command == "commit" else ()
    status, output, messages = says(command, *cluster, *words, "--work-store", str(tmp_path))
    assert (status, output) == (2, "")
    assert said in messages


# commit


def test_a_commit_is_a_dry_run_unless_it_is_told_to_execute(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    pipeline.read(pipeline.plan("two"))
    before = objects(pipeline)
    status, output, messages = says("commit", *at, *RUN_TWO, "--output", "json")
    assert status == 0
    assert "dry run" in messages
    shown = json.loads(output)
    assert shown["dry_run"] is True
    assert [(row["partition"], row["before"], row["after"]) for row in shown["partitions"]] == [(0, 4, 10), (1, 0, 0)]
    assert objects(pipeline) == before
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 4

    status, output, messages = says("commit", *at, *RUN_TWO, "--execute", "--output", "json")
    assert (status, messages) == (0, "")
    assert json.loads(output)["partitions"] == shown["partitions"]
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 10
    assert any("receipt" in name for name in objects(pipeline) - before)


def test_a_dry_run_refuses_as_the_commit_would(says: Say, pipeline: Pipeline, at: tuple[str, ...]) -> None:
    plan = pipeline.plan("two")
    for execute in ((), ("--execute",)):
        status, output, messages = says("commit", *at, *RUN_TWO, *execute)
        assert (status, output) == (1, "")
        assert "no Spark job has begun" in messages
    pipeline.read(plan)
    pipeline.run("three")
    for execute in ((), ("--execute",)):
        status, output, messages = says("commit", *at, *RUN_TWO, *execute)
        assert (status, output) == (1, "")
        for way in ("re_plan", "on_group_moved", "kafka-offsets commit --execute", "kafka-offsets unblock"):
            assert way in messages


def test_a_job_without_reports_is_committed_on_the_callers_word(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    pipeline.plan("two")
    assert says("commit", *at, *RUN_TWO, "--no-require-report", "--execute")[0] == 0
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 10


def test_a_dry_run_of_checkpoint_only_writes_no_checkpoint(says: Say, pipeline: Pipeline, at: tuple[str, ...]) -> None:
    pipeline.read(pipeline.plan("two"))
    before = objects(pipeline)
    status, output, _ = says("commit", *at, *RUN_TWO, "--commit-mode", "checkpoint-only")
    assert (status, objects(pipeline)) == (0, before)
    assert "checkpoint-only" in output
    assert says("commit", *at, *RUN_TWO, "--commit-mode", "checkpoint-only", "--execute")[0] == 0
    assert objects(pipeline) != before


# unblock


def test_unblock_shows_what_is_given_up_and_does_it_when_told_to(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    words = ("unblock", *at, "--checkpoint-id", CHECKPOINT, "--to", json.dumps({pipeline.topic: {"0": 8}}))
    before = objects(pipeline)
    status, output, messages = says(*words, "--output", "json")
    assert status == 0
    assert "dry run" in messages
    row = json.loads(output)["partitions"][0]
    expected = {"position": 4, "to": 8, "skipped": 4, "lost": 0, "group_before": 4, "group_after": 8}
    assert {name: row[name] for name in expected} == expected
    assert objects(pipeline) == before
    status, output, messages = says(*words, "--execute")
    assert (status, messages) == (0, "")
    assert "up to 4 records were given up" in output
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 8
    assert "the position is there already" in says(*words, "--execute")[1]


def test_unblock_takes_its_offsets_from_a_file_and_names_what_is_wrong(
    says: Say, pipeline: Pipeline, at: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "to"
    file.write_text(f"topic:{pipeline.topic},partition:0,offset:3")
    status, _, messages = says("unblock", *at, "--checkpoint-id", CHECKPOINT, "--to", f"@{file}")
    assert status == 1
    assert "3 is below the position 4" in messages
    assert "restart" in messages
    status, _, messages = says("unblock", *at)
    assert status == 2
    assert "--checkpoint-id is missing" in messages
    assert "--to is missing" in messages


# clean


def test_clean_lists_what_is_old_and_removes_it_when_told_to(says: Say, pipeline: Pipeline) -> None:
    pipeline.run("two")
    pipeline.run("three")
    words = ("clean", "--work-store", pipeline.store.uri, "--keep", "90d")
    assert "0 objects" in says(*words)[1]
    for file in objects(pipeline):
        os.utime(file, (1, 1))
    before = objects(pipeline)
    status, output, messages = says(*words, "--output", "json")
    assert status == 0
    assert "dry run" in messages
    shown = json.loads(output)
    # The plans say themselves that they are of today. One checkpoint is older than the newest two and no plan's commit;
    # of three turns that are over, two (and what says so) are not the last.
    counts = {row["kind"]: row["objects"] for row in shown["kinds"]}
    assert counts == {"plans": 0, "reads": 0, "receipts": 0, "outputs": 0, "checkpoints": 5}
    assert objects(pipeline) == before
    status, output, messages = says(*words, "--execute", "--output", "json")
    assert (status, messages) == (0, "")
    assert json.loads(output)["kinds"] == shown["kinds"]
    assert len(before - objects(pipeline)) == 5
    assert "0 objects" in says(*words)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--keep", "soon"], "--keep is 'soon'", id="no duration"),
        pytest.param(["--keep", "PT1H"], "at least a day", id="an hour"),
    ],
)
def test_clean_wants_to_know_how_long_is_kept(says: Say, tmp_path: Path, words: list[str], said: str) -> None:
    status, output, messages = says("clean", "--work-store", str(tmp_path), *words)
    assert (status, output) == (2, "")
    assert said in messages


def test_clean_takes_its_default_from_airflows_configuration(
    airflow: Path, says: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, messages = says("clean", "--work-store", str(tmp_path))
    assert status == 2
    assert "retention_days" in messages
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__RETENTION_DAYS", "30")
    assert says("clean", "--work-store", str(tmp_path))[0] == 0


def test_every_command_is_airflows_too(airflow: Path, pipeline: Pipeline) -> None:
    words = ["--kafka-config-id", "kafka_default", "--checkpoint-id", CHECKPOINT, "--work-store", pipeline.store.uri]
    script = [str(Path(sys.executable).parent / "kafka-offsets"), "checkpoint", *words]
    inside = [sys.executable, "-m", "airflow", "kafka-offsets", "checkpoint", *words]
    one, other = (subprocess.run(call, capture_output=True, text=True, check=False) for call in (script, inside))
    assert (one.returncode, other.returncode) == (0, 0), one.stderr + other.stderr
    assert one.stdout == other.stdout
    shown = subprocess.run([sys.executable, "-m", "airflow", "kafka-offsets", "--help"], capture_output=True, text=True)
    for command in ("plan", "partitions", "lag", "checkpoint", "verify", "commit", "unblock", "clean"):
        assert command in shown.stdout
