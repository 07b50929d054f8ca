"""The options, once for both command lines: every parameter of a request by its name in kebab case.

Light: ``airflow`` reads this on each of its calls. Which command has which options is in ``commands``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from airflow_kafka_offsets.request.parameters import ABOUT as ABOUT
from airflow_kafka_offsets.request.parameters import COMMAND, RequestParameters, row_of
from airflow_kafka_offsets.request.policies import ANSWERS
from airflow_kafka_offsets.request.subscription import SUBSCRIPTION as SUBSCRIPTION

# ── the headings of --help, besides those of the table of parameters ──────────────────────────────────────────────────

CLUSTER = "which cluster"
WHICH_BATCH = "which batch"
WHICH_BATCHES = "which batches"
WHICH_RECORDS = "which records"
DECODE = "how its value is decoded"
TARGET = "where the position goes (give exactly one)"
OTHER = "how"


@dataclass(frozen=True)
class Option:
    """One option as ``argparse`` takes it: ``--name`` and keyword arguments.

    :ivar group: the heading that ``--help`` shows it under.
    :ivar words: what it may be, for the shell's completion, where ``choices`` would be refused without its reason.
    """

    name: str
    help: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    group: str = OTHER
    words: tuple[str, ...] = ()
    positional: bool = False

    @property
    def flag(self) -> str:
        return self.name if self.positional else "--" + self.name.replace("_", "-")

    @property
    def keywords(self) -> dict[str, Any]:
        """What ``argparse`` gets beside the flag; it refuses ``dest`` for an argument without one."""
        return {"help": self.help, **self.arguments, **({} if self.positional else {"dest": self.name})}


NUMBER = {"type": int, "metavar": "N"}
FLAG = {"action": "store_true", "default": None}

# ── the request ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _option_of(parameter: Field[Any]) -> Option:
    row, default = row_of(parameter), parameter.default
    text = (row.at_terminal or row.meaning).replace("`", "")
    if isinstance(default, bool):
        flag = {"action": argparse.BooleanOptionalAction, "default": None}
        return Option(parameter.name, text + "; default: yes" * default, flag, row.heading)
    if row.words is ANSWERS:
        repeated = {"action": "append", "metavar": row.shown}
        return Option(parameter.name, text, repeated, row.heading, row.words)
    values = f": {', '.join(row.words)}" if row.words else ""
    shown = "" if default is None else f"; default: {default}"
    return Option(parameter.name, text + values + shown, {"metavar": row.shown}, row.heading, row.words)


OF_FIELD: Mapping[str, Option] = {
    parameter.name: _option_of(parameter)
    for parameter in fields(RequestParameters)
    if COMMAND in row_of(parameter).places
}
"""The option of each parameter of a request."""


def request_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those parameters of a request that were given."""
    return {name: options[name] for name in OF_FIELD if options.get(name) is not None}


def add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    """Add it under its heading."""
    groups = {group.title: group for group in parser._action_groups}  # argparse has no other way to ask for them
    group = groups.get(option.group) or parser.add_argument_group(option.group)
    action = group.add_argument(option.flag, **option.keywords)
    if option.words:
        action.completer = lambda **_: option.words  # type: ignore[attr-defined]  # argcomplete's, here and in Airflow
