# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The entry: find the command, run it, return an exit status.

0 done, 1 refused because of the data or the group, 2 the request is wrong, 3 cluster or store did not answer. Answers
go to standard output, messages to standard error.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from airflow_kafka_offsets.cli.printing import PROGRAM, say
from airflow_kafka_offsets.errors import KafkaOffsetsError

_COMMANDS = ("plan", "lag", "list", "show", "audit", "clean", "explain")
_IN_MODULE = {"list": "lag"}  # the others are in the module of their name


class _Commands(click.Group):
    """Seven commands. The module of each is imported when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"airflow_kafka_offsets.cli.{_IN_MODULE.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KafkaOffsetsError as error:
            say(f"{PROGRAM}: {error}")
            return error.exit_status
        except BrokenPipeError:  # `kafka-offsets … | head`: not even what is buffered can be written
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="airflow-kafka-offsets", prog_name=PROGRAM)
def commands() -> None:
    """Batches from Kafka to tables: what a run would read, and what earlier runs did.

    Only the conf of an Airflow run changes a pipeline; plan --conf is its dry run. Only clean removes anything. Exit
    status: 0 done, 1 refused because of the data or the group, 2 the request is wrong, 3 the cluster or the checkpoint
    location did not answer.
    """


def main(argv: Sequence[str] | None = None, world: Any = None) -> int:
    """The console script. Returns the exit status.

    :param world: what commands ask (:class:`airflow_kafka_offsets.cli.call.World`); ``None``: the real one.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for names that the terminal's encoding lacks
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("airflow_kafka_offsets.progress_log").setLevel(logging.INFO)
    try:
        return int(commands.main(argv, PROGRAM, standalone_mode=False, obj=world) or 0)
    except click.Abort:  # Ctrl-C
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
