"""Parse, dispatch, return an exit status.

0 done; 1 refused because of the data or the group; 2 the request is wrong; 3 the cluster or the store could not be
asked. What was asked for goes to standard output and nothing else does; messages go to standard error.

Light, for ``--help`` and the shell's completion: what a command needs is imported when it is run.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets import __version__
from airflow_kafka_offsets.cli.commands import COMMANDS, COMPLETION, PROGRAM, Command, Options
from airflow_kafka_offsets.cli.options import add_option
from airflow_kafka_offsets.cli.printing import Answer, say, show
from airflow_kafka_offsets.errors import ADDRESS, CLIENT_SETTINGS, CONNECTION, KafkaOffsetsError, names, refuse


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could come next; it does not come back
        import argcomplete

        argcomplete.autocomplete(parser, always_complete_options=False)
    arguments = vars(parser.parse_args(argv))
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("airflow_kafka_offsets.progress_log").setLevel(logging.INFO)
    return run(arguments.pop("command"), arguments)


def run(command: Command, options: Options) -> int:
    """Carry out one parsed command; errors become a message on standard error and their exit status."""
    try:
        with names(as_typed(command, options)):
            return _run(command, options)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # ``kafka-offsets … | head``: nobody reads on, also not what is flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _run(command: Command, options: Options) -> int:
    errors: Sequence[KafkaOffsetsError]
    try:
        _refuse_what_is_no_text(command, options)
        answer: Answer = command.function(options)
        show(answer, options.get("output"))
        say(*answer.messages)
        if answer.dry_run:
            say(f"This was a dry run: nothing was written. --execute {answer.dry_run}.")
        errors = answer.errors
    except KafkaOffsetsError as error:
        errors = [error]
    say(*(f"{PROGRAM}: {error}" for error in errors))
    return errors[0].exit_status if errors else 0


def _refuse_what_is_no_text(command: Command, options: Options) -> None:
    """:raises InvalidRequest: an argument has bytes that are no UTF-8, which no topic and no file of ours has."""
    given = {option.flag: options.get(option.name) for option in command.options}
    texts = {flag: value for flag, value in given.items() if isinstance(value, str)}
    wrong = [flag for flag, value in texts.items() if "\0" in value or value.encode(errors="replace").decode() != value]
    refuse([f"{flag} is no text in UTF-8." for flag in wrong])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Kafka offsets for Spark batches: what a run would read and why, how far it is, and the way on.",
        epilog=f"example:\n  {PROGRAM} {COMMANDS[0].example}\n\n{PROGRAM} COMMAND --help says more, with an example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}", help="show the version and exit"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (*COMMANDS, COMPLETION):
        subparser = commands.add_parser(
            command.name,
            usage=f"{PROGRAM} {command.name} [OPTION …]",
            help=command.help,
            description=command.help,
            epilog=f"example:\n  {PROGRAM} {command.example}{command.more_help}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subparser.set_defaults(command=command)
        for option in command.options:
            add_option(subparser, option)
    return parser


# ── what a message names → what the user typed: ``splits`` → ``--splits`` ─────────────────────────────────────────────
# Messages ask for the name when they are made (:func:`airflow_kafka_offsets.errors.named`). What the command has no
# option for is the DAG's, and has its name there.


def as_typed(command: Command, options: Mapping[str, Any]) -> dict[str, str]:
    """The names of ``command``'s options.

    :param options: what was given; it says where the settings of the cluster come from.
    """
    flags = {option.name: option.flag for option in command.options}
    no = {name.removeprefix("no_"): "--no-" + name.removeprefix("no_").replace("_", "-") for name in flags}
    return flags | {f"{name}=False": flag for name, flag in no.items()} | _cluster(flags, options)


def _cluster(flags: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    given = [name for name in ("kafka_config_id", "client_config", "bootstrap_servers") if options.get(name)]
    if not given or given[0] not in flags:
        return {}
    address = flags[given[0]]
    if given[0] == "bootstrap_servers":  # which has no room for other settings
        settings = f"{address} (TLS and credentials go into a file: --client-config)"
        return {ADDRESS: address, CONNECTION: "--client-config", CLIENT_SETTINGS: settings}
    in_settings = CLIENT_SETTINGS.replace(CONNECTION, address)
    return {ADDRESS: address, CONNECTION: address, CLIENT_SETTINGS: in_settings}
