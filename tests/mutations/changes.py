"""What a patch does to a piece of code, by what the code says and not by how its lines are laid out.

Each change looks inside one function, class or constant for the one place that it means. ``mentions`` is a name, as it
stands alone or behind a dot, or a snippet of Python; it must be there for one place only. A change that finds no place,
or several, raises ``LookupError`` and breaks nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

Path = tuple["tuple[ast.AST, str, int | None]", ...]


class Change(Protocol):
    """One way to break a piece of code."""

    def apply(self, code: ast.AST) -> None:
        """Change ``code`` in place.

        :raises LookupError: it is not there exactly once.
        """


@dataclass(frozen=True)
class Never:
    """A condition is false, whatever it asks: that of an ``if``, or one side of an ``and`` or ``or``."""

    mentions: str

    def apply(self, code: ast.AST) -> None:
        _put(_condition(code, self.mentions), ast.Constant(False))


@dataclass(frozen=True)
class Always:
    """A condition is true, whatever it asks."""

    mentions: str

    def apply(self, code: ast.AST) -> None:
        _put(_condition(code, self.mentions), ast.Constant(True))


@dataclass(frozen=True)
class Without:
    """A statement is not there."""

    mentions: str

    def apply(self, code: ast.AST) -> None:
        _put(_statement(code, self.mentions), ast.Pass())


@dataclass(frozen=True)
class Rather:
    """A statement is another one, or several."""

    mentions: str
    statements: str

    def apply(self, code: ast.AST) -> None:
        parent, field, index = _statement(code, self.mentions)[-1]
        assert index is not None
        getattr(parent, field)[index : index + 1] = ast.parse(self.statements).body


@dataclass(frozen=True)
class Less:
    """An item of a literal, an argument of a call or an alternative of a pattern is not there."""

    item: str

    def apply(self, code: ast.AST) -> None:
        _remove(_only(_places(code, self.item, _is_item), self.item))


@dataclass(frozen=True)
class Instead:
    """An expression is another one."""

    expression: str
    new: str

    def apply(self, code: ast.AST) -> None:
        new = ast.parse(self.new, mode="eval").body
        place = _only(list(_found(code, self.expression)), self.expression)
        _put(place, new)


@dataclass(frozen=True)
class Reworded:
    """A text says something else."""

    old: str
    new: str

    def apply(self, code: ast.AST) -> None:
        texts = [n for n in ast.walk(code) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        found = [text for text in texts if self.old in text.value]
        if len(found) != 1 or found[0].value.count(self.old) != 1:
            raise LookupError(f"{self.old!r} is in {len(found)} texts")
        found[0].value = found[0].value.replace(self.old, self.new)


@dataclass(frozen=True)
class Swapped:
    """Two statements of one block stand in the other order."""

    first: str
    second: str

    def apply(self, code: ast.AST) -> None:
        one, other = _statement(code, self.first), _statement(code, self.second)
        (block, field, at), (of_other, _, at_other) = one[-1], other[-1]
        if block is not of_other or at is None or at_other is None:
            raise LookupError(f"{self.first!r} and {self.second!r} are not in one block")
        statements = getattr(block, field)
        statements[at], statements[at_other] = statements[at_other], statements[at]


@dataclass(frozen=True)
class Matched:
    """A ``match`` looks at something else; the function has one."""

    subject: str

    def apply(self, code: ast.AST) -> None:
        found = [node for node in ast.walk(code) if isinstance(node, ast.Match)]
        if len(found) != 1:
            raise LookupError(f"there are {len(found)} matches")
        found[0].subject = ast.parse(self.subject, mode="eval").body


@dataclass(frozen=True)
class In:
    """A change in one case of a ``match``, whose pattern is named."""

    pattern: str
    change: Change

    def apply(self, code: ast.AST) -> None:
        cases = [node for node in ast.walk(code) if isinstance(node, ast.match_case)]
        found = [case for case in cases if any(True for _ in _found(case.pattern, self.pattern))]
        if len(found) != 1:
            raise LookupError(f"{len(found)} cases have {self.pattern!r}")
        self.change.apply(found[0])


# ── where it is ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _condition(code: ast.AST, mentions: str) -> Path:
    return _only(_places(code, mentions, _is_condition), mentions)


def _statement(code: ast.AST, mentions: str) -> Path:
    return _only(_places(code, mentions, _is_statement), mentions)


def _only(places: list[Path], what: str) -> Path:
    if len(places) != 1:
        raise LookupError(f"{what!r} is there {len(places)} times")
    return places[0]


def _places(code: ast.AST, mentions: str, fits: Callable[[Path], bool]) -> list[Path]:
    """Of each mention the innermost place around it that fits, each place once."""
    places: dict[tuple[int, str, int | None], Path] = {}
    for path in _found(code, mentions):
        while path and not fits(path):
            path = path[:-1]
        if path:
            parent, field, index = path[-1]
            places[id(parent), field, index] = path
    return list(places.values())


def _found(code: ast.AST, what: str) -> Iterator[Path]:
    """The places of a name, of an expression or of a statement."""
    snippet = ast.parse(what).body[0]
    wanted = _dump(snippet.value if isinstance(snippet, ast.Expr) else snippet)
    for path, node in _walk(code, ()):
        names = {getattr(node, field, None) for field in ("id", "attr", "arg")}
        is_wanted = what in names if what.isidentifier() and what not in ("True", "False", "None") else False
        if is_wanted or _dump(node) == wanted:
            yield path


def _dump(node: ast.AST) -> str:
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()").replace("ctx=Del()", "ctx=Load()")


def _walk(node: ast.AST, path: Path) -> Iterator[tuple[Path, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            here = (*path, (node, field, None))
            yield here, value
            yield from _walk(value, here)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    here = (*path, (node, field, index))
                    yield here, item
                    yield from _walk(item, here)


def _is_condition(path: Path) -> bool:
    parent, field, _ = path[-1]
    return (
        field == "test"
        or isinstance(parent, ast.BoolOp)
        or (isinstance(parent, ast.comprehension) and field == "ifs")
        or (isinstance(parent, ast.match_case) and field == "guard")
    )


def _is_statement(path: Path) -> bool:
    _, field, index = path[-1]
    return index is not None and field in ("body", "orelse", "finalbody")


def _is_item(path: Path) -> bool:
    parent, field, index = path[-1]
    literals = ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Call | ast.MatchOr
    return isinstance(parent, literals) and index is not None and field != "values"


def _put(path: Path, new: ast.AST) -> None:
    parent, field, index = path[-1]
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new


def _remove(path: Path) -> None:
    parent, field, index = path[-1]
    assert index is not None
    del getattr(parent, field)[index]
    if isinstance(parent, ast.Dict):
        del parent.values[index]


def pieces(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The functions, classes and constants of a module by their names: ``f``, ``Class``, ``Class.f``, ``CONSTANT``."""

    def of(body: list[Any], prefix: str) -> Iterator[tuple[str, ast.AST]]:
        for statement in body:
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield f"{prefix}{name}", statement
                    if isinstance(statement, ast.ClassDef):
                        yield from of(statement.body, f"{prefix}{name}.")
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    yield f"{prefix}{name}", statement

    return of(module.body, "")
