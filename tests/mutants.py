"""What became of the mutants of ``make mutate``, by room: ``python -m tests.mutants``.

It prints those that no test noticed (``mutmut show NAME`` has the change), and fails where a room had none tried, or
tests noticed less than ``LEAST`` of them. A mutant that hangs is noticed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOMS, LEAST = ("plan", "log", "engine"), 0.9
NOTICED, UNNOTICED = {"killed", "timeout", "segfault"}, {"survived", "no tests", "suspicious"}
RESULT = re.compile(r"(airflow_kafka_offsets\.(\w+)\.\S+): (.+)")


def judge(results: str) -> tuple[list[str], bool]:
    """The lines to print, and whether all is well. :param results: the lines of ``mutmut results --all true``."""
    by_room: defaultdict[str, Counter[str]] = defaultdict(Counter)
    lines = []
    for name, room, status in RESULT.findall(results):
        by_room[room][status] += 1
        if status in UNNOTICED:
            lines.append(f"{status}: {name}")
    is_well = True
    for room in ROOMS:
        noticed, unnoticed = (sum(by_room[room][status] for status in which) for which in (NOTICED, UNNOTICED))
        tried = noticed + unnoticed
        share = noticed / tried if tried else 0.0
        lines.append(f"{room}/: {tried} mutants tried, {noticed} noticed ({share:.1%}, at least {LEAST:.0%} are asked)")
        is_well &= share >= LEAST
    return lines, is_well


if __name__ == "__main__":
    mutmut = Path(sys.executable).parent / "mutmut"
    found = subprocess.run([mutmut, "results", "--all", "true"], capture_output=True, text=True, check=True)
    lines, is_well = judge(found.stdout)
    print("\n".join(lines))
    sys.exit(not is_well)
