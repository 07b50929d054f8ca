"""Text, choices and flags, as people and templates write them."""

from __future__ import annotations

from typing import Any


def one_line(value: str) -> str:
    """:raises ValueError: it has a line end, with which it would look like two things in a log; or is no plain text."""
    if value.splitlines() not in ([], [value]):
        raise ValueError(f"is {value!r}, which has a line end")
    return plain_text(value)


def plain_text(value: str) -> str:
    """:raises ValueError: it cannot be written as UTF-8, so no log, no store and no Kafka client takes it."""
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"is {value!r}, which is no text in UTF-8")
    return value


def one_of(value: Any, allowed: tuple[Any, ...]) -> Any:
    """:raises ValueError: the value is not one of the allowed ones."""
    if value not in allowed:
        raise ValueError(f"is {value!r}; use one of {', '.join(allowed)}")
    return value


def parse_flag(value: Any) -> bool:
    """``True`` or ``False``, also as a template renders them."""
    known = {"true": True, "false": False}.get(str(value).lower())
    if known is None:
        raise ValueError(f"is {value!r}; use true or false")
    return known
