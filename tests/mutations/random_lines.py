"""Random changes of the core: one comparison, condition, statement, constant or result, somewhere.

The listed mutations break what somebody has thought of. These break what nobody has: each is a place in the syntax tree
where a small change makes another program. Left out is what no test need hold: annotations, docstrings, log lines and
the words of messages.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

CORE = ("offsets", "stores", "pipeline")

_OTHER_COMPARISON: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_OTHER_SIGN: Mapping[type[ast.operator], tuple[str, str]] = {ast.Add: (r"\+", "-"), ast.Sub: ("-", "+")}
_OTHER_FUNCTION = {"min": "max", "max": "min", "any": "all", "all": "any"}
_IN_WORDS = {"__str__", "__repr__"}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one file.

    :ivar line: its number, from 1.
    """

    file: str
    line: int
    kind: str
    before: str
    after: str

    @property
    def diff(self) -> str:
        """As a unified diff whose head says file and line."""
        lines = unified_diff(
            self.before.splitlines(), self.after.splitlines(), f"{self.file}:{self.line}", self.kind, n=2, lineterm=""
        )
        return "\n".join(lines)

    @property
    def replaced(self) -> tuple[str, str]:
        """The lines that were there and those that are there now, without their indents: what a reader finds again."""
        lines = self.diff.splitlines()[2:]
        return tuple("\n".join(x[1:].strip() for x in lines if x[0] == sign) for sign in "-+")  # type: ignore[return-value]


def draw(root: Path, number: int, seed: int) -> list[Change]:
    """So many changes of the core below ``root``, no two of them in one line."""
    found: list[tuple[str, _Edit]] = []
    for room in CORE:
        for path in sorted((root / room).rglob("*.py")):
            found += [(str(path.relative_to(root)), edit) for edit in _edits(path.read_text())]
    random.Random(seed).shuffle(found)
    drawn: dict[tuple[str, int], Change] = {}
    for file, edit in found:
        if len(drawn) == number:
            break
        change = _changed(file, (root / file).read_text(), edit)
        if change is not None:
            drawn.setdefault((file, edit.line), change)
    return list(drawn.values())


def changes_of(file: str, text: str) -> list[Change]:
    """Every change that may be drawn of one file."""
    changes = (_changed(file, text, edit) for edit in _edits(text))
    return [change for change in changes if change is not None]


# ── where and how ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Edit:
    """``new`` instead of the bytes from ``start`` to ``end``."""

    line: int
    kind: str
    start: int
    end: int
    new: str


def _changed(file: str, text: str, edit: _Edit) -> Change | None:
    """``None`` where it makes no other program."""
    data = text.encode()
    after = (data[: edit.start] + edit.new.encode() + data[edit.end :]).decode()
    try:
        if ast.dump(ast.parse(after)) == _program(text):
            return None
    except SyntaxError:
        return None
    return Change(file, edit.line, edit.kind, text, after)


@lru_cache(maxsize=4)
def _program(text: str) -> str:
    return ast.dump(ast.parse(text))


def _edits(text: str) -> list[_Edit]:
    return list(_Places(text).of(ast.parse(text)))


class _Places:
    """The places of one text that may be changed."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.lines = [0]
        for line in self.data.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def of(self, node: ast.AST) -> Iterator[_Edit]:
        yield from self._here(node)
        if isinstance(node, ast.Raise):
            return  # the rest of it is words
        for child in self._inside(node):
            yield from self.of(child)

    def _inside(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parts of a node in which something may be changed."""
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(
                node, ast.Call
            ):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not self._is_words(child):
                    yield child

    def _is_words(self, node: ast.AST) -> bool:
        """What is said, and not done."""
        match node:
            case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
                return True
            case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError" | "NotImplementedError"))):
                return True  # where nothing can come
            case ast.FunctionDef(name=name):
                return name in _IN_WORDS
            case ast.ClassDef(bases=[ast.Name(id="Protocol"), *_]) | ast.ClassDef(bases=[*_, ast.Name(id="Protocol")]):
                return True
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return True
            case ast.Expr(value=ast.Constant()):
                return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log")) | ast.Name(id="assert_never"))):
                return True
            case ast.Subscript(value=ast.Name(id="Literal" | "ClassVar" | "TypeVar")):
                return True
        return False

    def _here(self, node: ast.AST) -> Iterator[_Edit]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                for before, op, after in zip([left, *others], ops, others, strict=False):
                    yield from self._between("comparison", before, after, *_OTHER_COMPARISON[type(op)])
                    for operand in (before, after):
                        if isinstance(operand, ast.Constant) and isinstance(operand.value, str):
                            yield self._whole("constant", operand, repr(operand.value + "x"))
            case ast.BoolOp(op=op, values=values):
                words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                for before, after in pairwise(values):
                    yield from self._between("and/or", before, after, *words)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right) if not _is_text(left, right):
                yield from self._between("sign", left, right, *_OTHER_SIGN[type(sign)])
            case ast.Call(func=ast.Name(id=name) as function) if name in _OTHER_FUNCTION:
                yield self._whole("function", function, _OTHER_FUNCTION[name])
            case ast.Constant(value=bool() as value):
                yield self._whole("constant", node, str(not value))
            case ast.Constant(value=int() as value):
                yield self._whole("constant", node, str(value + 1))
            case ast.MatchValue(value=ast.Constant(value=str() as value)):
                yield self._whole("constant", node, repr(value + "x"))
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield self._whole("result", node, "return None")
            case ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete():
                yield self._whole("statement", node, "pass")
            case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
                yield self._whole("statement", node, "pass")
            case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
                yield self._whole("statement", node, "pass")
        for condition in _conditions(node):
            yield self._whole("condition", condition, f"not ({self._text(condition)})")

    def _whole(self, kind: str, node: ast.AST, new: str) -> _Edit:
        start, end = self._span(node)
        return _Edit(node.lineno, kind, start, end, new)  # type: ignore[attr-defined]

    def _between(self, kind: str, before: ast.expr, after: ast.expr, old: str, new: str) -> Iterator[_Edit]:
        """The operator between two operands; there may be brackets beside it."""
        start, end = self._span(before)[1], self._span(after)[0]
        word = re.compile(rf"\b(?:{old})\b" if old[0].isalpha() else old)
        found = word.search(self.data[start:end].decode())
        if found:
            line = before.end_lineno or before.lineno
            yield _Edit(line, kind, start + found.start(), start + found.end(), new)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self.lines[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.data[start:end].decode()


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            return [test]
        case ast.While(test=test) if not isinstance(test, ast.Constant):
            return [test]
        case ast.comprehension(ifs=conditions):
            return conditions
        case ast.match_case(guard=ast.expr() as guard):
            return [guard]
    return []


def _is_text(*operands: ast.expr) -> bool:
    return any(
        isinstance(part, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str | bytes))
        for operand in operands
        for part in ast.walk(operand)
    )


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
