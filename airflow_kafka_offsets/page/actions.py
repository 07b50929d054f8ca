"""Reset, skip, redo and take over from the page: their forms. What is done is the command line's own function.

Whether a person may do it, the caller has looked at. Who it was stands in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.cli.commands import COMMANDS, Options
from airflow_kafka_offsets.cli.main import as_typed
from airflow_kafka_offsets.cli.printing import Answer
from airflow_kafka_offsets.errors import InvalidRequest, names
from airflow_kafka_offsets.hooks.run_context import this_airflow
from airflow_kafka_offsets.page.dag_pipelines import PagePipeline
from airflow_kafka_offsets.request.problems import parsed


@dataclass(frozen=True, slots=True)
class FormField:
    """:ivar is_choice: one of the action's choices; the person picks one, and gives its value if ``label`` asks for it.
    :ivar is_flag: said (``"yes"``) or not said; it has no value.
    """

    label: str
    hint: str = ""
    is_choice: bool = False
    is_flag: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """:ivar says: what it is for.
    :ivar fields: of its form: the options of the command, by their names. Of the choices one is given.
    """

    title: str
    says: str
    fields: tuple[str, ...] = ()


FIELDS: Mapping[str, FormField] = {
    "to_earliest": FormField("the oldest record that Kafka has", is_choice=True, is_flag=True),
    "to_latest": FormField("the end: nothing that is there now is read", is_choice=True, is_flag=True),
    "to_datetime": FormField("a time", "such as 2026-11-24T18:00:00Z", is_choice=True),
    "by_duration": FormField("a duration back from now", "such as PT6H", is_choice=True),
    "shift_by": FormField("a number of offsets from here", "such as -1000", is_choice=True),
    "to_batch": FormField("where a batch began", "its number or key", is_choice=True),
    "topics": FormField("Only these topics or partitions", "such as orders or orders-3; with commas; empty: all"),
    "allow_duplicates": FormField("Read records again that are in the output already", is_flag=True),
    "batch": FormField("Batch", "its number or key"),
    "window": FormField("Window", "as the calendar names it"),
    "past": FormField("Up to and with this record", "such as orders-3:4711; empty: all of it"),
    "only": FormField("Only these records", "such as orders-3:4711 or orders-3:4711-4720, with commas"),
    "reason": FormField("Reason", "stands in the log, with your name"),
}

ACTIONS: Mapping[str, Action] = {
    "reset": Action(
        "Reset the position",
        "The next batch starts at the offsets that you choose here.",
        (*(name for name, field in FIELDS.items() if field.is_choice), "topics", "allow_duplicates", "reason"),
    ),
    "skip": Action(
        "Skip records",
        "The unfinished batch, or a window, is left out, or records of it.",
        ("batch", "window", "past", "only", "reason"),
    ),
    "redo": Action("Do a batch again", "Its next run reads the same offsets and replaces the same rows.", ("batch",)),
    "take over": Action("Take over", "This Airflow goes on with a pipeline that another Airflow has written."),
}


def fields_given(action: str, given: Mapping[str, str]) -> dict[str, str]:
    """What a person has filled in, as the action takes it: of the choices the one that was picked, and no empty fields.

    :param given: the form's fields; ``where`` names the choice.
    """
    found = {}
    for name in ACTIONS[action].fields:
        field = FIELDS[name]
        if field.is_choice and name != given.get("where"):
            continue
        value = "yes" if field.is_choice and field.is_flag else given.get(name, "").strip()
        if value:
            found[name] = value
    return found


def act(pipeline: PagePipeline, action: str, fields: Mapping[str, str], person: str, *, execute: bool) -> Answer:
    """Do it; or show what it would do: tables, ``summary``, ``messages``.

    :param person: who does it; the log then names them.
    :param execute: else nothing is written.
    :raises KafkaOffsetsError: it is refused, and why, in the words of the command line; nothing was written.
    """
    command = next((one for one in COMMANDS if one.name == action.replace(" ", "-") and action in ACTIONS), None)
    if command is None:
        raise InvalidRequest((f"There is no action {action!r}: it is one of {', '.join(ACTIONS)}.",))
    strange = sorted(fields.keys() - set(ACTIONS[action].fields))
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
    with names(as_typed(command, options)):
        answer: Answer = command.function(options)
        return answer


def _value(name: str, text: str) -> Any:
    if FIELDS[name].is_flag:
        return True
    return parsed(name, lambda: int(text)) if name == "shift_by" else text.strip()
