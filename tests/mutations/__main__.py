"""``python -m tests.mutations``: each patch in a copy of the code, and the tests that must notice it.

First the listed mutations, one for each rule; then random changes of the core. What all of its tests pass has survived:
a rule is broken and nobody says so, and the run fails. Of the random ones those are excepted that ``survivors`` gives
a reason for.

``RANDOM`` says how many random changes are tried (20), ``SEED`` which (else others in each run; the seed is printed),
``WORKERS`` how many at a time (2). Words after the command choose rules, such as ``B6``; then ``RANDOM`` is 0 by
default. ``list`` and ``random`` after the command do one of the two parts.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.document import rules_in
from tests.mutations.mutations import MUTATIONS
from tests.mutations.patch import PACKAGE, Mutation, apply
from tests.mutations.random_lines import Change, draw
from tests.mutations.running import (
    FAST,
    MEMORY,
    Outcome,
    broken,
    copy_project,
    each_in_a_copy,
    fast_tests,
    notices,
    run,
)
from tests.mutations.running import ROOT as PROJECT
from tests.mutations.survivors import reason_for

__all__ = ["copy_project"]  # for tests/model/broken.py

FOLDERS = ("tests/offsets", "tests/stores", "tests/laws", "tests/conformance", "tests/contract")
TERMINAL = "tests/cli"
# Whose tests come first; the others follow where these pass.
_NEAREST = {
    "offsets/request": ("tests/offsets/request",),
    "offsets/plan": ("tests/offsets/plan",),
    "offsets/batch": ("tests/offsets/batch",),
    "offsets/reads": ("tests/offsets/reads",),
    "offsets/window": ("tests/offsets/window",),
    "offsets": ("tests/offsets",),
    "stores": ("tests/stores",),
    "pipeline": ("tests/contract",),
}


def main(arguments: Sequence[str]) -> int:
    begun = time.monotonic()
    rules = set(arguments) - {"list", "random"}
    chosen = [mutation for mutation in MUTATIONS if not rules or mutation.rule in rules]
    if "random" in arguments:
        chosen = []
    by_default = "0" if rules or "list" in arguments else "20"
    seed = int(os.environ.get("SEED") or secrets.randbelow(10**6))
    changes = draw(PROJECT / PACKAGE, int(os.environ.get("RANDOM") or by_default), seed)
    print(f"{len(chosen)} listed patches, {len(changes)} random ones: SEED={seed} RANDOM={len(changes)}", flush=True)
    test_ids = fast_tests((*FOLDERS, TERMINAL))
    with tempfile.TemporaryDirectory(prefix="mutations-", dir=MEMORY) as folder:
        if not _pass_unbroken(Path(folder) / "unbroken", chosen, bool(changes), test_ids):
            return 1
        outcomes = each_in_a_copy(_made(folder, "listed"), chosen, lambda copy, m: _try_listed(copy, m, test_ids))
        of_random = each_in_a_copy(_made(folder, "random"), changes, _try_random)
    bad = _report_listed(dict(zip(chosen, outcomes, strict=True)))
    bad += _report_random(dict(zip(changes, of_random, strict=True)))
    print(f"\n{time.monotonic() - begun:.0f} s")
    return 1 if bad else 0


def tests_of(mutation: Mutation, test_ids: Sequence[str]) -> list[str]:
    """What pytest is given: the tests that the mutation names, or the fast ones that claim the broken rule."""
    if mutation.tests.startswith("tests/"):
        return mutation.tests.split()
    if mutation.tests:
        return [test_id for test_id in test_ids if re.search(mutation.tests, test_id)]
    return [test_id for test_id in test_ids if mutation.rule in rules_in(test_id.partition("::")[2])]


def _made(folder: str, name: str) -> Path:
    path = Path(folder) / name
    path.mkdir()
    return path


def _pass_unbroken(copy: Path, chosen: Sequence[Mutation], all_of_them: bool, test_ids: Sequence[str]) -> bool:
    """A test that fails anyway shows nothing."""
    copy_project(copy)
    named = sorted({test for mutation in chosen for test in tests_of(mutation, test_ids)})
    by_name = [test for test in named if test not in set(test_ids)]
    fast = list(FOLDERS) if all_of_them else [test for test in named if test in set(test_ids)]
    for arguments in ([*FAST, *fast] if fast else [], by_name):
        result = run(copy, arguments) if arguments else None
        if result is not None and result.returncode:
            print(f"{result.stdout[-3000:]}\nTests fail without any patch, so they can show nothing.")
            return False
    return True


def _try_listed(copy: Path, mutation: Mutation, test_ids: Sequence[str]) -> Outcome:
    tests = tests_of(mutation, test_ids)
    is_fast = not mutation.tests.startswith("tests/")
    text = (copy / PACKAGE / mutation.file).read_text()
    try:
        with broken(copy, mutation.file, apply(mutation, text)):
            outcome = notices(copy, [*FAST, *tests] if is_fast else tests) if tests else Outcome(False, "no test")
    except ValueError as error:
        outcome = Outcome(False, str(error))
    print(f"{mutation.rule:28} {mutation.file:28} {outcome}", flush=True)
    return outcome


def _try_random(copy: Path, change: Change) -> Outcome:
    rooms = [room for room in _NEAREST if change.file.startswith(f"{room}/")]
    nearest = _NEAREST[max(rooms, key=len)]
    outcome = Outcome(False, "")
    with broken(copy, change.file, change.after):
        for tests in (nearest, tuple(folder for folder in FOLDERS if folder not in nearest)):
            outcome = notices(copy, [*FAST, *tests])
            if outcome.noticed:
                break
    reason = reason_for(change)
    said = outcome.said if outcome.noticed or reason is None else f"{outcome.said}; {reason}"
    print(f"{f'{change.file}:{change.line}':40} {change.kind:11} {said}", flush=True)
    return outcome


def _report_listed(outcomes: dict[Mutation, Outcome]) -> int:
    bad = [mutation for mutation, outcome in outcomes.items() if not outcome.noticed]
    print(f"\n{len(outcomes) - len(bad)} of {len(outcomes)} listed patches were noticed")
    for mutation in bad:
        print(f"\n{mutation.rule} in {mutation.file}: {outcomes[mutation]}\n- {mutation.old}\n+ {mutation.new}")
    return len(bad)


def _report_random(outcomes: dict[Change, Outcome]) -> int:
    survived = [change for change, outcome in outcomes.items() if not outcome.noticed]
    bad = [change for change in survived if reason_for(change) is None]
    print(
        f"\n{len(outcomes) - len(survived)} of {len(outcomes)} random changes were noticed; of the others "
        f"{len(survived) - len(bad)} are in tests/mutations/survivors.py"
    )
    for change in bad:
        print(f"\n{change.diff}")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
