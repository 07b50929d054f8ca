"""Collects the problems of a request as sentences, so that one error names all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TypeVar

from airflow_kafka_offsets.errors import InvalidRequest

T = TypeVar("T")


class Problems(list[str]):
    """Collects the sentence of each ``ValueError``, behind the parameter's name."""

    def take(self, parameter: str, parse: Callable[[], T], default: T) -> T:
        try:
            return parse()
        except ValueError as error:
            self.append(f"{parameter} {error}.")
            return default

    def take_all(self, parse: Callable[[], object]) -> None:
        """The sentences of an :class:`InvalidRequest`."""
        try:
            parse()
        except InvalidRequest as error:
            self.extend(problem for problem in error.problems if problem not in self)

    def naming_none_of(self, parameters: Collection[str]) -> list[str]:
        """The problems that name none of these parameters, whose values are not known yet.

        A name that is a word of English, such as ``end``, is the parameter only where a sentence begins with it.
        """
        return [problem for problem in self if not any(_names(problem, parameter) for parameter in parameters)]


def _names(problem: str, parameter: str) -> bool:
    before = r".*" if "_" in parameter else r"(?:Give exactly one of )?(?:\w+(?:, | and ))*"
    return re.match(rf"{before}\b{parameter}\b", problem, re.DOTALL) is not None
