"""Parse, dispatch, return an exit status.

0 done; 1 refused because of the data or the group; 2 the request is wrong; 3 the cluster or the store could not be
asked. What was asked for goes to standard output and nothing else does; messages go to standard error.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from airflow_kafka_offsets.cli.options import COMMANDS, Command
from airflow_kafka_offsets.cli.typed import error_as_typed
from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    arguments = vars(_parser().parse_args(argv))
    return run(arguments.pop("command"), arguments)


def run(command: Command, options: Mapping[str, Any]) -> int:
    """Carry out one parsed command; errors become a message on standard error and their exit status."""
    try:
        _refuse_what_is_no_text(command, options)
        module = import_module(f"airflow_kafka_offsets.cli.{command.module}")
        status: int = getattr(module, command.name.replace("-", "_"))(options)
        sys.stdout.flush()
        return status
    except KafkaOffsetsError as error:
        print(f"kafka-offsets: {error_as_typed(error, command, options)}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # ``kafka-offsets … | head``: nobody reads on, also not what is flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _refuse_what_is_no_text(command: Command, options: Mapping[str, Any]) -> None:
    """:raises InvalidRequest: an argument has bytes that are no UTF-8, which no topic and no file of ours has."""
    given = {option.flag: options.get(option.name) for option in command.options}
    texts = {flag: value for flag, value in given.items() if isinstance(value, str)}
    wrong = [flag for flag, value in texts.items() if "\0" in value or value.encode(errors="replace").decode() != value]
    if wrong:
        raise InvalidRequest(tuple(f"{flag} is no text in UTF-8." for flag in wrong))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kafka-offsets",
        description="Kafka offsets for Spark batches: what a run would read and why, how far it is, and the way on.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help, description=command.help)
        subparser.set_defaults(command=command)
        for option in command.options:
            subparser.add_argument(option.flag, **option.keywords)
    return parser
