"""Mutants of the core, made and tried by mutmut (``[tool.mutmut]`` in pyproject.toml names the folders and the tests).

mutmut runs of each mutant the tests that call its function, in a fork, so that nothing is imported again. It leaves out
what has a decorator, and constants: patches of ``rules`` and ``outside`` are for those. Left out here are mutants that
only say something else (a text differs), and those of ``zip(strict=…)``, which stands for the type checker.
"""

from __future__ import annotations

import ast
import difflib
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutations.running import MEMORY, copy_project

MUTMUT = Path(sys.executable).with_name("mutmut")
_MUTANT = re.compile(r"(x.*)__mutmut_\d+")
_RESULT = re.compile(r"\s*(\S+__mutmut_\d+): (.+)")


@dataclass(frozen=True)
class Mutant:
    """:ivar name: mutmut's: the module, the function and a number.
    :ivar before: the lines that it changes, without their indents; ``after``: by these.
    """

    name: str
    before: str
    after: str

    @property
    def function(self) -> str:
        """Without its module, which may be renamed."""
        found = _MUTANT.fullmatch(self.name.rpartition(".")[2])
        assert found
        return found[1].removeprefix("x_").replace("ǁ", ".").removeprefix("x.")

    def __str__(self) -> str:
        removed = "".join(f"\n  - {line}" for line in self.before.splitlines())
        added = "".join(f"\n  + {line}" for line in self.after.splitlines())
        return f"{self.name}{removed}{added}"


def sample(copy: Path, size: int | None, seed: int) -> list[Mutant]:
    """Make the mutants of the project in a folder that is there for that, find the tests of each, and choose ``size``.

    :param size: ``None``: all.
    """
    copy_project(copy)
    _mutmut(copy, "run", "no mutant has this name")  # it makes the mutants and runs all tests once before it says so
    if not (copy / "mutants" / "mutmut-stats.json").exists():
        raise RuntimeError("mutmut could not run the tests: see above")
    found = list(mutants_in(copy / "mutants"))
    return found if size is None or size >= len(found) else random.Random(seed).sample(found, size)


def survivors(copy: Path, mutants: list[Mutant]) -> list[Mutant]:
    """Those that no test notices.

    :raises RuntimeError: mutmut has not tried all of them: it tries none where a test fails without a mutant.
    """
    _mutmut(copy, "run", "--max-children", os.environ.get("WORKERS", "2"), *(mutant.name for mutant in mutants))
    said = subprocess.run([MUTMUT, "results", "--all", "True"], cwd=copy, capture_output=True, text=True, check=True)
    results = dict(found.groups() for line in said.stdout.splitlines() if (found := _RESULT.fullmatch(line)))
    untried = [mutant.name for mutant in mutants if results.get(mutant.name, "not checked") == "not checked"]
    if untried:
        log = (copy / "mutmut.log").read_text()[-3000:]
        raise RuntimeError(f"{log}\n{len(untried)} of {len(mutants)} mutants were not tried, such as {untried[0]}")
    return [mutant for mutant in mutants if results[mutant.name] not in ("killed", "timeout")]


def _mutmut(copy: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": ".", "LAW_SHARE": "0.3"}
    if MEMORY is not None:
        environment["TMPDIR"] = MEMORY
    with (copy / "mutmut.log").open("a") as log:
        ended = subprocess.run([MUTMUT, *arguments], cwd=copy, env=environment, stdout=log, stderr=subprocess.STDOUT)
    if ended.returncode and not (copy / "mutants" / "mutmut-stats.json").exists():
        print((copy / "mutmut.log").read_text()[-3000:])


def mutants_in(folder: Path) -> Iterator[Mutant]:
    """What mutmut has written: beside each function ``f`` of a module ``x_f__mutmut_orig``, ``x_f__mutmut_1`` …"""
    for path in sorted(folder.glob("airflow_kafka_offsets/**/*.py")):
        module = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        functions = {
            node.name: node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in node.name
        }
        for name, node in functions.items():
            match = _MUTANT.fullmatch(name)
            if match and not _is_the_same(functions[f"{match[1]}__mutmut_orig"], node):
                yield Mutant(f"{module}.{name}", *_difference(functions[f"{match[1]}__mutmut_orig"], node))


def _is_the_same(original: ast.AST, mutant: ast.AST) -> bool:
    """But for texts, ``zip(strict=…)`` and the name."""
    return _without_texts(original) == _without_texts(mutant)


@cache  # of the original, for each of its mutants
def _without_texts(function: ast.AST) -> str:
    module = ast.parse(ast.unparse(function))
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
        if isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "strict"]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.name = "f"
    return ast.dump(module)


def _difference(original: ast.AST, mutant: ast.AST) -> tuple[str, str]:
    before, after = _lines(original), _lines(mutant)
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    removed = [line[1:].strip() for line in lines if line.startswith("-")]
    added = [line[1:].strip() for line in lines if line.startswith("+")]
    return "\n".join(removed), "\n".join(added)


@cache
def _lines(function: ast.AST) -> list[str]:
    return ast.unparse(function).splitlines()[1:]
