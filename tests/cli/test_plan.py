"""`kafka-offsets plan`, as a person at a terminal has it."""

import csv
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_offsets.offsets.manifest import plan_from_dict
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from tests.cli.conftest import Say


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
    plan = plan_from_dict(json.loads(output))
    assert [(p.start_offset, p.end_offset) for p in plan.partitions] == [(0, 3), (0, 0)]
    assert plan.group_id == group
    assert committed_offsets(broker, group, name) == {}


def test_the_table_says_why_each_partition_starts_where_it_does(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)] * 3)
    status, output, messages = says(
        "plan", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name, "--group-id", group
    )
    assert status == 0
    assert "no commit → latest (default)" in output
    assert "3 offsets are skipped" in messages


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
        pytest.param(["--startup-mode", "newest"], "startup_mode is 'newest'", id="unknown mode"),
        pytest.param(["--startup-mode", "timestamp"], "startup_timestamp is missing", id="no timestamp"),
        pytest.param(["--startup-timestamp", "5"], "it goes with startup_mode='timestamp' only", id="another mode's"),
        pytest.param(["--topic-pattern", "x"], "exactly one of topics, topic_pattern and partitions", id="both"),
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
        "plan", "--bootstrap-servers", "127.0.0.1:1", "--startup-mode", "newest", "--on-data-loss", "hope"
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


def test_the_console_script_and_airflows_command_line_say_the_same(
    airflow: Path, broker: KafkaBroker, topic: Callable[..., str]
) -> None:
    words = ["plan", "--topics", topic(2), "--startup-mode", "earliest-offset", "--output", "csv"]
    script = [str(Path(sys.executable).parent / "kafka-offsets"), *words, "--kafka-config-id", "kafka_default"]
    inside = [sys.executable, "-m", "airflow", "kafka-offsets", *words, "--kafka-config-id", "kafka_default"]
    one, other = (subprocess.run(call, capture_output=True, text=True, check=False) for call in (script, inside))
    assert (one.returncode, other.returncode) == (0, 0), one.stderr + other.stderr
    assert one.stdout == other.stdout
    assert one.stdout.count("\n") == 3


def test_airflows_command_line_returns_the_exit_status(airflow: Path) -> None:
    words = ["kafka-offsets", "plan", "--bootstrap-servers", "h:1", "--startup-mode", "newest"]
    result = subprocess.run([sys.executable, "-m", "airflow", *words], capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    assert "startup_mode is 'newest'" in result.stderr
