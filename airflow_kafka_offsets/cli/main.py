"""Parse, dispatch, return an exit status.

0 done; 1 refused because of the data or the group; 2 the request is wrong; 3 the cluster could not be asked. What was
asked for goes to standard output and nothing else does; messages go to standard error.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module

from airflow_kafka_offsets.cli.options import COMMANDS
from airflow_kafka_offsets.errors import KafkaOffsetsError

# The module below cli/ that has a function of the command's name.
_MODULES = {
    "plan": "planning",
    "partitions": "standing",
    "lag": "standing",
    "checkpoint": "checkpoints",
    "verify": "stored_plans",
    "commit": "stored_plans",
    "unblock": "unblocking",
    "clean": "cleaning",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    arguments = _parser().parse_args(argv)
    return run(arguments.command, arguments)


def run(command: str, arguments: argparse.Namespace) -> int:
    """Carry out one parsed command; errors become a message on standard error and their exit status."""
    module = import_module(f"airflow_kafka_offsets.cli.{_MODULES[command]}")
    try:
        status: int = getattr(module, command)(vars(arguments))
        return status
    except KafkaOffsetsError as error:
        print(f"kafka-offsets: {error}", file=sys.stderr)
        return error.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kafka-offsets",
        description="Kafka offsets for Spark batches: what a run would read and why, how far it is, and the way on.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help, description=command.help)
        for option in command.options:
            subparser.add_argument(option.flag, dest=option.name, help=option.help, **option.arguments)
    return parser
