"""Bad records: where they are set aside, and how many there may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Limit:
    """How many of a batch's records may be bad: a number, or a share of its offsets.

    :ivar share: in percent; ``None``: ``count`` is the limit.
    """

    count: int = 0
    share: Decimal | None = None

    def allowed(self, offsets: int) -> int:
        """How many may be bad of a batch with so many offsets."""
        return self.count if self.share is None else int(offsets * self.share / 100)

    def __str__(self) -> str:
        return str(self.count) if self.share is None else f"{self.share:f}%"


def parse_limit(given: Any) -> Limit:
    """``100``, ``"100"`` or ``"0.1%"``; ``None`` is 0.

    :raises ValueError: something else.
    """
    written = "0" if given is None else str(given).strip()
    if re.fullmatch(r"[0-9]{1,18}", written) and not isinstance(given, bool):
        return Limit(int(written))
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%", written)
    if found is None or Decimal(found[1]) > 100:
        raise ValueError(f'has the limit {given!r}; give a number of records such as 100, or a share such as "0.1%"')
    return Limit(share=Decimal(found[1]))


def sink_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """The words without the limit: those of a sink."""
    return {name: value for name, value in words.items() if name != LIMIT}
