"""`--help`, `--version` and completion: what a person finds out at the terminal, and what the docs promise there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from airflow_kafka_offsets.cli.commands import COMMANDS, Command
from airflow_kafka_offsets.cli.main import _parser
from airflow_kafka_offsets.cli.options import OTHER
from testbed.broker import KafkaBroker
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline

ROOT = Path(__file__).parents[2]
HEAVY = {"airflow", "confluent_kafka", "rich", "argcomplete", "pyspark", "fsspec", "logging"}


def test_the_version_is_the_packages(says: Say) -> None:
    assert says("--version") == (0, f"kafka-offsets {version('airflow-kafka-offsets')}\n", "")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_help_groups_its_options_and_has_an_example_that_can_be_parsed(says: Say, command: Command) -> None:
    status, output, _ = says(command.name, "--help")
    assert status == 0
    assert output.startswith(f"usage: kafka-offsets {command.name} [OPTION …]\n\n{command.help}\n")
    groups = list(dict.fromkeys(option.group for option in command.options))
    assert len(groups) > 1 or len(command.options) < 5
    headings = [line[:-1] for line in output.splitlines() if line[:1] not in ("", " ") and line.endswith(":")]
    assert headings == ["options", *groups, "example"]
    assert groups[-1] == OTHER
    assert f"example:\n  kafka-offsets {command.example}\n" in output
    assert command.example.startswith(f"{command.name} ")
    _parser().parse_args(shlex.split(command.example))


def test_the_help_of_all_names_every_command_and_has_an_example(says: Say) -> None:
    status, output, _ = says("--help")
    assert status == 0
    assert [name for name in (*(c.name for c in COMMANDS), "completion") if f"\n    {name}" not in output] == []
    assert "example:\n  kafka-offsets plan --bootstrap-servers" in output


@pytest.mark.parametrize("words", [["--help"], ["plan", "--help"], ["reset", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    """A person waits for it."""
    code = (
        "import sys\nfrom airflow_kafka_offsets.cli.main import main\ntry:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) & (HEAVY - ({"logging"} if "--version" in words else set())) == set()


# completion


def completions(line: str, shell: str) -> list[str]:
    """What the command answers when `shell` asks what could come next, as the scripts of `completion` do."""
    code = "from airflow_kafka_offsets.cli.main import main; main()"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": shell,
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line.encode())),
        "COMP_TYPE": "9",
        **({"_ARGCOMPLETE_DFS": "\t"} if shell == "fish" else {}),
    }
    call = ["bash", "-c", '"$@" 8>&1 9>/dev/null >/dev/null', "ask", sys.executable, "-c", code]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    separator = {"bash": "\n", "zsh": ":", "fish": "\t"}[shell]  # what comes after it is the option's help
    return [word.split(separator)[0].strip() for word in done.stdout.split("\n") if word.strip()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_told_the_commands_the_options_and_their_words(shell: str) -> None:
    assert {"plan", "pipelines", "partitions"} <= set(completions("kafka-offsets p", shell))
    assert {"--to-earliest", "--to-latest", "--to-group"} <= set(completions("kafka-offsets reset --to-", shell))
    assert completions("kafka-offsets plan --startup-mode l", shell) == ["latest-offset"]
    assert set(completions("kafka-offsets show --output ", shell)) >= {"table", "json", "csv"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_what_the_shell_evaluates(says: Say, shell: str) -> None:
    status, output, messages = says("completion", shell)
    assert (status, messages) == (0, "")
    assert "kafka-offsets" in output
    assert "_ARGCOMPLETE" in output
    program = shutil.which(shell)
    if program is not None:  # bash is everywhere that our tests run
        subprocess.run([program, "-n"], input=output, text=True, check=True, capture_output=True)


def test_bash_completes_a_line_with_the_script_that_is_printed(says: Say, tmp_path: Path) -> None:
    """The whole way: bash evaluates the script, calls the function that it registered, and has the words."""
    program = tmp_path / "kafka-offsets"
    code = "import sys; from airflow_kafka_offsets.cli.main import main; sys.exit(main())"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n')
    program.chmod(0o755)
    script = says("completion", "bash")[1]
    asked = (
        f"{script}\n"
        "function_of() { complete -p kafka-offsets | sed 's/.*-F \\([^ ]*\\).*/\\1/'; }\n"
        "COMP_LINE='kafka-offsets reset --to-e'; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9\n"
        "COMP_WORDS=(kafka-offsets reset --to-e); COMP_CWORD=2\n"
        '$(function_of) kafka-offsets --to-e reset; echo "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["--to-earliest"], done.stderr


def test_a_script_that_nobody_reads_to_its_end_gives_no_traceback() -> None:
    code = "import sys; from airflow_kafka_offsets.cli.main import main; sys.exit(main())"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        call = [sys.executable, "-c", code, "completion", "bash"]
        done = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_shell_that_is_not_known_is_status_2(says: Say) -> None:
    assert says("completion", "tcsh")[0] == 2


# what the documentation promises; that each of its commands can be parsed is held by tests/docs


def test_the_first_command_of_the_documentation_works_as_printed(says: Say, broker: KafkaBroker) -> None:
    """On a cluster that has the topic; only the address is this broker's."""
    text = (ROOT / "docs" / "command-line.md").read_text()
    first = shlex.split(re.findall(r"^\$ kafka-offsets (.*)$", text, re.MULTILINE)[0])
    assert "localhost:9092" in first
    topic = first[first.index("--topics") + 1]
    broker.create_topic(topic, 2)
    broker.produce(topic, [(0, None, b"x", None)] * 3)
    status, output, messages = says(*(broker.bootstrap_servers if word == "localhost:9092" else word for word in first))
    assert (status, messages) == (0, "")
    assert "up to 3 records of 2 partitions, from earliest-offset" in output


# --output json


def test_every_command_has_json_with_a_version(says: Say, pipeline: Pipeline, at: tuple[str, ...]) -> None:
    store = ("--work-store", pipeline.store.uri)
    pipeline.plan("two")
    own = (*of(pipeline),)
    calls = {
        "plan": (*at, "--topics", pipeline.topic, "--startup-mode", "earliest-offset"),
        "partitions": (*at, "--topics", pipeline.topic),
        "lag": (*at, "--group-id", pipeline.group),
        "record": (f"{pipeline.topic}-0:0", *at),
        "pipelines": store,
        "show": own,
        "audit": own,
        "runs": own,
        "verify": (*own, "--batch", "1"),
        "commit": (*at, *own, "--batch", "1"),
        "skip": (*own, "--batch", pipeline.newest_key),
        "redo": (*at, *own, "--batch", "1"),
        "take-over": (*at, *own, "--instance", "https://standby.example"),
        "clean": (*store, "--keep", "90d"),
        "release-output": (*store, "--output-name", "/lake/orders"),
        "explain": ("AKO-101",),
    }
    assert {*calls, "reset", "sample", "write-checkpoint"} == {command.name for command in COMMANDS}
    for name, words in calls.items():
        status, output, _ = says(name, *words, "--output", "json")
        assert (name, status, json.loads(output)["version"]) == (name, 0, 1)
    pipeline.read(pipeline.plan("three"))
    pipeline.commit("three", pipeline.plan("three"))
    checkpoint = ("--checkpoint", f"{pipeline.store.uri}-of-a-query")
    status, output, _ = says("write-checkpoint", *at, *own, *checkpoint, "--output", "json")
    assert (status, json.loads(output)["version"]) == (0, 1)
    status, output, _ = says("reset", *at, *own, "--to-latest", "--output", "json")
    assert (status, json.loads(output)["version"]) == (0, 1)
