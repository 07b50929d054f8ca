"""The key of a batch: ``0000000007-20261122T022057-k3f9``, number, time and four characters of its first plan.

Outputs are keyed by it. Whoever does the batch again replaces what was there, and no two batches ever share a key,
whatever was lost or restored: the number tells them apart in one log, the rest in two.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_KEY = re.compile(r"([0-9]{10})-[0-9]{8}T[0-9]{6}-[a-z0-9]{4}")
HIGHEST = 10**10 - 1


def new_key(number: int, at_ms: int, characters: str) -> str:
    """:param characters: four random ones, of a to z and 0 to 9."""
    key = f"{number:010}-{datetime.fromtimestamp(at_ms // 1000, UTC):%Y%m%dT%H%M%S}-{characters}"
    if number < 1 or not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not the key of a batch")
    return key


def number_named(named: str) -> int:
    """The number of the batch that a person names by its number or its key; 0 for anything else."""
    is_number = named.isascii() and named.isdigit() and len(named) <= len(str(HIGHEST))
    return int(named) if is_number else number_of(named)


def number_of(key: str | None) -> int:
    """The number in a batch's key; 0 for anything else, such as a window, or no batch at all."""
    match = _KEY.fullmatch(key or "")
    return int(match[1]) if match else 0
