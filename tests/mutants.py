"""Changes the core's code line by line, and asks whether a test notices: ``python -m tests.mutants [ROOM …]``.

In place of a room it takes one of its files: ``engine/turn``.

mutmut makes the mutants and says which tests reach each function. They are tried here, because mutmut collects tests
anew for each of them, which takes longer than to run them: pytest collects once, and a child process for each mutant
runs its tests, the ones that have noticed something in this function first, then the fastest.

It prints the mutants that no test noticed (``mutmut show NAME`` has the change). It fails where a room had none tried,
or tests noticed less than ``LEAST`` of them. A mutant that hangs is noticed.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

ROOMS, LEAST = ("plan", "log", "engine"), 0.90
WORLDS = 8  # of each kind of the model, for each mutant
PACKAGE, FOLDER, RESULTS = "airflow_kafka_offsets", Path("mutants"), Path("tried.json")
NOTICED, SURVIVED, NO_TEST = "noticed", "survived", "no tests"


def judge(results: Mapping[str, str], rooms: Sequence[str]) -> tuple[list[str], bool]:
    """The lines to print, and whether all is well.

    :param results: what became of each mutant.
    """
    by_room: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, result in results.items():
        by_room[name.split(".")[1]][result] += 1
    lines = [f"{result}: {name}" for name, result in sorted(results.items()) if result != NOTICED]
    is_well = True
    for room in dict.fromkeys(room.partition("/")[0] for room in rooms):
        tried, noticed = by_room[room].total(), by_room[room][NOTICED]
        share = noticed / tried if tried else 0.0
        lines.append(f"{room}/: {tried} mutants tried, {noticed} noticed ({share:.1%}, at least {LEAST:.0%} are asked)")
        is_well &= share >= LEAST
    return lines, is_well


def main(rooms: Sequence[str]) -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)  # it holds results of older tests
    environment = {**os.environ, "MODEL_WORLDS": str(WORLDS)}
    mutmut = Path(sys.executable).parent / "mutmut"  # it makes all mutants, looks which tests reach what, and tries one
    subprocess.run([mutmut, "run", f"{PACKAGE}.plan.cap.x_cap_ranges__mutmut_1"], env=environment, check=True)
    settings = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutmut"]
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "tests.mutants", "--rootdir=."]
    command += settings["pytest_add_cli_args"] + settings["pytest_add_cli_args_test_selection"]
    environment |= {"MUTANTS_OF": " ".join(rooms), "MUTANT_UNDER_TEST": ""}
    subprocess.run(command, cwd=FOLDER, env=environment, check=True)
    lines, is_well = judge(json.loads((FOLDER / RESULTS).read_text()), rooms)
    print(*lines, sep="\n")
    return 0 if is_well else 1


# ── as a plugin of pytest, in the folder of the mutants ───────────────────────────────────────────────────────────────


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if "MUTANTS_OF" not in os.environ:
        return None
    stats = json.loads(Path("mutmut-stats.json").read_text())
    seconds: dict[str, float] = stats["duration_by_test"]
    items = {item.nodeid: item for item in session.items}
    reached = {
        function: sorted((items[name] for name in names if name in items), key=lambda item: seconds[item.nodeid])
        for function, names in stats["tests_by_mangled_function_name"].items()
    }
    results: dict[str, str] = {}
    gc.freeze()
    trial = Trial(seconds)
    trial.start(
        "", sorted({item for tests in reached.values() for item in tests}, key=lambda item: seconds[item.nodeid])
    )
    if trial.wait(below=1) != {"": SURVIVED}:
        raise RuntimeError("A test fails without a mutant: run these tests by themselves.")
    for mutant in mutants(os.environ["MUTANTS_OF"].split()):
        if tests := reached.get(function_of(mutant)):
            results |= trial.wait(below=os.cpu_count() or 1)
            trial.start(mutant, tests)
        else:
            results[mutant] = NO_TEST
    results |= trial.wait(below=1)
    RESULTS.write_text(json.dumps(results))
    return True


def mutants(rooms: Iterable[str]) -> list[str]:
    of_rooms = (sorted(Path(PACKAGE, room).glob("*.meta")) or [Path(PACKAGE, f"{room}.py.meta")] for room in rooms)
    files = [file for of_room in of_rooms for file in of_room]
    return [name for file in files for name in json.loads(file.read_text())["exit_code_by_key"]]


def function_of(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0]


class Trial:
    """Children at work, each on a mutant."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds
        self._running: dict[int, tuple[str, int]] = {}
        self._noticed_by: defaultdict[str, list[str]] = defaultdict(list)  # by function, the last one first
        self._done, self._began = Counter[str](), time.monotonic()

    def start(self, mutant: str, tests: Sequence[pytest.Item]) -> None:
        first = self._noticed_by[function_of(mutant)]
        order = sorted(tests, key=lambda item: first.index(item.nodeid) if item.nodeid in first else len(first))
        limit = 60 + 10 * int(sum(self._seconds[item.nodeid] for item in tests))
        read, write = os.pipe()
        if not (pid := os.fork()):
            os.close(read)
            self._try(mutant, order, limit, write)
        os.close(write)
        self._running[pid] = mutant, read

    def wait(self, below: int) -> dict[str, str]:
        """Wait until fewer are at work. Returns the results."""
        results = {}
        while len(self._running) >= below:
            pid, status = os.wait()
            mutant, pipe = self._running.pop(pid)
            with os.fdopen(pipe) as said:
                name = said.read()
            first = self._noticed_by[function_of(mutant)]
            if name:
                first[:] = [name, *(other for other in first if other != name)]
            results[mutant] = SURVIVED if status == 0 else NOTICED
            self._done[results[mutant]] += 1
            if self._done.total() % 100 == 0:
                print(f"{time.monotonic() - self._began:,.0f} s: {dict(self._done)}", file=sys.stderr, flush=True)
        return results

    def _try(self, mutant: str, tests: Sequence[pytest.Item], limit_s: int, pipe: int) -> None:
        from mutmut.mutation.trampoline import set_mutant_under_test

        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
        signal.alarm(5 * limit_s)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        set_mutant_under_test(mutant)
        tests[0].config.pluginmanager.register(Noticing(pipe))
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        os._exit(0)


class Noticing:
    """Ends a child at its first failure, before pytest makes a report of it: in files of mutants that takes seconds."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            os.write(self._pipe, item.nodeid.encode())
            os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ROOMS))
