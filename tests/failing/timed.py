"""A cluster whose questions are timed: each has to end by its deadline, whatever the brokers do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MARGIN_S = 4.0
"""What a question may take longer than its deadline: the end of the attempt that was under way, on a busy machine."""


_QUESTIONS = {"describe": 2, "all_committed": 2}  # what there is, then the ids of it or what the group holds


@dataclass
class Timed:
    """A cluster, watched.

    :ivar cluster: :class:`KafkaCluster`, or the one in memory.
    :ivar asked: how often each method was called.
    :ivar longest: the longest time that a call of it has taken, in seconds.
    """

    cluster: Any
    asked: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.cluster, name)

        def call(*arguments: Any, **settings: Any) -> Any:
            with self._timing(name):
                return found(*arguments, **settings)

        return call

    def require_deadlines(self, deadline_s: float) -> None:
        """Each question has ended in its time."""
        limits = {name: deadline_s * _QUESTIONS.get(name, 1) + MARGIN_S for name in self.longest}
        late = {name: took_s for name, took_s in self.longest.items() if took_s > limits[name]}
        assert not late, f"longer than {deadline_s} s: {late}"

    @contextmanager
    def _timing(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        self.asked[name] += 1
        try:
            yield
        finally:
            self.longest[name] = max(self.longest.get(name, 0.0), time.monotonic() - began)


def questions(asked: Counter[str]) -> int:
    """How many questions the calls were."""
    return sum(count * _QUESTIONS.get(name, 1) for name, count in asked.items())
