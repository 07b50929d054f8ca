"""JSON from outside → plain values. All of this package reads its JSON here.

Python's own reader takes the last of two members of one name in silence, takes ``NaN`` for a number, and ends in a
``RecursionError`` where brackets are nested too deep. Here each of them is a ``ValueError``.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn


def read_json(text: str | bytes) -> Any:
    """The value that ``text`` describes.

    :raises ValueError: it is no JSON, or JSON that two readers would take for different values.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise NamedTwice(f"names {twice!r} twice")
    return found


class NamedTwice(ValueError):
    """Two members of one object have one name."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
