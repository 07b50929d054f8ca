"""Mutants of the core that no test notices, and why that is right.

Each reason begins with its kind. ``equivalent``: no input tells the two programs apart. ``words``: only what is said
differs. ``slow``: a test notices, and it needs a broker, Spark or Airflow. ``speed``: only how long it takes differs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutations.core import Mutant

KINDS = ("equivalent", "words", "slow", "speed")


@dataclass(frozen=True)
class Survivor:
    """:ivar function: its name, with its class's, in whichever module.
    :ivar before: the lines that the mutant changes, as ``make mutate`` shows them; ``after``: by these.
    """

    function: str
    before: str
    after: str
    reason: str

    def is_of(self, mutant: Mutant) -> bool:
        return (self.function, self.before, self.after) == (mutant.function, mutant.before, mutant.after)


SURVIVORS: tuple[Survivor, ...] = (
    Survivor("fair_shares", "while hungry and left >= len(hungry):", "while hungry and left > len(hungry):",
             "equivalent: what is left of the last round is given out one by one"),
)  # fmt: skip


def reason_for(mutant: Mutant) -> str | None:
    """Why no test notices it; ``None`` where one should."""
    return next((known.reason for known in SURVIVORS if known.is_of(mutant)), None)
