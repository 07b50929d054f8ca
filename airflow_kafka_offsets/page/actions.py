"""Reset, skip, redo and take over from the page: what the command line does, by the command's own function.

Whether a person may do it, the caller has looked at. Who it was stands in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from airflow_kafka_offsets.cli.commands import COMMANDS, Options
from airflow_kafka_offsets.cli.main import as_typed
from airflow_kafka_offsets.cli.printing import Answer
from airflow_kafka_offsets.errors import InvalidRequest, names
from airflow_kafka_offsets.hooks.run_context import this_airflow
from airflow_kafka_offsets.page.dag_pipelines import PagePipeline
from airflow_kafka_offsets.request.problems import parsed

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "reset": (
        "to_earliest",
        "to_latest",
        "to_datetime",
        "by_duration",
        "shift_by",
        "to_batch",
        "topics",
        "allow_duplicates",
        "reason",
    ),
    "skip": ("batch", "window", "past", "only", "reason"),
    "redo": ("batch",),
    "take over": (),
}
"""Each action with the fields of its form: the options of the command, by their names. ``to_earliest``, ``to_latest``
and ``allow_duplicates`` are ``"yes"`` or absent; all others are texts. One of reset's first six is given.
"""
_FLAGS = frozenset({"to_earliest", "to_latest", "allow_duplicates"})


def foresee(pipeline: PagePipeline, action: str, fields: Mapping[str, str], person: str) -> Answer:
    """What the action would do: tables, ``summary``, ``messages``; nothing is written.

    :raises KafkaOffsetsError: it is refused, and why, in the words of the command line.
    """
    return _run(pipeline, action, fields, person, execute=False)


def do(pipeline: PagePipeline, action: str, fields: Mapping[str, str], person: str) -> Answer:
    """Do it; the log then names the person.

    :raises KafkaOffsetsError: it is refused; nothing was written.
    """
    return _run(pipeline, action, fields, person, execute=True)


def _run(pipeline: PagePipeline, action: str, fields: Mapping[str, str], person: str, *, execute: bool) -> Answer:
    command = next((one for one in COMMANDS if one.name == action.replace(" ", "-") and action in ACTIONS), None)
    if command is None:
        raise InvalidRequest((f"There is no action {action!r}: it is one of {', '.join(ACTIONS)}.",))
    strange = sorted(fields.keys() - set(ACTIONS[action]))
    if strange:
        raise InvalidRequest((f"{action} has no field {', '.join(strange)}.",))
    if not person.strip():
        raise InvalidRequest(("Nobody is named who does it.",))
    has = {option.name for option in command.options}
    given = {name: _value(name, text) for name, text in fields.items() if text.strip()}
    about = {
        "pipeline_id": pipeline.log.pipeline_id,
        "kafka_config_id": pipeline.connection,
    }
    options: Options = {
        **{name: value for name, value in about.items() if name in has},
        **given,
        "log": pipeline.log,
        "instance": this_airflow(),
        "person": person.strip(),
        "execute": execute or None,
    }
    run: Callable[[Options], Answer] = getattr(
        import_module(f"airflow_kafka_offsets.cli.{command.module}"), command.name.replace("-", "_")
    )
    with names(as_typed(command, options)):
        return run(options)


def _value(name: str, text: str) -> Any:
    if name in _FLAGS:
        return True
    return parsed(name, lambda: int(text)) if name == "shift_by" else text.strip()
