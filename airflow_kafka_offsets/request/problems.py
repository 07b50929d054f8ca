"""Reads single values, and collects the problems of a request, so that one error names all of them.

A problem knows the parameters that it depends on. Where one of them is a template, only the run can tell whether there
is a problem; a sentence that merely has the parameter's name in it hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from airflow_kafka_offsets.errors import InvalidRequest, named

T = TypeVar("T")


def parsed(name: str, parse: Callable[[], T]) -> T:
    """What ``parse`` makes of one value.

    :param name: of the parameter or the option.
    :raises InvalidRequest: what is wrong with it; ``parse`` says it in a sentence that can follow the name.
    """
    try:
        return parse()
    except ValueError as error:
        raise InvalidRequest((f"{name} {error}.",)) from None


class Problem(str):
    """What is wrong, in a sentence.

    :ivar parameters: the names of those whose values make it wrong.
    """

    parameters: tuple[str, ...]

    def __new__(cls, sentence: str, *parameters: str) -> Problem:
        problem = super().__new__(cls, sentence)
        problem.parameters = parameters
        return problem


class WrongTogether(ValueError):
    """A value that is wrong beside those of ``others``, which are parameters too."""

    def __init__(self, sentence: str, *others: str) -> None:
        super().__init__(sentence)
        self.others = others


class Problems(list[str]):
    """Collects problems, each once."""

    def add(self, sentence: str, *parameters: str) -> None:
        if sentence not in self:
            self.append(Problem(sentence, *parameters))

    def take(self, parameter: str, parse: Callable[[], T], default: T, part: str = "") -> T:
        """What ``parse`` returns; the sentence of a ``ValueError`` goes behind the parameter's name.

        :param part: of the parameter, what the sentence is about: ``of topic orders``.
        """
        try:
            return parse()
        except ValueError as error:
            others = error.others if isinstance(error, WrongTogether) else ()
            self.add(f"{named(parameter)}{part} {error}.", parameter, *others)
        except InvalidRequest as error:
            self._add_all(error, parameter)
        return default

    def take_all(self, parse: Callable[[], object], *parameters: str) -> None:
        """The problems of an :class:`InvalidRequest`.

        :param parameters: those that the problems depend on which do not say so themselves.
        """
        try:
            parse()
        except InvalidRequest as error:
            self._add_all(error, *parameters)

    def _add_all(self, error: InvalidRequest, *parameters: str) -> None:
        for problem in error.problems:
            self.add(problem, *(problem.parameters if isinstance(problem, Problem) else parameters))

    def without(self, undecided: Collection[str]) -> list[str]:
        """The problems that depend on none of these parameters, whose values are not known yet."""
        return [p for p in self if not isinstance(p, Problem) or not set(p.parameters) & set(undecided)]


# ── text, choices and flags, as people and templates write them ───────────────────────────────────────────────────────


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
