"""Tests in a copy of the project, so that its code can be broken while others work on the project itself."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import TypeVar

from tests.mutations.patch import PACKAGE

ROOT = Path(__file__).parents[2]
COPIED = (
    "airflow_kafka_offsets",
    "tests",
    "testbed",
    "dags",
    "benchmarks",
    "docs",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "mkdocs.yml",
)
FAST = ("-p", "tests.in_memory", "--hypothesis-seed=1")
# The store syncs what it writes: in memory the tests take a tenth of the time.
MEMORY = next((folder for folder in ("/dev/shm",) if os.access(folder, os.W_OK)), None)
# A patch may leave a loop without an end, that computes, fills a list or waits.
MOST_CPU_S = 300
MOST_MEMORY = 6 << 30
LONGEST_S = 600.0

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a patch."""

    noticed: bool
    said: str

    def __str__(self) -> str:
        return self.said


def copy_project(target: Path) -> Path:
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            left_out = shutil.ignore_patterns("__pycache__", ".hypothesis")
            shutil.copytree(source, target / name, ignore=left_out, symlinks=True)
        elif source.exists():
            shutil.copy(source, target / name)
    return target


def each_in_a_copy(folder: Path, items: Sequence[T], attempt: Callable[[Path, T], R]) -> list[R]:
    """``attempt`` for each item, in as many copies as there are ``WORKERS``."""
    workers = int(os.environ.get("WORKERS", "2"))
    copies: Queue[Path] = Queue()
    for number in range(workers):
        copies.put(copy_project(folder / str(number)))

    def take(item: T) -> R:
        copy = copies.get()
        try:
            return attempt(copy, item)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(take, items))


@contextmanager
def broken(copy: Path, file: str, text: str) -> Iterator[None]:
    """The copy with another text in one file of the package."""
    path = copy / PACKAGE / file
    before = path.read_text()
    _write(path, text)
    try:
        yield
    finally:
        _write(path, before)


def _write(path: Path, text: str) -> None:
    # Bytecode is keyed by a file's second and size: two patches of one size would be taken for one.
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()
    path.write_text(text)


def notices(copy: Path, arguments: Sequence[str]) -> Outcome:
    """Whether a test fails."""
    try:
        result = run(copy, ["-x", *arguments])
    except subprocess.TimeoutExpired:
        return Outcome(True, "noticed: the tests do not end")
    if result.returncode == 0:
        return Outcome(False, "survived")
    if result.returncode == -signal.SIGXCPU:
        return Outcome(True, "noticed: the tests do not end")
    failed = re.search(r"^(?:FAILED|ERROR) ([^\n]*?)(?: - .*)?$", result.stdout, re.MULTILINE)
    if result.returncode not in (1, 2) or failed is None:  # 2: it breaks a module that is imported
        return Outcome(False, f"not tested: pytest ended with {result.returncode}\n{result.stdout[-1500:]}")
    return Outcome(True, f"noticed by {failed[1].removeprefix('tests/')}")


def run(copy: Path, arguments: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """pytest on the copy.

    :raises TimeoutExpired: it took longer than anything may.
    """
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    if MEMORY is not None:
        environment["TMPDIR"] = MEMORY
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *arguments]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_limit,
    ) as process:
        try:
            said, _ = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def collected(arguments: Iterable[str]) -> list[str]:
    """The ids of the tests that pytest finds.

    :raises RuntimeError: it cannot collect them.
    """
    found = run(ROOT, ["--collect-only", *arguments])
    if found.returncode:
        raise RuntimeError(f"the tests cannot be collected:\n{found.stdout[-3000:]}")
    return [line for line in found.stdout.splitlines() if "::" in line]
