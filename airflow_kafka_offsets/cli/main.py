"""Parse, ask, print, return an exit status.

0 done; 1 refused because of the data or the group; 2 the request is wrong; 3 the cluster could not be asked. What was
asked for goes to standard output and nothing else does; messages go to standard error.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.cli.options import PLAN, REQUEST, Option
from airflow_kafka_offsets.cli.render import render_plan
from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError
from airflow_kafka_offsets.planner import plan_offsets


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    return run(_parser().parse_args(argv))


def run(arguments: argparse.Namespace) -> int:
    """Carry out one parsed command; errors become a message on standard error and their exit status."""
    try:
        return plan(vars(arguments))
    except KafkaOffsetsError as error:
        print(f"kafka-offsets: {error}", file=sys.stderr)
        return error.exit_status


def plan(options: Mapping[str, Any]) -> int:
    """Make a plan and print it. Nothing is written to Kafka, nor anywhere else."""
    parameters = {option.name: options[option.name] for option in REQUEST if options.get(option.name) is not None}
    for name in ("specific_offsets", "bounded_offsets"):
        if str(parameters.get(name, "")).startswith("@"):
            parameters[name] = _text_of(Path(parameters[name][1:]), option="--" + name.replace("_", "-"))
    made = plan_offsets(client_config(options), **parameters)
    for warning in made.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(render_plan(made, options.get("output") or "table"))
    return 0


def client_config(options: Mapping[str, Any]) -> dict[str, Any]:
    """librdkafka's settings from a file, an Airflow connection or ``--bootstrap-servers``, which can go with a file.

    :raises InvalidRequest: none is given, or it cannot be read.
    """
    servers, file, connection = (options.get(key) for key in ("bootstrap_servers", "client_config", "kafka_config_id"))
    if connection:
        if servers or file:
            raise InvalidRequest(("Give --kafka-config-id, or --client-config and --bootstrap-servers, not both.",))
        return _from_connection(connection)
    if not servers and not file:
        raise InvalidRequest(
            ("Which cluster? Give --bootstrap-servers host:port, --client-config FILE or --kafka-config-id ID.",)
        )
    return {**(_from_file(Path(file)) if file else {}), **({"bootstrap.servers": servers} if servers else {})}


def _from_connection(connection: str) -> dict[str, Any]:
    try:
        from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
    except ImportError as error:
        raise InvalidRequest((f"--kafka-config-id needs Airflow, which cannot be imported: {error}.",)) from None
    return dict(KafkaOffsetsHook(connection).client_config)


def _from_file(file: Path) -> dict[str, Any]:
    text = _text_of(file, option="--client-config")
    if text.lstrip().startswith("{"):
        try:
            settings: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidRequest((f"--client-config {file} is not valid JSON: {error}.",)) from None
        return settings
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith(("#", "!"))]
    # The line itself may hold a password: it is named by its number only.
    bad = [str(number) for number, line in enumerate(lines, 1) if line and line[0] not in "#!" and "=" not in line]
    if bad:
        raise InvalidRequest((f"--client-config {file}: no key=value on line {', '.join(bad)}.",))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _text_of(file: Path, *, option: str) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest((f"{option} {file} cannot be read: {error}.",)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kafka-offsets",
        description="Kafka offsets for Spark batches: what a run would read, and why.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_options(commands.add_parser("plan", help=plan.__doc__, description=plan.__doc__), PLAN)
    return parser


def add_options(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    for option in options:
        parser.add_argument(option.flag, dest=option.name, help=option.help, **option.arguments)
