"""Changes the core's code line by line, and asks whether a test notices: ``python -m tests.mutants [ROOM …]``.

It prints the mutants that no test noticed (``mutmut show NAME`` has the change). It fails where a room had none tried,
or tests noticed less than ``LEAST`` of them. A mutant that hangs is noticed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

ROOMS, LEAST = ("plan", "log", "engine"), 0.85
WORLDS = 25  # of each kind of the model, for each mutant
NOTICED, UNNOTICED = {"killed", "timeout", "segfault"}, {"survived", "no tests", "suspicious"}
RESULT = re.compile(r"(airflow_kafka_offsets\.(\w+)\.\S+): (.+)")


def judge(results: str, rooms: Sequence[str]) -> tuple[list[str], bool]:
    """The lines to print, and whether all is well.

    :param results: what ``mutmut results --all true`` prints.
    """
    by_room: defaultdict[str, Counter[str]] = defaultdict(Counter)
    lines = []
    for name, room, status in RESULT.findall(results):
        by_room[room][status] += 1
        if status in UNNOTICED:
            lines.append(f"{status}: {name}")
    is_well = True
    for room in rooms:
        noticed, unnoticed = (sum(by_room[room][status] for status in which) for which in (NOTICED, UNNOTICED))
        tried = noticed + unnoticed
        share = noticed / tried if tried else 0.0
        lines.append(f"{room}/: {tried} mutants tried, {noticed} noticed ({share:.1%}, at least {LEAST:.0%} are asked)")
        is_well &= share >= LEAST
    return lines, is_well


def main(rooms: Sequence[str]) -> int:
    mutmut = Path(sys.executable).parent / "mutmut"
    shutil.rmtree("mutants", ignore_errors=True)  # it holds results of older tests
    names = [f"airflow_kafka_offsets.{room}.*" for room in rooms]
    subprocess.run([mutmut, "run", *names], env={**os.environ, "MODEL_WORLDS": str(WORLDS)}, check=True)
    found = subprocess.run([mutmut, "results", "--all", "true"], capture_output=True, text=True, check=True)
    lines, is_well = judge(found.stdout, rooms)
    print(*lines, sep="\n")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ROOMS))
