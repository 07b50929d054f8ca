"""All that is wrong with a request, in sentences: one refusal names every problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Problems(list[str]):
    """Collects the sentence of each ``ValueError``, behind the parameter's name."""

    def take(self, parameter: str, parse: Callable[[], T], default: T) -> T:
        try:
            return parse()
        except ValueError as error:
            self.append(f"{parameter} {error}.")
            return default
