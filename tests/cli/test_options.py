"""The options come from one place, and what is wrong with one is a sentence, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from airflow_kafka_offsets.cli.commands import COMMANDS
from airflow_kafka_offsets.cli.options import OF_FIELD, request_of
from airflow_kafka_offsets.request.parameters import RequestParameters
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline

NOWHERE = ("--bootstrap-servers", "127.0.0.1:1")
OWN_OF_PLAN = {
    *("bootstrap_servers", "client_config", "kafka_config_id"),
    *("work_store", "output"),
}


def test_every_field_of_a_request_is_an_option_of_plan_and_every_other_option_is_known() -> None:
    plan = next(command for command in COMMANDS if command.name == "plan")
    names = [field.name for field in fields(RequestParameters)]
    flags = {option.flag for option in plan.options}
    assert {"--" + name.replace("_", "-") for name in names} <= flags
    assert {option.name for option in plan.options} == {*names, *OWN_OF_PLAN}
    assert len(flags) == len(plan.options), "no flag twice"


def test_every_option_of_a_field_says_what_it_is_and_none_is_of_a_field_that_is_gone() -> None:
    assert {field.name for field in fields(RequestParameters)} == set(OF_FIELD)
    assert all(option.help.partition(";")[0] for option in OF_FIELD.values())


def test_an_option_that_is_not_given_leaves_the_fields_default(says: Say) -> None:
    import argparse

    from airflow_kafka_offsets.cli.main import _parser

    parsed: argparse.Namespace = _parser().parse_args(["plan", "--topics", "orders"])
    assert request_of(vars(parsed)) == {"topics": "orders"}
    parsed = _parser().parse_args(["plan", "--no-filter-restored-partitions", "--re-plan", "--splits", "2"])
    assert request_of(vars(parsed)) == {"filter_restored_partitions": False, "re_plan": True, "splits": "2"}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_its_function_and_its_help(says: Say, command) -> None:  # type: ignore[no-untyped-def]
    module = import_module(f"airflow_kafka_offsets.cli.{command.module}")
    assert callable(getattr(module, command.name.replace("-", "_")))
    status, output, _ = says(command.name, "--help")
    assert status == 0
    assert all(option.flag in output for option in command.options)


def test_the_commands_are_those_of_the_design() -> None:
    names = {command.name for command in COMMANDS}
    assert names == {
        *("plan", "partitions", "lag", "pipelines", "show", "verify", "commit", "skip", "redo", "reset"),
        *("record", "sample", "clean", "release-output", "explain", "audit", "runs", "write-checkpoint", "take-over"),
    }


def without_airflow(*words: str) -> subprocess.CompletedProcess[str]:
    """Status 99 where the command has imported Airflow."""
    code = (
        "import sys; from airflow_kafka_offsets.cli.main import main; status = main(sys.argv[1:]);"
        "sys.exit(99 if any(name.partition('.')[0] == 'airflow' for name in sys.modules) else status)"
    )
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


def test_a_plan_of_a_cluster_that_is_named_imports_no_airflow(pipeline: Pipeline, at: tuple[str, ...]) -> None:
    words = ("--topics", pipeline.topic, "--startup-mode", "earliest-offset", "--group-id", pipeline.group)
    for more in ((), of(pipeline)):
        done = without_airflow("plan", *at, *words, *more)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["pipelines", "show", "verify", "clean", "skip", "audit", "runs"])
def test_a_command_on_a_named_work_store_imports_no_airflow(stored: Pipeline, command: str) -> None:
    stored.plan("two")
    more = {
        "show": of(stored),
        "audit": of(stored),
        "runs": of(stored),
        "verify": (*of(stored), "--batch", "1"),
        "clean": ("--work-store", stored.store.uri, "--keep", "90d"),
        "skip": (*of(stored), "--batch", stored.newest_key),
    }.get(command, ("--work-store", stored.store.uri))
    done = without_airflow(command, *more)
    assert done.returncode == 0, done.stderr


PLAN = ("plan", *NOWHERE, "--topics", "orders", "--group-id", "g")
SPECIFIC = (*PLAN, "--startup-mode", "specific-offsets", "--specific-offsets")
STORE = ("--work-store", "/nonexistent/store")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param([*SPECIFIC, '{"orders": {"0": 1, "0": 2}}'], "--specific-offsets names '0' twice", id="twice"),
        pytest.param(
            [*SPECIFIC, '{"orders": {}, "orders": {"0": 2}}'],
            "--specific-offsets names 'orders' twice",
            id="topic twice",
        ),
        pytest.param(
            [*SPECIFIC, "partition:0,offset:1;partition:0,offset:2"],
            "names orders[0] twice",
            id="twice in Flink's form",
        ),
        pytest.param([*SPECIFIC, '{"orders": {"0": 1e999}}'], "not a whole number", id="infinite offset"),
        pytest.param([*SPECIFIC, '{"orders": {"0": NaN}}'], "NaN is no number", id="no number"),
        pytest.param([*SPECIFIC, "[" * 5000], "--specific-offsets is not JSON", id="deep JSON"),
        pytest.param(
            [*SPECIFIC, "@/nonexistent/file"],
            "--specific-offsets is '/nonexistent/file', which cannot be read",
            id="file",
        ),
        pytest.param([*PLAN, "--idle-timeout", "inf"], "--idle-timeout is 'inf'", id="infinite"),
        pytest.param([*PLAN, "--idle-timeout", "9" * 400], "--idle-timeout is '999", id="as good as infinite"),
        pytest.param(["clean", *STORE, "--keep", "inf"], "--keep is 'inf'", id="kept for ever"),
        pytest.param(
            ["plan", *NOWHERE, "--topic-pattern", "(", "--group-id", "g"],
            "--topic-pattern '(' is not a regular expression",
            id="regex",
        ),
        pytest.param(
            ["plan", *NOWHERE, "--topic-pattern", "a{99999999999999999999}", "--group-id", "g"],
            "is not a regular expression: the repetition number is too large",
            id="regex with a huge number",
        ),
        pytest.param(["partitions", *NOWHERE, "--topic-pattern", "*"], "--topic-pattern '*' is not", id="glob"),
        pytest.param(["lag", *NOWHERE, "--topic-pattern", "["], "--topic-pattern '[' is not", id="regex of lag"),
        pytest.param([*PLAN, "--max-records", "many"], "--max-records is 'many'", id="number"),
        pytest.param(
            [*PLAN, "--bounded-mode", "timestamp", "--bounded-timestamp", "9" * 30], "past what Kafka", id="far future"
        ),
        pytest.param([*PLAN, "--skip", "{"], "--skip is not JSON", id="skip"),
        pytest.param([*PLAN, "--skip", '{"batch": "k", "past": "orders"}'], "--skip has past 'orders'", id="past"),
        pytest.param(
            ["skip", *STORE, "--pipeline-id", "p", "--batch", "k", "--past", "orders:1"],
            "--past 'orders:1'; expected <topic>-<partition>:<offset>",
            id="past of skip",
        ),
        pytest.param(["show", *STORE, "--pipeline-id", "\udcff"], "--pipeline-id is no text", id="no UTF-8"),
        pytest.param(["show", *STORE, "--pipeline-id", "p", "--history", "0"], "--history is 0", id="no history"),
        pytest.param(["clean", "--work-store", "ftp://h/x", "--keep", "90d"], "ftp://h/x cannot be used", id="scheme"),
    ],
)
def test_malformed_input_is_status_2_and_names_the_option(says: Say, words: list[str], sentence: str) -> None:
    status, output, messages = says(*words)
    assert (status, output) == (2, "")
    assert sentence in messages
    assert "Traceback" not in messages


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            '{"bootstrap.servers": "a:1", "bootstrap.servers": "b:1"}', "'bootstrap.servers' twice", id="twice"
        ),
        pytest.param('{"bootstrap.servers": "127.0.0.1:1", "no.such": "x"}', "no.such", id="unknown setting"),
        pytest.param(
            '{"bootstrap.servers": "127.0.0.1:1", "group.id": 5}', "group.id in --client-config is 5", id="group"
        ),
        pytest.param("{" * 9000, "is not JSON", id="deep"),
        pytest.param("{}", "bootstrap.servers", id="empty"),
    ],
)
def test_a_malformed_client_configuration_is_status_2(says: Say, tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "client.json"
    file.write_text(text)
    status, output, messages = says("plan", "--client-config", str(file), "--topics", "orders", "--startup-mode",
                                    "earliest-offset")  # fmt: skip
    assert (status, output) == (2, "")
    assert sentence in messages


def test_whoever_stops_reading_gets_no_traceback(stored: Pipeline) -> None:
    code = "import sys; from airflow_kafka_offsets.cli.main import main; sys.exit(main())"
    call = [sys.executable, "-c", code, "show", "--work-store", stored.store.uri, "--pipeline-id", "g/dag/resolve"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
