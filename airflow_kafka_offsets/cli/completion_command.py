"""``completion``: what a shell has to evaluate so that TAB completes this command's words.

The shell then calls the command itself and asks what could come next (argcomplete's protocol), so a new option is
completed without a new script. Under ``airflow`` there is nothing to do: Airflow's own completion knows our commands.
"""

from __future__ import annotations

from argcomplete.shell_integration import shellcode

from airflow_kafka_offsets.cli.commands import PROGRAM, Options
from airflow_kafka_offsets.cli.printing import Answer


def completion(options: Options) -> Answer:
    """The script for ``shell``: bash, zsh or fish."""
    return Answer(text=shellcode([PROGRAM], shell=options["shell"]).strip("\n"))
