"""A table as plain text that fits ``WIDTH`` columns, whatever is in it.

Numbers to the right, texts to the left. If a table is too wide, its texts are wrapped between words, the widest first;
if that is not enough, each cell has a line of its own. So names and numbers stay whole, and can be copied.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 120
_GAP = "  "


@dataclass(frozen=True)
class Cells:
    """A table's words.

    :ivar left: of each column, whether it holds texts, which may be wrapped.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[bool]


def laid_out(cells: Cells, width: int = WIDTH) -> list[str]:
    """Its lines, none of them longer than ``width``."""
    widths = _widths(cells, width)
    if widths is None:
        return _one_cell_a_line(cells, width)
    return [line for row in (cells.headings, *cells.rows) for line in _lines(row, widths, cells.left)]


def fits(cells: Cells, width: int = WIDTH) -> bool:
    """Whether the table fits without a word that is broken."""
    return _widths(cells, width) is not None


def _widths(cells: Cells, width: int) -> list[int] | None:
    columns = list(zip(cells.headings, *cells.rows, strict=True))
    natural = [max(map(len, column)) for column in columns]
    return _narrowed(natural, _longest_words(cells, columns), width - len(_GAP) * (len(columns) - 1))


def _longest_words(cells: Cells, columns: Sequence[Sequence[str]]) -> list[int]:
    """The narrowest that each column can be without breaking a word, or a number."""
    return [
        max(_longest_word(heading), *map(_longest_word if left else len, texts))
        for (heading, *texts), left in zip(columns, cells.left, strict=True)
    ]


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _narrowed(natural: Sequence[int], narrowest: Sequence[int], space: int) -> list[int] | None:
    """The widths that together take at most ``space``, the widest column giving first; ``None`` where none do."""
    widths = list(natural)
    if sum(narrowest) > space:
        return None
    while sum(widths) > space:
        able = [n for n, width in enumerate(widths) if width > narrowest[n]]
        widest = max(able, key=lambda n: widths[n])
        widths[widest] -= 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> list[str]:
    wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, wrapped))
    padded = [[*lines, *[""] * (height - len(lines))] for lines in wrapped]
    return [
        _GAP.join(
            part.ljust(width) if is_left else part.rjust(width)
            for part, width, is_left in zip(parts, widths, left, strict=True)
        ).rstrip()
        for parts in zip(*padded, strict=True)
    ]


def _wrapped(text: str, width: int) -> list[str]:
    return [text] if len(text) <= width else textwrap.wrap(text, width, break_on_hyphens=False)


def _one_cell_a_line(cells: Cells, width: int) -> list[str]:
    label = max(map(len, cells.headings))
    lines: list[str] = []
    for row in cells.rows:
        lines += [""] if lines else []
        for heading, cell in zip(cells.headings, row, strict=True):
            parts = _wrapped(cell, width - label - len(_GAP))
            names = [heading, *[""] * (len(parts) - 1)]
            lines += [f"{name:<{label}}{_GAP}{part}".rstrip() for name, part in zip(names, parts, strict=True)]
    return lines
