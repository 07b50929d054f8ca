"""docs/command-line.md, made of the commands' own options: `python -m tests.docs.command_line` (`make docs`)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from airflow_kafka_offsets.cli.commands import COMMANDS, COMPLETION, PROGRAM, Command
from airflow_kafka_offsets.cli.options import Option

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
HEAD = """\
# Command line

`kafka-offsets` asks and mends from a terminal. `airflow kafka-offsets`, from Airflow 3.2 on, is the same.

- What writes is a dry run that shows before → after, unless you add `--execute`.
- Every command takes `--output json`: JSON on standard output and nothing else, with a `version`. Messages go to
  standard error.
- Exit status: 0 done; 1 refused because of the data or the group; 2 the request is wrong; 3 the cluster or the store
  could not be asked.
- `--batch` takes a batch's key, which `kafka-offsets show` prints. All commands but `skip` also take its number.
- Completion for bash: `eval "$(kafka-offsets completion bash)"`; `zsh` and `fish` likewise.

Made by `make docs` from the options of the commands; `make test` fails when it is not current.

| command | what it does |
|---|---|
"""


def page() -> str:
    commands = (*COMMANDS, COMPLETION)
    rows = [f"| [`{command.name}`](#{command.name}) | {_cell(command.help)} |\n" for command in commands]
    return HEAD + "".join(rows) + "".join(map(_section, commands))


def _section(command: Command) -> str:
    rows = [f"| {_name(option)} | {_cell(option.help)} |\n" for option in command.options]
    return (
        f"\n## {command.name}\n\n{command.help}.\n\n```console\n$ {PROGRAM} {command.example}\n```\n\n"
        f"| option | what it is |\n|---|---|\n{''.join(rows)}"
    )


def _name(option: Option) -> str:
    choices = option.arguments.get("choices")
    value = option.arguments.get("metavar") or (
        "{" + ",".join(choices) + "}" if choices and not option.positional else ""
    )
    name = f"`{option.flag} {value}`".replace(" `", "`").replace("|", "\\|")
    if option.arguments.get("action") is argparse.BooleanOptionalAction:
        name += f", `--no-{option.flag.removeprefix('--')}`"
    return name


def _cell(text: str) -> str:
    """A table's cell; what Markdown would take for something else is code."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("[kafka_offsets]", "`[kafka_offsets]`")


def main() -> int:
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
