"""The pages of the documentation, and their blocks of code.

A block that imports an operator whose provider is not installed here names it in the line above the block:
``<!-- stand-in: module Class -->``. A class that takes any arguments stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ROOT_PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*ROOT_PAGES, *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(
    r"^(?P<indent> *)(?:<!-- stand-in: (?P<module>[\w.]+) (?P<name>\w+) -->\n+ *)?```(?P<language>\w*)\n"
    r"(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block of code.

    :ivar stand_in: module and class of an operator that is not installed here.
    """

    page: Path
    line: int
    language: str
    code: str
    stand_in: tuple[str, str] | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page) if block.language in languages]


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in _FENCE.finditer(text):
        code = re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        stand_in = (match["module"], match["name"]) if match["module"] else None
        yield Block(page, text[: match.start("code")].count("\n") + 1, match["language"], code, stand_in)


def prose_of(page: Path) -> str:
    """The page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


def commands(program: str) -> list[tuple[str, str]]:
    """Where, and the command: lines of a console that begin with ``$``, lines of a shell, and code in sentences.

    Lines that end in a backslash are joined. A command in a sentence that has an ellipsis is no whole command.
    """
    found = []
    for block in blocks("console", "bash"):
        for line in block.code.replace("\\\n", " ").splitlines():
            if line.removeprefix("$ ").startswith(f"{program} "):
                found.append((str(block), line.removeprefix("$ ")))
    for page in PAGES:
        inline = re.findall(rf"`({program} [^`]+)`", prose_of(page))
        found += [(str(page.relative_to(ROOT)), code) for code in inline if "…" not in code]
    return found


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as MkDocs and GitHub make them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
