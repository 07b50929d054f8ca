"""`kafka-offsets plan`, as a person at a terminal has it."""

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline
from tests.docs.test_schemas import SCHEMA, closed, validator


def test_the_json_is_the_plan_and_nothing_else(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 3)
    status, output, messages = says(
        "plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name, "--group-id", group,
        "--startup-mode", "earliest-offset", "--output", "json",
    )  # fmt: skip
    assert (status, messages) == (0, "")
    plan = json.loads(output)
    validator("draft", closed(SCHEMA)).validate(plan)  # in no log, so that it has no batch and nobody's name
    columns = plan["topics"][name]
    assert (columns["start_offset"], columns["end_offset"], plan["group_id"]) == ([0, 0], [3, 0], group)
    assert committed_offsets(broker, group, name) == {}


def test_the_table_says_why_each_partition_starts_where_it_does(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)] * 3)
    words = ("plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name, "--group-id", group)
    status, output, messages = says(*words, "--auto-offset-reset", "latest")
    assert (status, messages) == (0, "")
    assert "no commit → latest" in output
    assert output.splitlines()[1].split()[:7] == [name, "0", "0", "3", "3", "0", "0"], "3 skipped comes next"
    assert output.splitlines()[1].split()[7] == "3"


def test_the_table_has_what_lies_past_the_end_where_there_is_some(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)] * 3)
    words = ("plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name, "--startup-mode")
    _, capped, _ = says(*words, "earliest-offset", "--max-records", "1")
    assert "past end" in capped
    assert capped.splitlines()[1].split()[8] == "2"
    assert "past end" not in says(*words, "earliest-offset")[1]


def test_a_group_without_a_commit_is_asked_about_in_the_options_own_names(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    """Nothing is skipped in silence (A1)."""
    name = topic(1)
    status, output, messages = says(
        "plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name, "--group-id", group
    )
    assert (status, output) == (1, "")
    assert '--startup-mode="earliest-offset" or "latest-offset", or --auto-offset-reset "earliest"' in messages


def test_specific_offsets_for_a_partition_that_does_not_exist_are_said(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    status, output, messages = says(
        "plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name, "--group-id", group,
        "--startup-mode", "specific-offsets", "--specific-offsets", json.dumps({name: {"0": 0, "7": 5}}),
        "--output", "json",
    )  # fmt: skip
    assert status == 0
    assert messages.startswith("warning: ")
    assert f"{name}[7]" in messages
    assert json.loads(output)["ignored"] == [f"{name}[7]"]


# with a pipeline's position


def test_with_a_pipeline_id_it_goes_on_from_that_pipelines_position_and_writes_nothing(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    before = pipeline.objects()
    words = ("plan", *at, *of(pipeline), "--topics", pipeline.topic, "--group-id", pipeline.group, "--output", "json")
    status, output, messages = says(*words, "--startup-mode", "earliest-offset")
    assert (status, messages) == (0, "")
    assert ranges(output, pipeline) == [(4, 10), (0, 0)]
    assert pipeline.objects() == before


def test_an_unfinished_batch_is_what_the_next_run_does(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    pipeline.plan("two")
    broker.produce(pipeline.topic, [(0, None, b"x", None)] * 3)
    words = ("plan", *at, *of(pipeline), "--topics", pipeline.topic, "--group-id", pipeline.group, "--output", "json")
    _, output, messages = says(*words, "--startup-mode", "earliest-offset")
    assert ranges(output, pipeline) == [(4, 10), (0, 0)]
    assert json.loads(output)["batch"]["key"] == pipeline.newest_key
    assert "batch 2 is not committed: the next run does it again, as it is" in messages


def test_another_startup_mode_than_the_pipelines_is_not_applied_and_said(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    words = ("plan", *at, *of(pipeline), "--topics", pipeline.topic, "--group-id", pipeline.group)
    _, _, messages = says(*words, "--startup-mode", "latest-offset")
    assert "latest-offset is not applied" in messages


def test_a_pipeline_that_the_store_does_not_have_is_status_1_and_named(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    words = ("--topics", pipeline.topic, "--startup-mode", "earliest-offset", "--work-store", pipeline.store.uri)
    status, output, messages = says("plan", *at, *words, "--pipeline-id", "another")
    assert (status, output) == (1, "")
    assert f"{pipeline.store.uri} has no pipeline 'another'" in messages
    assert "A first run is planned without --pipeline-id" in messages
    status, _, messages = says("plan", *at, *words)
    assert status == 2
    assert "--work-store goes with --pipeline-id only" in messages


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("--restart", "today"), "--restart"),
        (("--re-plan",), "--re-plan"),
        (("--redo",), "--redo"),
        (("--skip", "k"), "--skip"),
    ],
)
def test_a_word_about_batches_needs_a_pipeline(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], words: tuple[str, ...], flag: str
) -> None:
    at = ("--bootstrap-servers", broker.bootstrap_servers, "--topics", topic(1), "--startup-mode", "earliest-offset")
    status, _, messages = says("plan", *at, *words)
    assert status == 2
    assert f"{flag} goes with --pipeline-id only" in messages


def test_what_a_run_would_refuse_a_plan_refuses_too(
    says: Say, pipeline: Pipeline, broker: KafkaBroker, at: tuple[str, ...]
) -> None:
    """Somebody has set the group since the last run; a policy that goes on is shown as it would be."""
    reset = Consumer({**broker.client_config, "group.id": pipeline.group, "enable.auto.commit": False})
    reset.commit(offsets=[KafkaTopicPartition(pipeline.topic, 0, 1)], asynchronous=False)
    reset.close()
    words = ("plan", *at, *of(pipeline), "--topics", pipeline.topic, "--group-id", pipeline.group)

    status, _, messages = says(*words)
    assert (status, "Somebody else wrote to group" in messages) == (1, True)

    status, output, _ = says(*words, "--policies", "group_moved=adopt-group", "--output", "json")
    assert status == 0
    assert ranges(output, pipeline) == [(1, 10), (0, 0)]


def test_a_restart_is_planned_as_the_run_would(says: Say, pipeline: Pipeline, at: tuple[str, ...]) -> None:
    words = ("plan", *at, *of(pipeline), "--topics", pipeline.topic, "--group-id", pipeline.group, "--output", "json")
    status, output, _ = says(*words, "--startup-mode", "earliest-offset", "--restart", "today")
    assert status == 0
    assert ranges(output, pipeline) == [(0, 10), (0, 0)]


def ranges(output: str, pipeline: Pipeline) -> list[tuple[int, int]]:
    columns = json.loads(output)["topics"][pipeline.topic]
    return list(zip(columns["start_offset"], columns["end_offset"], strict=True))


# the forms of the output


def test_the_csv_has_a_row_a_partition(says: Say, broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic(3)
    _, output, _ = says(
        "plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name,
        "--startup-mode", "earliest-offset", "--output", "csv",
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(output)))
    assert [(row["topic"], row["partition"], row["end"]) for row in rows] == [(name, str(n), "0") for n in range(3)]


@pytest.mark.parametrize("form", ["offsets-csv", "offsets-flink"])
def test_starts_go_out_to_a_file_and_come_in_from_it(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str, tmp_path: Path, form: str
) -> None:
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 5)
    cluster = ("--bootstrap-servers", broker.bootstrap_servers, "--topics", name, "--group-id", group)
    _, exported, _ = says("plan", *cluster, "--startup-mode", "latest-offset", "--output", form)
    file = tmp_path / "starts"
    file.write_text(exported)

    status, output, _ = says(
        "plan", *cluster, "--startup-mode", "specific-offsets", "--specific-offsets", f"@{file}", "--output", "json"
    )

    assert status == 0
    assert json.loads(output)["topics"][name]["start_offset"] == [5, 0]


@pytest.mark.parametrize("form", ["ends-csv", "ends-flink"])
def test_ends_go_out_to_a_file_and_come_in_from_it(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path, form: str
) -> None:
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 5)
    words = ("plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name)
    words = (*words, "--startup-mode", "earliest-offset", "--output")
    _, exported, _ = says(*words, form)
    file = tmp_path / "ends"
    file.write_text(exported)
    broker.produce(name, [(0, None, b"x", None)] * 3)

    bounds = ("--bounded-mode", "specific-offsets", "--bounded-offsets", f"@{file}")
    status, output, _ = says(*words, "json", *bounds)

    assert status == 0
    assert json.loads(output)["topics"][name]["end_offset"] == [5, 0]


def test_a_plan_goes_out_to_a_file_and_comes_in_from_it(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 5)
    at = ("plan", "--bootstrap-servers", broker.bootstrap_servers, "--output", "json")
    _, exported, _ = says(*at, "--topics", name, "--startup-mode", "earliest-offset")
    file = tmp_path / "plan.json"
    file.write_text(exported)
    broker.produce(name, [(0, None, b"x", None)] * 3)

    status, output, messages = says(*at, "--from-plan", f"@{file}")

    assert (status, messages) == (0, "")
    columns = ("partition", "start_offset", "end_offset")
    before, after = (json.loads(plan)["topics"][name] for plan in (exported, output))
    assert [after[column] for column in columns] == [before[column] for column in columns] == [[0, 1], [0, 0], [5, 0]]
    status, output, messages = says(*at, "--from-plan", "{}")
    assert (status, output) == (2, "")
    assert "--from-plan is no plan" in messages


@pytest.mark.parametrize("form", ["json", "properties"])
def test_a_client_configuration_is_read_from_a_file(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path, form: str
) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", "group.id": "from-file"}
    file = tmp_path / "client"
    lines = "# a comment\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())
    file.write_text(json.dumps(settings) if form == "json" else lines)

    status, output, _ = says("plan", "--client-config", str(file), "--topics", topic(1), "--output", "json")

    assert status == 0
    assert json.loads(output)["group_id"] == "from-file"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--startup-mode", "newest"], "--startup-mode is 'newest'", id="unknown mode"),
        pytest.param(["--startup-mode", "timestamp"], "--startup-timestamp is missing", id="no timestamp"),
        pytest.param(["--startup-timestamp", "5"], "it goes with --startup-mode='timestamp' only", id="another mode's"),
        pytest.param(["--topic-pattern", "x"], "exactly one of --topics, --topic-pattern and --partitions", id="both"),
        pytest.param(["--startup-mode", "timestamp", "--startup-timestamp=-5"], "cannot be negative", id="negative"),
        pytest.param(
            ["--startup-mode", "timestamp", "--startup-timestamp", "2999-01-01"], "in the future", id="future"
        ),
        pytest.param([], "there is no consumer group", id="no group"),
    ],
)
def test_a_wrong_request_is_told_before_any_cluster_is_asked(says: Say, words: list[str], said: str) -> None:
    status, output, messages = says("plan", "--bootstrap-servers", "127.0.0.1:1", "--topics", "orders", *words)
    assert (status, output) == (2, "")
    assert said in messages


