"""Keeps each value in Airflow's metadata database below 64 KiB, however many partitions there are.

A plan goes as the name of its object in the work store and its digest; whoever needs the partitions reads the object.
What grows with partitions or topics goes as it is while it is small, and else not at all, or as counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST = 48 * 1024
"""Bytes of a value as JSON: an XCom, an asset's event, a trigger's event. Airflow's own marks around nested values come
on top, so it is below 64 KiB."""
_LONGEST_TEXT = 4_000


def size_of(value: Any) -> int:
    """Bytes as JSON. A text that is JSON itself is counted with its quotes escaped, as it is stored."""
    return len(json.dumps(value).encode())


def fits(value: Any) -> bool:
    return size_of(value) <= LARGEST


def shortened(text: str) -> str:
    """A sentence for people, which may quote a person's words, or the names of a thousand topics."""
    more = len(text) - _LONGEST_TEXT
    return text if more <= 0 else f"{text[:_LONGEST_TEXT]} … and {more:,} more characters"


def partitions_or_counts(topics: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """``{"orders": [0, 1, 2]}``; where that is too large, ``{"topic_count": 500, "partition_count": 50000}``."""
    if fits(topics):
        return dict(topics)
    return {"topic_count": len(topics), "partition_count": sum(map(len, topics.values()))}
