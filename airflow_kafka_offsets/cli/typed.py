"""What a message names → what the user typed: ``on_data_loss`` → ``--on-data-loss``. This is the only place of that.

A sentence about the request begins with the name that it is about, which may be an English word (``topics is …``).
Elsewhere only names with an underscore are taken for names, and in a refusal only those that say what a run does: a
``group_id`` to be changed there is the DAG's, and not an option of this command.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from airflow_kafka_offsets.cli.commands import Command
from airflow_kafka_offsets.cli.options import OF_FIELD
from airflow_kafka_offsets.errors import CLIENT_SETTINGS, InvalidRequest, KafkaOffsetsError, RefusedError
from airflow_kafka_offsets.offsets.request.parameters import names_of
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters

_NAME = re.compile(r"""(?<![\w"'-])(\w+)(?:=(True|False))?(?![\w"'])""")
_FIRST_WORD = re.compile(r"\w+")
_ABOUT_ALL = "Give exactly one of "
_ABOUT = frozenset({"kafka_config_id", "work_store"})  # options too, of which only whole sentences speak
_OF_THE_SCOPE = frozenset(names_of(ScopeParameters))


def error_as_typed(error: KafkaOffsetsError, command: Command, options: Mapping[str, Any] | None = None) -> str:
    """The message of ``error`` in the words of ``command``'s options.

    :param options: what was given; it says where the settings of the cluster come from.
    """
    if isinstance(error, InvalidRequest):
        text = str(InvalidRequest([_problem(problem, _names(command)) for problem in error.problems]))
    else:
        text = text_as_typed(str(error), command) if isinstance(error, RefusedError) else str(error)
    return _with_source_of_settings(text, options or {})


def text_as_typed(text: str, command: Command) -> str:
    """The same of a refusal's text, or of a warning."""
    return _replaced(text, {name for name in _names(command) - _OF_THE_SCOPE if "_" in name})


def _names(command: Command) -> set[str]:
    """The parameters that the command has an option for; one of the commit task's, by its opposite."""
    options = {option.name.removeprefix("no_") for option in command.options}
    return options & (OF_FIELD.keys() | {"require_report"})


def _with_source_of_settings(text: str, options: Mapping[str, Any]) -> str:
    """A task's settings are in its Kafka connection; a command's are where its options say."""
    given = [name for name in ("kafka_config_id", "client_config", "bootstrap_servers") if options.get(name)]
    if not given:
        return text
    flag = _flag(given[0])
    settings = f"{CLIENT_SETTINGS} in {flag}"
    if given == ["bootstrap_servers"]:  # which has no room for them
        settings, in_settings = f"{flag} (TLS and credentials go into a file: --client-config)", "--client-config"
    else:
        in_settings = flag
    for said, typed in (
        (f"{CLIENT_SETTINGS} in the Kafka connection", settings),
        ("in the Kafka connection", f"in {in_settings}"),
        ("the connection leads to", f"{flag} leads to"),
        ("Correct the connection.", f"Correct {flag}."),
        ("Use the connection that", f"Give {flag} of the cluster that"),
    ):
        text = text.replace(said, typed)
    return text


def _problem(problem: str, names: Collection[str]) -> str:
    if problem.startswith(_ABOUT_ALL):
        return _replaced(problem, names)
    first = _FIRST_WORD.match(problem)
    about = first[0] if first and first[0] in {*names, *_ABOUT} else ""
    rest = _replaced(problem[len(about) :], {name for name in names if "_" in name})
    return _flag(about) + rest if about else rest


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _replaced(text: str, names: Collection[str]) -> str:
    def flag(found: re.Match[str]) -> str:
        if found[1] not in names:
            return found[0]
        return _flag(f"no_{found[1]}" if found[2] == "False" else found[1])

    return _NAME.sub(flag, text)
