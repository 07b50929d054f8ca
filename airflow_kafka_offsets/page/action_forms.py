"""The forms of the actions: which fields each has, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.page.actions import ACTIONS


@dataclass(frozen=True, slots=True)
class FormField:
    """:ivar is_choice: one of the action's choices; the person picks one, and gives its value if ``label`` asks for it.
    :ivar is_flag: said or not said; it has no value.
    """

    label: str
    hint: str = ""
    is_choice: bool = False
    is_flag: bool = False


@dataclass(frozen=True, slots=True)
class ActionWords:
    """:ivar says: what the action is for."""

    title: str
    says: str


WORDS: Mapping[str, ActionWords] = {
    "reset": ActionWords("Reset the position", "The next batch starts at the offsets that you choose here."),
    "skip": ActionWords("Skip records", "The unfinished batch, or a window, is left out, or records of it."),
    "redo": ActionWords("Do a batch again", "Its next run reads the same offsets and replaces the same rows."),
    "take over": ActionWords("Take over", "This Airflow goes on with a pipeline that another Airflow has written."),
}

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


def fields_given(action: str, given: Mapping[str, str]) -> dict[str, str]:
    """What a person has filled in, as the action takes it: of the choices the one that was picked, and no empty fields.

    :param given: the form's fields; ``where`` names the choice.
    """
    found = {}
    for name in ACTIONS[action]:
        field = FIELDS[name]
        if field.is_choice and name != given.get("where"):
            continue
        value = "yes" if field.is_choice and field.is_flag else given.get(name, "").strip()
        if value:
            found[name] = value
    return found
