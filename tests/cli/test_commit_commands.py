"""`kafka-offsets verify` and `commit`: what the commit task does with a batch, by hand."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.request.subscription import default_pipeline_id
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline
from tests.cluster.real import RealHands

HOUR_MS = 3_600_000
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


# verify a stretch


def numbers(output: str) -> list[int]:
    return [row["number"] for row in json.loads(output)["batches"]]


@pytest.fixture
def three(stored: Pipeline) -> Pipeline:
    """Three batches, committed in three hours; a fourth that nobody has read."""
    tp = TopicPartition("orders", 0)
    for hour, run in enumerate(("two", "three"), 1):
        stored.at_ms = now_ms() + hour * HOUR_MS
        stored.run(run)
        stored.cluster.produce(tp, [1] * 2)
    stored.at_ms = now_ms() + 3 * HOUR_MS
    stored.plan("four")
    return stored


def test_each_batch_from_one_to_another_is_verified(says: Say, three: Pipeline) -> None:
    first = three.log.batch(1)
    assert first is not None
    before = three.objects()
    for bounds, expected in (
        (("--from", "1", "--to", "3"), [3, 2, 1]),
        (("--to", "2"), [2, 1]),
        (("--from", "2", "--to", "2"), [2]),
        (("--from", first.log.plan.batch.key, "--to", "1"), [1]),
    ):
        status, output, messages = says("verify", *of(three), *bounds, "--output", "json")
        assert (status, messages, numbers(output)) == (0, "", expected), bounds
        assert json.loads(output)["verified"] is True
    _, output, _ = says("verify", *of(three), "--from", "2", "--to", "3")
    assert "2 batches, 2 to 3, are verified" in output
    assert three.objects() == before


def test_a_time_bounds_the_stretch_by_when_batches_were_committed(says: Say, three: Pipeline) -> None:
    """The first time counts, the last one does not: the days of a week have each batch once."""
    moments = [three.log.batch(number).log.committed.at_ms for number in (1, 2, 3)]  # type: ignore[union-attr]
    for bounds, expected in (
        (("--from", str(moments[1]), "--to", str(moments[2])), [2]),
        (("--to", str(moments[1])), [1]),
        (("--from", str(moments[0]), "--to", str(moments[2] + 1)), [3, 2, 1]),
    ):
        status, output, _ = says("verify", *of(three), *bounds, "--output", "json")
        assert (status, numbers(output)) == (0, expected), bounds


def test_a_batch_of_the_stretch_that_was_not_read_is_status_1_and_named(says: Say, three: Pipeline) -> None:
    status, output, messages = says("verify", *of(three), "--from", "3", "--output", "json")
    assert (status, numbers(output)) == (1, [4, 3])
    assert [row["verified"] for row in json.loads(output)["batches"]] == [False, True]
    assert "batch 4, split 0: no Spark job has begun to read it" in messages


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        pytest.param(["--from", "1", "--batch", "1"], 2, "Give --from and --to alone", id="both"),
        pytest.param(["--from", "yesterday"], 2, "--from is 'yesterday'; give epoch milliseconds", id="no time"),
        pytest.param(["--from", "7"], 1, "has no batch there", id="nothing there"),
        pytest.param(["--from", "3", "--to", "2"], 1, "has no batch there", id="the wrong way round"),
    ],
)
def test_a_stretch_that_is_unclear_or_empty_is_said(
    says: Say, stored: Pipeline, words: list[str], status: int, sentence: str
) -> None:
    found, output, messages = says("verify", *of(stored), *words)
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
