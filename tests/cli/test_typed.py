"""What an error names is what the user typed."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.cli.commands import COMMANDS, Command
from airflow_kafka_offsets.cli.typed import error_as_typed, text_as_typed
from airflow_kafka_offsets.errors import (
    CLIENT_SETTINGS,
    ClusterChanged,
    ClusterUnavailable,
    DataLoss,
    GroupActive,
    InvalidRequest,
    KafkaOffsetsError,
    StoreUnavailable,
    where_explained,
)


def command(name: str) -> Command:
    return next(command for command in COMMANDS if command.name == name)


@pytest.mark.parametrize(
    ("name", "problem", "said"),
    [
        ("plan", "on_data_loss is 'hope'; use one of fail", "--on-data-loss is 'hope'; use one of fail"),
        ("plan", "topics is ''; give one", "--topics is ''; give one"),
        ("plan", "the topics are gone", "the topics are gone"),
        ("plan", "skip has past 'x'", "--skip has past 'x'"),
        ("plan", "startup_mode='timestamp' needs it", "--startup-mode='timestamp' needs it"),
        ("plan", "leave it out: require_complete_window=False", "leave it out: --no-require-complete-window"),
        ("plan", 'its conf: {"re_plan": true}', 'its conf: {"re_plan": true}'),
        (
            "plan",
            "Give exactly one of topics, topic_pattern and partitions, not none.",
            "Give exactly one of --topics, --topic-pattern and --partitions, not none.",
        ),
        ("partitions", "group_id is empty", "group_id is empty"),  # it has no such option
        ("lag", "group_id is empty", "--group-id is empty"),
    ],
)
def test_a_problem_of_the_request_names_the_commands_own_options(name: str, problem: str, said: str) -> None:
    assert error_as_typed(InvalidRequest((problem,)), command(name)) == str(InvalidRequest((said,)))


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("plan", DataLoss(["gone"], 'Set on_data_loss="advance".'), 'gone\nSet --on-data-loss="advance".'),
        ("commit", DataLoss(["gone"], 'Set on_data_loss="advance".'), 'gone\nSet on_data_loss="advance".'),
        ("commit", DataLoss(["x"], "require_report=False is for jobs"), "x\n--no-require-report is for jobs"),
        ("plan", StoreUnavailable("Cannot read on_data_loss", "r", "s"), "Cannot read on_data_loss: r\ns"),
    ],
)
def test_a_refusal_names_the_options_that_say_what_a_run_does(name: str, error: KafkaOffsetsError, said: str) -> None:
    typed = error_as_typed(error, command(name))
    assert typed == f"{error.code} {type(error).__name__}: {said}\nPage: {where_explained(error.code)}"


def test_a_parameter_that_the_dag_has_to_change_keeps_its_name() -> None:
    error = GroupActive("g", "Stable", ["me"])
    assert "give the resolve task a group_id that nothing else uses" in error_as_typed(error, command("commit"))
    assert "give the resolve task a group_id that nothing else uses" in error_as_typed(error, command("plan"))


def test_a_warning_is_in_the_same_words() -> None:
    assert text_as_typed("auto_offset_reset is latest", command("plan")) == "--auto-offset-reset is latest"


NOBODY = ClusterUnavailable(
    "No Kafka broker answers at x:1", "refused", f"Check {CLIENT_SETTINGS} in the Kafka connection."
)
NO_GROUP = InvalidRequest(("Give group_id, or set group.id in the Kafka connection.",))
MOVED = ClusterChanged("p", "one", "two")


@pytest.mark.parametrize(
    ("error", "given", "said"),
    [
        (
            NOBODY,
            ["bootstrap_servers"],
            "Check --bootstrap-servers (TLS and credentials go into a file: --client-config).",
        ),
        (NOBODY, ["client_config"], f"Check {CLIENT_SETTINGS} in --client-config."),
        (NOBODY, ["bootstrap_servers", "client_config"], f"Check {CLIENT_SETTINGS} in --client-config."),
        (NOBODY, ["kafka_config_id"], f"Check {CLIENT_SETTINGS} in --kafka-config-id."),
        (NOBODY, [], f"Check {CLIENT_SETTINGS} in the Kafka connection."),
        (NO_GROUP, ["bootstrap_servers"], "Give --group-id, or set group.id in --client-config."),
        (NO_GROUP, ["kafka_config_id"], "Give --group-id, or set group.id in --kafka-config-id."),
        (MOVED, ["bootstrap_servers"], "and --bootstrap-servers leads to cluster two"),
        (MOVED, ["client_config"], "Correct --client-config."),
    ],
)
def test_the_settings_are_named_by_the_option_that_gave_them(
    error: KafkaOffsetsError, given: list[str], said: str
) -> None:
    typed = error_as_typed(error, command("plan"), dict.fromkeys(given, "x"))
    assert said in typed
    assert ("connection" in typed) == (not given)
