"""Completion for the shells: what a shell has to evaluate so that TAB completes this command's words.

The shell then calls the command itself and asks what could come next (argcomplete's protocol), so a new option is
completed without a new script. Under ``airflow`` there is nothing to do: Airflow's own completion knows our commands.
"""

from __future__ import annotations

SHELLS = ("bash", "zsh", "fish")


def script_for(shell: str, program: str) -> str:
    """:param shell: one of ``SHELLS``."""
    from argcomplete.shell_integration import shellcode  # only here: no other call needs it

    return shellcode([program], shell=shell).strip("\n")
