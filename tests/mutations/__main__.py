"""``python -m tests.mutations``: code is broken in a copy of the project, and the tests must notice it.

First the patches of ``rules`` and ``outside``, one or more for each rule; then a sample of the core's mutants, which
mutmut makes. A rule that is broken while all of its tests pass is a failure, and so is a mutant that no test notices,
if ``survivors`` gives no reason for it.

Words after the command choose rules, such as ``B6``, and no mutants are tried then; ``patches`` and ``core`` do one of
the two parts. ``SAMPLE`` says how many mutants (300; ``all``), ``SEED`` which (1), ``WORKERS`` how many at a time (2).
Patches whose tests need a broker, Java or Airflow's database are left out, unless ``FULL=1``.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.document import rules_in
from tests.mutations import core
from tests.mutations.outside import OUTSIDE
from tests.mutations.patch import Mutation, apply
from tests.mutations.rules import RULES
from tests.mutations.running import (
    FAST,
    MEMORY,
    Outcome,
    broken,
    collected,
    copy_project,
    each_in_a_copy,
    notices,
    run,
)
from tests.mutations.survivors import reason_for

ROOMS = ("request", "plan", "log", "batch", "stores", "laws", "conformance", "contract", "cli")
FOLDERS = tuple(f"tests/{room}" for room in ROOMS)
PARTS = {"patches", "core"}


def main(words: Sequence[str]) -> int:
    begun = time.monotonic()
    rules = set(words) - PARTS
    parts = set(words) & PARTS or ({"patches"} if rules else PARTS)
    with tempfile.TemporaryDirectory(prefix="mutations-", dir=MEMORY) as folder:
        bad = 0
        if "patches" in parts:
            chosen = [patch for patch in (*RULES, *OUTSIDE) if not rules or patch.rule in rules]
            bad += try_patches(Path(folder), chosen)
        if "core" in parts:
            bad += try_core(Path(folder) / "core")
    print(f"\n{time.monotonic() - begun:.0f} s")
    return 1 if bad else 0


# ── patches ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def try_patches(folder: Path, chosen: Sequence[Mutation]) -> int:
    """How many of them are not noticed."""
    in_memory = collected([*FAST, *FOLDERS])
    if "FULL" not in os.environ:
        named = sorted({place for patch in chosen if patch.tests.startswith("tests/") for place in patch.tests.split()})
        all_of_them = set(collected(named)) if named else set()
        fast = set(collected([*FAST, *named])) if named else set()
        slow = {test_id.partition("::")[0] for test_id in all_of_them - fast}
        left_out = [patch for patch in chosen if any(place.partition("::")[0] in slow for place in patch.tests.split())]
        chosen = [patch for patch in chosen if patch not in left_out]
        print(f"{len(chosen)} patches; {len(left_out)} need a broker, Java or Airflow's database: FULL=1", flush=True)
    if not _pass_unbroken(folder / "unbroken", chosen, in_memory):
        return 1
    (folder / "patches").mkdir()
    outcomes = each_in_a_copy(folder / "patches", chosen, lambda copy, patch: _try(copy, patch, in_memory))
    bad = [(patch, outcome) for patch, outcome in zip(chosen, outcomes, strict=True) if not outcome.noticed]
    print(f"\n{len(chosen) - len(bad)} of {len(chosen)} patches were noticed")
    for patch, outcome in bad:
        print(f"\n{patch.rule}: {outcome}\n{patch.where}: {patch.change}")
    return len(bad)


def tests_of(patch: Mutation, in_memory: Sequence[str]) -> list[str]:
    """What pytest is given: the tests that the patch names, or those in memory that claim the broken rule."""
    if patch.tests.startswith("tests/"):
        return patch.tests.split()
    if patch.tests:
        return [test_id for test_id in in_memory if re.search(patch.tests, test_id)]
    return [test_id for test_id in in_memory if patch.rule in rules_in(test_id.partition("::")[2])]


def _arguments(patch: Mutation, in_memory: Sequence[str]) -> list[str]:
    tests = tests_of(patch, in_memory)
    return tests if patch.tests.startswith("tests/") else [*FAST, *tests]


def _pass_unbroken(copy: Path, chosen: Sequence[Mutation], in_memory: Sequence[str]) -> bool:
    """A test that fails anyway shows nothing."""
    copy_project(copy)
    named = sorted({test for patch in chosen for test in tests_of(patch, in_memory)})
    by_name = [test for test in named if test not in set(in_memory)]
    fast = [test for test in named if test in set(in_memory)]
    for arguments in ([*FAST, *fast] if fast else [], by_name):
        result = run(copy, arguments) if arguments else None
        if result is not None and result.returncode:
            print(f"{result.stdout[-3000:]}\nTests fail without any patch, so they can show nothing.")
            return False
    return True


def _try(copy: Path, patch: Mutation, in_memory: Sequence[str]) -> Outcome:
    try:
        patched = apply(patch)
    except LookupError as error:
        outcome = Outcome(False, f"no longer applies: {error.args[0]}")
    else:
        with broken(copy, patched.file, patched.text):
            arguments = _arguments(patch, in_memory)
            outcome = notices(copy, arguments) if arguments != [*FAST] else Outcome(False, "no test")
    print(f"{patch.rule:40} {patch.where:40} {outcome}", flush=True)
    return outcome


# ── the core ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def try_core(copy: Path) -> int:
    """How many mutants of a sample live on without a reason."""
    wanted, seed = os.environ.get("SAMPLE") or "300", int(os.environ.get("SEED") or "1")
    mutants = core.sample(copy, None if wanted == "all" else int(wanted), seed)
    print(f"\n{len(mutants)} mutants of the core: SAMPLE={wanted} SEED={seed}", flush=True)
    alive = core.survivors(copy, mutants)
    bad = [mutant for mutant in alive if reason_for(mutant) is None]
    print(
        f"{len(mutants) - len(alive)} were noticed; of the others {len(alive) - len(bad)} have a reason (survivors.py)"
    )
    for mutant in bad:
        print(f"\n{mutant}")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
