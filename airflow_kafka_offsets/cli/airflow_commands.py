"""``airflow kafka-offsets …``: the console script's commands, as Airflow's CLI takes them from a provider."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

from airflow_kafka_offsets.cli.options import COMMANDS, Command
from airflow_kafka_offsets.offsets.request.modes import RunKey


def get_cli_commands() -> list[GroupCommand]:
    """Called on every ``airflow`` call: nothing heavy is imported before a command runs."""
    return [
        GroupCommand(
            name="kafka-offsets", help="Kafka offsets for Spark batches", subcommands=[_action(c) for c in COMMANDS]
        )
    ]


def _action(command: Command) -> ActionCommand:
    arguments = [
        Arg((option.flag,), dest=option.name, help=option.help, **option.arguments) for option in command.options
    ]
    return ActionCommand(name=command.name, help=command.help, func=partial(_run, command.name), args=tuple(arguments))


def _run(command: str, arguments: argparse.Namespace) -> None:
    from airflow_kafka_offsets.cli.main import run

    arguments.is_alive = lives_in_database
    sys.exit(run(command, arguments))


def lives_in_database(run: RunKey) -> bool:
    """Whether a DAG run is queued or running; Airflow's own commands have its database at hand."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        asked = select(func.count()).where(
            DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id, DagRun.state.in_(("queued", "running"))
        )
        return bool(session.scalar(asked))
