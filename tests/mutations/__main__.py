"""``python -m tests.mutations``: each patch in a copy of the code, and the tests that must notice it.

A mutant survives when all of its tests pass. Then a rule is broken and nobody says so: the run fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

from tests.conformance.document import collect, rules_in
from tests.mutations.mutations import MUTATIONS, Mutation
from tests.mutations.patch import PACKAGE, apply

ROOT = Path(__file__).parents[2]
COPIED = ("airflow_kafka_offsets", "tests", "testbed", "docs", "pyproject.toml")
WORKERS = 2
# What needs a real broker is slow, and left out.
_SLOW = re.compile(r"on_a_broker|\[broker|-broker\]|test_broker_faults|test_document|test_D16|test_L1_")


def tests_of(mutation: Mutation, test_ids: Sequence[str]) -> list[str]:
    """The fast tests that claim the broken rule, by their ids; or those that the mutation names."""
    if mutation.tests:
        return [test_id for test_id in test_ids if re.search(mutation.tests, test_id)]
    return [test_id for test_id in test_ids if mutation.rule in rules_in(test_id.partition("::")[2])]


def main(arguments: Sequence[str]) -> int:
    """``arguments``: rules to try, such as ``B6``; without any, all."""
    begun = time.monotonic()
    test_ids = [test_id for test_id in collect() if not _SLOW.search(test_id)]
    chosen = [mutation for mutation in MUTATIONS if not arguments or mutation.rule in arguments]
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copies: Queue[Path] = Queue()
        for number in range(WORKERS):
            copies.put(copy_project(Path(folder) / str(number)))

        def attempt(mutation: Mutation) -> str:
            copy = copies.get()
            try:
                outcome = _outcome(copy, mutation, tests_of(mutation, test_ids))
            finally:
                copies.put(copy)
            print(f"{mutation.rule:22} {mutation.file:22} {outcome}", flush=True)
            return outcome

        selected = sorted({test_id for mutation in chosen for test_id in tests_of(mutation, test_ids)})
        print(f"{len(selected)} tests, {len(chosen)} patches", flush=True)
        unbroken = _run(Path(folder) / "0", selected) if selected else None
        if unbroken is None or unbroken.returncode:
            print(unbroken.stdout[-3000:] if unbroken else "no test is selected")
            print("The tests fail without any patch, so they can show nothing.")
            return 1
        with ThreadPoolExecutor(WORKERS) as pool:
            outcomes = dict(zip(chosen, pool.map(attempt, chosen), strict=True))
    return _report(outcomes, time.monotonic() - begun)


def copy_project(target: Path) -> Path:
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
    return target


def _outcome(copy: Path, mutation: Mutation, tests: Sequence[str]) -> str:
    if not tests:
        return "no test"
    try:
        with _patched(copy, mutation):
            result = _run(copy, tests)
    except ValueError as error:
        return str(error)
    if result.returncode == 0:
        return "survived"
    failed = re.search(r"^FAILED ([^\n]*?)(?: - .*)?$", result.stdout, re.MULTILINE)
    if result.returncode != 1 or failed is None:
        return f"not tested: pytest ended with {result.returncode}\n{result.stdout[-1500:]}"
    return f"noticed by {failed[1].removeprefix('tests/')}"


@contextmanager
def _patched(copy: Path, mutation: Mutation) -> Iterator[None]:
    path = copy / PACKAGE / mutation.file
    before = path.read_text()
    path.write_text(apply(mutation, before))
    try:
        yield
    finally:
        path.write_text(before)


def _run(copy: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # Bytecode is keyed by a file's second and size: two patches of one size would be taken for one.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def _report(outcomes: dict[Mutation, str], seconds: float) -> int:
    bad = [mutation for mutation, outcome in outcomes.items() if not outcome.startswith("noticed")]
    print(f"\n{len(outcomes) - len(bad)} of {len(outcomes)} patches were noticed, in {seconds:.0f} s")
    for mutation in bad:
        print(f"\n{mutation.rule} in {mutation.file}: {outcomes[mutation]}\n- {mutation.old}\n+ {mutation.new}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
