"""Random changes that no test notices, and why that is right; ``random_lines`` finds what is not in this table.

Each reason begins with its kind. ``equivalent``: no input tells the two programs apart. ``words``: only what is said
differs. ``slow``: a test notices, and it needs a broker, Spark or Airflow. ``speed``: only how long it takes differs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutations.random_lines import Change

KINDS = ("equivalent", "words", "slow", "speed")


@dataclass(frozen=True)
class Survivor:
    """:ivar before: the lines that the change replaces, without their indents; ``after``: by these."""

    file: str
    before: str
    after: str
    reason: str

    def is_of(self, change: Change) -> bool:
        return self.file == change.file and (self.before, self.after) == change.replaced


SURVIVORS: tuple[Survivor, ...] = ()


def reason_for(change: Change) -> str | None:
    """Why no test notices it; ``None`` where one should."""
    return next((known.reason for known in SURVIVORS if known.is_of(change)), None)