def test_all_problems_come_at_once(says: Say) -> None:
    _, _, messages = says(
        "plan", "--bootstrap-servers", "127.0.0.1:1", "--startup-mode", "newest", "--policies", "data_loss=hope"
    )
    assert "3 problems" in messages


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], id="none"),
        pytest.param(["--client-config", "no-such-file"], id="no file"),
        pytest.param(["--kafka-config-id", "k", "--bootstrap-servers", "h:1"], id="two"),
    ],
)
def test_an_unclear_cluster_is_a_wrong_request(says: Say, words: list[str]) -> None:
    status, _, messages = says("plan", "--topics", "orders", "--group-id", "g", *words)
    assert status == 2
    assert "kafka-offsets: " in messages


def test_a_broken_line_of_a_properties_file_is_named_by_its_number_and_not_shown(says: Say, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=h:1\nsasl.password hunter2\n")
    status, _, messages = says("plan", "--client-config", str(file), "--topics", "orders", "--group-id", "g")
    assert status == 2
    assert "line 2" in messages
    assert "hunter2" not in messages


def test_a_topic_that_does_not_exist_is_refused_by_name(says: Say, broker: KafkaBroker) -> None:
    status, _, messages = says(
        "plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", "no-such-topic", "--group-id", "g"
    )
    assert status == 1
    assert "no-such-topic does not exist" in messages
    assert "no-such-topic" not in broker.admin().list_topics(timeout=10).topics


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "no-such-host.invalid:9092"], ids=["refused", "unknown name"])
def test_a_cluster_that_does_not_answer_is_said_within_15_seconds_with_address_and_reason(
    says: Say, servers: str
) -> None:
    begin = time.monotonic()
    status, _, messages = says("plan", "--bootstrap-servers", servers, "--topics", "orders", "--group-id", "g")
    assert status == 3
    assert time.monotonic() - begin < 15  # the promise itself, not a measure of speed
    assert servers in messages
    assert "Connection refused" in messages or "resolve" in messages.lower()
