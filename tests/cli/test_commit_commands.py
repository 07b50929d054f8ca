"""`kafka-offsets verify` and `commit`: what the commit task does with a batch, by hand."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.request.subscription import default_pipeline_id
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline
from tests.cluster.real import RealHands

RUN_TWO = ("--dag-id", "dag", "--run-id", "two", "--task-id", "resolve")

# verify


def test_a_batch_that_was_read_is_verified_however_it_is_named(says: Say, stored: Pipeline) -> None:
    stored.read(stored.plan("two"))
    before = stored.objects()
    store = ("--work-store", stored.store.uri)
    for words in (
        (*of(stored), "--batch", "2"),
        (*of(stored), "--batch", stored.newest_key),
        (*of(stored), *RUN_TWO),
        (*store, *RUN_TWO, "--group-id", "g"),
        (*store, "--group-id", "g", "--dag-id", "dag", "--task-id", "resolve", "--batch", "2"),
    ):
        status, output, messages = says("verify", *words, "--output", "json")
        assert (status, messages) == (0, ""), words
        found = json.loads(output)
        assert (found["version"], found["key"], found["verified"]) == (1, stored.newest_key, True)
        assert [(row["split"], row["attempt"], row["rows"], row["proof"]) for row in found["splits"]] == [
            (0, 1, 6, "read back")
        ]
    assert stored.objects() == before
    said = " ".join(says("verify", *of(stored), "--batch", "2")[1].split())
    assert "is verified: its reports say that exactly its up to 6 records were read. What" in said
    assert "holds now was not looked at" in said, "it may have been deleted since"


def test_the_default_name_of_a_pipeline_is_the_operators(stored: Pipeline) -> None:
    assert default_pipeline_id("g", "dag", "resolve") == stored.pipeline_id


def test_a_batch_that_was_not_read_is_status_1_and_says_what_is_missing(says: Say, stored: Pipeline) -> None:
    batch = stored.plan("two").batch
    assert batch is not None
    begin(stored.store, batch.plan_object, batch.log.plan, 0, None)
    status, output, messages = says("verify", *of(stored), "--batch", "2", "--output", "json")
    assert status == 1
    found = json.loads(output)
    assert found["verified"] is False
    assert found["splits"][0]["problem"] == "attempt 1 began and has not reported; its output may be half written"
    assert "Clear its run from the Spark task on" in messages


def test_a_batch_that_is_done_once_more_is_verified_by_what_was_written_first_and_the_redo_is_told(
    says: Say, stored: Pipeline
) -> None:
    again = stored.plan("one")
    status, output, messages = says("verify", *of(stored), "--batch", "1")
    assert status == 0
    assert "is verified" in output
    assert "run dag/one/resolve is doing it once more, and that is not verified (yet)" in messages
    stored.read(again)
    assert says("verify", *of(stored), "--batch", "1")[2] == ""


def test_a_run_that_had_nothing_to_do_has_nothing_to_verify(says: Say, stored: Pipeline) -> None:
    stored.run("two")
    stored.plan("three")
    words = ("--dag-id", "dag", "--run-id", "three", "--task-id", "resolve")
    status, output, _ = says("verify", *of(stored), *words, "--output", "json")
    assert (status, json.loads(output)["verified"], json.loads(output)["key"]) == (0, True, None)


def test_a_run_whose_batch_was_cleaned_away_is_told_so(says: Say, stored: Pipeline) -> None:
    for file in stored.store.root.rglob("batches/*/*/*.json"):
        file.unlink()
    words = ("--dag-id", "dag", "--run-id", "one", "--task-id", "resolve")
    status, _, messages = says("verify", *of(stored), *words)
    assert status == 1
    assert "was cleaned away" in messages


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        pytest.param(["--pipeline-id", "g/dag/resolve"], 2, "Which batch?", id="none"),
        pytest.param(["--pipeline-id", "g/dag/resolve", "--batch", "1", *RUN_TWO], 2, "Which batch?", id="both"),
        pytest.param(
            ["--pipeline-id", "g/dag/resolve", "--dag-id", "dag", "--run-id", "r"], 2, "Which batch?", id="half"
        ),
        pytest.param(
            ["--pipeline-id", "g/dag/resolve", "--batch", "1", "--map-index", "1"],
            2,
            "Which batch?",
            id="index alone",
        ),
        pytest.param([*RUN_TWO], 2, "Which pipeline?", id="no pipeline"),
        pytest.param(["--pipeline-id", "g/dag/resolve", "--batch", "9"], 1, "no window '9'", id="unknown"),
        pytest.param(
            ["--pipeline-id", "g/dag/resolve", *RUN_TWO],
            1,
            "Run dag/two/resolve has taken no batch",
            id="unknown run",
        ),
        pytest.param(
            ["--pipeline-id", "g/dag/resolve", *RUN_TWO, "--map-index", "3"], 1, "dag/two/resolve[3]", id="mapped"
        ),
    ],
)
@pytest.mark.parametrize("command", ["verify", "commit"])
def test_a_batch_that_is_unclear_or_not_there_is_said(
    says: Say, stored: Pipeline, command: str, words: list[str], status: int, sentence: str
) -> None:
    cluster = ("--bootstrap-servers", "127.0.0.1:1") if command == "commit" else ()
    found, output, messages = says(command, *cluster, *words, "--work-store", stored.store.uri)
    assert (found, output) == (status, "")
    assert sentence in messages


# commit


def test_a_commit_is_a_dry_run_that_shows_before_and_after_unless_it_is_told_to_execute(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    pipeline.read(pipeline.plan("two"))
    before = pipeline.objects()
    words = ("commit", *at, *of(pipeline), *RUN_TWO, "--output", "json")
    status, output, messages = says(*words)
    assert status == 0
    assert "dry run" in messages
    shown = json.loads(output)
    assert (shown["version"], shown["dry_run"], shown["committed"]) == (1, True, False)
    assert [(row["partition"], row["before"], row["after"]) for row in shown["partitions"]] == [(0, 4, 10), (1, 0, 0)]
    assert pipeline.objects() == before
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 4

    status, output, messages = says(*words, "--execute")
    assert (status, messages) == (0, "")
    done = json.loads(output)
    assert (done["dry_run"], done["committed"], done["partitions"]) == (False, True, shown["partitions"])
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 10
    newest = pipeline.log.newest()
    assert newest is not None
    assert newest.log.committed is not None
    assert newest.log.committed.by == Actor(None, None), "a person, of no Airflow"


def test_the_first_commit_of_a_pipeline_shows_its_group_without_offsets(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    first = Pipeline(pipeline.cluster, pipeline.store, pipeline.topic, f"{pipeline.group}-first")
    first.read(first.plan("one"))
    _, output, _ = says("commit", *at, *of(first), "--batch", "1", "--output", "json")
    rows = [(row["partition"], row["before"], row["after"]) for row in json.loads(output)["partitions"]]
    assert rows == [(0, None, 10), (1, None, 0)]
    assert "would be committed; the group would follow in 2" in says("commit", *at, *of(first), "--batch", "1")[1]


def test_a_commit_that_was_made_before_is_said_and_the_group_follows_again(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    RealHands(broker).expire(pipeline.group)
    words = ("commit", *at, *of(pipeline), "--batch", "1", "--execute")
    status, output, _ = says(*words)
    assert status == 0
    assert "batch 1 was committed before, by run dag/one/resolve" in output
    assert committed_offsets(broker, pipeline.group, pipeline.topic) == {0: 4, 1: 0}


def test_a_dry_run_refuses_as_the_commit_would(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    assignment = pipeline.plan("two")
    before = pipeline.objects()
    for execute in ((), ("--execute",)):
        status, output, messages = says("commit", *at, *of(pipeline), "--batch", "2", *execute)
        assert (status, output) == (1, "")
        assert "no Spark job has begun" in messages
        assert "--no-require-report is for jobs that make no report" in messages
    assert pipeline.objects() == before
    pipeline.read(assignment)
    moved = {TopicPartition(pipeline.topic, 0): CommittedOffset(9)}
    RealHands(broker).commit_as_somebody_else(pipeline.group, moved)
    for execute in ((), ("--execute",)):
        status, output, messages = says("commit", *at, *of(pipeline), "--batch", "2", *execute)
        assert (status, output) == (1, "")
        assert "the group is at 9, by somebody else" in messages
        assert "group_moved" in messages, "the DAG's parameter, which commit has no option for"
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 9


def test_a_job_without_reports_is_committed_on_the_callers_word(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    pipeline.plan("two")
    assert says("commit", *at, *of(pipeline), "--batch", "2", "--no-require-report", "--execute")[0] == 0
    assert committed_offsets(broker, pipeline.group, pipeline.topic)[0] == 10


def test_a_pipeline_that_moves_no_group_is_committed_and_the_group_left_alone(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    alone = Pipeline(pipeline.cluster, pipeline.store, pipeline.topic, f"{pipeline.group}-alone")
    alone.parameters["commit_mode"] = "checkpoint-only"
    alone.read(alone.plan("one"))
    status, output, _ = says("commit", *at, *of(alone), "--batch", "1", "--execute", "--output", "json")
    found = json.loads(output)
    assert (status, found["committed"], found["partitions"]) == (0, True, [])
    assert "checkpoint-only" in found["group_left_alone"]
