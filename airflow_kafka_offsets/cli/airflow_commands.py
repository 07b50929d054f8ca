"""``airflow kafka-offsets …``: the console script's commands, as Airflow's CLI takes them from a provider."""

from __future__ import annotations

import argparse
import sys

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

from airflow_kafka_offsets.cli.options import PLAN


def get_cli_commands() -> list[GroupCommand]:
    """Called on every ``airflow`` call: nothing heavy is imported before a command runs."""
    arguments = [Arg((option.flag,), dest=option.name, help=option.help, **option.arguments) for option in PLAN]
    plan = ActionCommand(
        name="plan", help="Make a plan and print it; nothing is written", func=_run, args=tuple(arguments)
    )
    return [GroupCommand(name="kafka-offsets", help="Kafka offsets for Spark batches", subcommands=[plan])]


def _run(arguments: argparse.Namespace) -> None:
    from airflow_kafka_offsets.cli.main import run

    sys.exit(run(arguments))
