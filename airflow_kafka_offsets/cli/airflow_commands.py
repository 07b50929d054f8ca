"""``airflow kafka-offsets …``: the console script's commands, as Airflow's CLI takes them from a provider."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

from airflow_kafka_offsets.cli.options import COMMANDS, Command


def get_cli_commands() -> list[GroupCommand]:
    """Called on every ``airflow`` call: nothing heavy is imported before a command runs."""
    return [
        GroupCommand(
            name="kafka-offsets", help="Kafka offsets for Spark batches", subcommands=[_action(c) for c in COMMANDS]
        )
    ]


def _action(command: Command) -> ActionCommand:
    arguments = [Arg((option.flag,), **option.keywords) for option in command.options]
    return ActionCommand(name=command.name, help=command.help, func=partial(_run, command), args=tuple(arguments))


def _run(command: Command, arguments: argparse.Namespace) -> None:
    from airflow_kafka_offsets.cli.main import run
    from airflow_kafka_offsets.hooks.surroundings import this_airflow

    sys.exit(run(command, {**vars(arguments), "instance": this_airflow()}))
