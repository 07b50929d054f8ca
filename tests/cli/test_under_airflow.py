"""The same commands under `airflow kafka-offsets`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_kafka_offsets.cli.commands import COMMANDS
from testbed.broker import KafkaBroker
from tests.cli.conftest import of
from tests.cli.pipeline import Pipeline


def script(*words: str) -> subprocess.CompletedProcess[str]:
    call = [str(Path(sys.executable).parent / "kafka-offsets"), *words]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def inside(*words: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "airflow", "kafka-offsets", *words]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def test_the_console_script_and_airflows_command_line_say_the_same(
    airflow: Path, broker: KafkaBroker, topic: Callable[..., str]
) -> None:
    words = ["plan", "--topics", topic(2), "--startup-mode", "earliest-offset", "--output", "csv"]
    one, other = (call(*words, "--kafka-config-id", "kafka_default") for call in (script, inside))
    assert (one.returncode, other.returncode) == (0, 0), one.stderr + other.stderr
    assert one.stdout == other.stdout
    assert one.stdout.count("\n") == 3


@pytest.fixture
def connection_in_the_database(airflow: Path, broker: KafkaBroker) -> Iterator[str]:
    """As Airflow's UI and ``airflow connections add`` make it; no variable of the environment has it."""
    name, call = "kafka_of_the_database", [sys.executable, "-m", "airflow", "connections"]
    extra = json.dumps(dict(broker.client_config))
    subprocess.run([*call, "add", name, "--conn-type", "kafka", "--conn-extra", extra], check=True, capture_output=True)
    yield name
    subprocess.run([*call, "delete", name], check=True, capture_output=True)


@pytest.mark.parametrize("call", [script, inside])
def test_a_connection_of_the_metadata_database_is_found(
    call: Callable[..., subprocess.CompletedProcess[str]],
    connection_in_the_database: str,
    topic: Callable[..., str],
) -> None:
    done = call("partitions", "--topics", topic(2), "--kafka-config-id", connection_in_the_database)
    assert done.returncode == 0, done.stderr


def test_airflows_command_line_returns_the_exit_status(airflow: Path) -> None:
    result = inside("plan", "--bootstrap-servers", "h:1", "--startup-mode", "newest")
    assert result.returncode == 2, result.stderr
    assert "--startup-mode is 'newest'" in result.stderr


def test_every_command_is_airflows_too(airflow: Path) -> None:
    shown = inside("--help").stdout
    assert [command.name for command in COMMANDS if f"\n    {command.name}" not in shown] == []


def test_the_work_store_is_the_one_that_airflow_is_configured_with(
    airflow: Path, stored: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__WORK_STORE", stored.store.uri)
    one, other = (call("show", "--pipeline-id", stored.pipeline_id) for call in (script, inside))
    assert (one.returncode, other.returncode) == (0, 0), one.stderr + other.stderr
    assert one.stdout == other.stdout != ""


def test_who_commits_is_a_person_of_that_airflow(
    airflow: Path, pipeline: Pipeline, at: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE", "no-airflow")  # as the pipeline's runs are named
    pipeline.read(pipeline.plan("two"))
    done = inside("commit", *at, *of(pipeline), "--batch", "2", "--execute")
    assert done.returncode == 0, done.stderr
    newest = pipeline.log.newest()
    assert newest is not None
    assert newest.log.committed is not None
    assert (newest.log.committed.by.run, newest.log.committed.by.instance) == (None, "no-airflow")


def test_the_help_is_grouped_and_has_an_example(airflow: Path) -> None:
    done = inside("reset", "--help")
    assert done.returncode == 0, done.stderr
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    groups = {option.group for command in COMMANDS if command.name == "reset" for option in command.options}
    headings = {line.rstrip(":").lower() for line in shown.splitlines() if not line.startswith(" ")}
    assert groups - headings == set()
    assert "example: airflow kafka-offsets reset --kafka-config-id" in " ".join(shown.split())


def test_a_reset_is_by_a_person_of_that_airflow(
    airflow: Path, pipeline: Pipeline, at: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("reset", *at, *of(pipeline), "--to-latest", "--execute")
    refused = inside(*call)  # the pipeline's runs are those of another Airflow
    assert refused.returncode == 1
    assert "belongs to Airflow no-airflow" in refused.stderr
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE", "no-airflow")
    done = inside(*call)
    assert done.returncode == 0, done.stderr
    newest = pipeline.log.newest()
    assert newest is not None
    assert newest.log.committed is not None
    assert (newest.log.plan.by.instance, newest.log.committed.by.instance) == ("no-airflow", "no-airflow")
