"""A patch that breaks one rule: which piece of the package, and what happens to it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutations.changes import Change, pieces

PACKAGE = "airflow_kafka_offsets"
ROOT = Path(__file__).parents[2] / PACKAGE


@dataclass(frozen=True)
class Mutation:
    """:ivar where: a function, class or constant, such as ``LocalStore.read``, in whichever file of the package it is.
    :ivar tests: which tests must notice: arguments of pytest where it begins with ``tests/``; else a regular expression
        that is searched for in the ids of the fast tests; empty: the tests whose ids carry the rule.
    """

    rule: str
    where: str
    change: Change
    tests: str = ""


@dataclass(frozen=True)
class Patched:
    """:ivar file: below the package; ``text``: of the whole file, changed."""

    file: str
    text: str


def apply(mutation: Mutation, root: Path = ROOT) -> Patched:
    """The file of the package at ``root`` that the mutation changes.

    Several files may have a piece of that name: the change must find its place in one of them.

    :raises LookupError: no piece has that name, or the change finds no place, or several.
    """
    found, problems = [], []
    for file in _files_by_piece(root).get(mutation.where, ()):
        module = ast.parse((root / file).read_text())
        piece = next(piece for name, piece in pieces(module) if name == mutation.where)
        try:
            mutation.change.apply(piece)
        except LookupError as error:
            problems.append(f"{file}: {error.args[0]}")
        else:
            found.append(Patched(file, ast.unparse(ast.fix_missing_locations(module))))
    if len(found) != 1:
        files = [patched.file for patched in found]
        raise LookupError("; ".join(problems + files) or f"the package has no {mutation.where}")
    return found[0]


@cache
def _files_by_piece(root: Path) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        for name in {name for name, _ in pieces(ast.parse(path.read_text()))}:
            files.setdefault(name, []).append(str(path.relative_to(root)))
    return files
