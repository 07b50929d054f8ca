"""``airflow kafka-offsets …``: the console script's commands, as Airflow's CLI takes them from a provider."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

from airflow_kafka_offsets.cli.commands import COMMANDS, Command
from airflow_kafka_offsets.cli.options import Option, add_option


def get_cli_commands() -> list[GroupCommand]:
    """Called on every ``airflow`` call: nothing heavy is imported before a command runs."""
    actions = [
        ActionCommand(
            name=command.name,
            help=command.help,
            func=partial(_run, command),
            args=tuple(map(_GroupedArg, command.options)),
            epilog=f"example: airflow kafka-offsets {command.example}",
        )
        for command in COMMANDS
    ]
    return [GroupCommand(name="kafka-offsets", help="Kafka offsets for Spark batches", subcommands=actions)]


class _GroupedArg(Arg):
    """An argument under a heading, which Airflow's own arguments do not have."""

    def __init__(self, option: Option) -> None:
        super().__init__((option.flag,), **option.keywords)  # type: ignore[no-untyped-call]
        self._option = option

    def add_to_parser(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, self._option)


def _run(command: Command, arguments: argparse.Namespace) -> None:
    from airflow_kafka_offsets.cli.main import run
    from airflow_kafka_offsets.hooks.run_context import this_airflow

    sys.exit(run(command, {**vars(arguments), "instance": this_airflow()}))
