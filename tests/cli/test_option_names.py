"""What an error names is what the user typed."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.cli.commands import COMMANDS, Command
from airflow_kafka_offsets.cli.main import as_typed
from airflow_kafka_offsets.errors import (
    ADDRESS,
    CLIENT_SETTINGS,
    CONNECTION,
    ClusterChanged,
    GroupActive,
    InvalidRequest,
    named,
    names,
)
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.subscription import parse_scope
from airflow_kafka_offsets.stores.location import location_of


def command(name: str) -> Command:
    return next(command for command in COMMANDS if command.name == name)


@pytest.mark.parametrize(
    ("of", "name", "typed"),
    [
        ("plan", "policies", "--policies"),
        ("plan", "topics", "--topics"),
        ("plan", "startup_mode", "--startup-mode"),
        ("plan", "require_complete_window=False", "--no-require-complete-window"),
        ("commit", "require_report=False", "--no-require-report"),
        ("commit", "policies", "policies"),  # it has no such option: the DAG has to be changed
        ("partitions", "group_id", "group_id"),
        ("lag", "group_id", "--group-id"),
    ],
)
def test_a_parameter_is_named_by_the_commands_own_option(of: str, name: str, typed: str) -> None:
    with names(as_typed(command(of), {})):
        assert named(name) == typed
    assert named(name) == name


def test_a_problem_of_the_request_names_the_options() -> None:
    with names(as_typed(command("plan"), {})), pytest.raises(InvalidRequest) as refused:
        parse_scope(ScopeParameters(topic_pattern="a", partitions={}))
    said = "Give exactly one of --topics, --topic-pattern and --partitions, not --topic-pattern and --partitions."
    assert refused.value.problems[0] == said
    with names(as_typed(command("plan"), {})), pytest.raises(InvalidRequest, match="--work-store ftp://x"):
        location_of("ftp://x")


def test_a_value_that_is_a_parameters_name_stays_what_it_is() -> None:
    with names(as_typed(command("plan"), {})), pytest.raises(InvalidRequest, match="--topics has 'group_id !'"):
        parse_scope(ScopeParameters(topics="group_id !"))


def test_a_parameter_that_the_dag_has_to_change_keeps_its_name() -> None:
    for of in ("commit", "plan"):
        with names(as_typed(command(of), {})):
            said = str(GroupActive("g", "Stable", ["me"]))
        assert "give the resolve task a group_id that nothing else uses" in said


@pytest.mark.parametrize(
    ("given", "address", "connection", "settings"),
    [
        (
            ["bootstrap_servers"],
            "--bootstrap-servers",
            "--client-config",
            "--bootstrap-servers (TLS and credentials go into a file: --client-config)",
        ),
        (["client_config"], "--client-config", "--client-config", "{} in --client-config"),
        (["bootstrap_servers", "client_config"], "--client-config", "--client-config", "{} in --client-config"),
        (["kafka_config_id"], "--kafka-config-id", "--kafka-config-id", "{} in --kafka-config-id"),
        ([], ADDRESS, CONNECTION, CLIENT_SETTINGS),
    ],
)
def test_the_settings_are_named_by_the_option_that_gave_them(
    given: list[str], address: str, connection: str, settings: str
) -> None:
    what = "bootstrap.servers, security.protocol and the credentials"
    with names(as_typed(command("plan"), dict.fromkeys(given, "x"))):
        assert (named(ADDRESS), named(CONNECTION)) == (address, connection)
        assert named(CLIENT_SETTINGS) == settings.format(what)
        said = str(ClusterChanged("p", "one", "two"))
    assert f"and {address} leads to cluster two" in said
    assert f"Correct {address}." in said
