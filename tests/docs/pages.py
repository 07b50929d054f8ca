"""Every page of the documentation, and its blocks of code.

Code that cannot be loaded here says so in the line above it: ``<!-- not parsed: why -->``. It still has to compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *DOCS.rglob("*.md")])
PAGES += sorted((DOCS / "errors").glob("*.md"))  # a link to the package's folder, which rglob does not follow
PAGES = [page for page in PAGES if "node_modules" not in page.parts]

_FENCE = re.compile(
    r"^(?P<indent> *)(?:<!-- not parsed: (?P<why>[^\n]+?) -->\n+ *)?```(?P<language>\w*)\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """:ivar why: why it is not parsed; ``None``: it is."""

    page: Path
    line: int
    language: str
    code: str
    why: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page) if block.language in languages]


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in _FENCE.finditer(text):
        code = re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        yield Block(page, text[: match.start("code")].count("\n") + 1, match["language"], code, match["why"])


def commands(program: str) -> list[tuple[str, str]]:
    """Where, and the line without its ``$``; lines that end in a backslash are joined."""
    found = []
    for block in blocks("console"):
        for line in block.code.replace("\\\n", " ").splitlines():
            if line.startswith(f"$ {program} "):
                found.append((str(block), line.removeprefix("$ ")))
    return found


def inline_commands(program: str) -> list[tuple[str, str]]:
    """The same of those that stand in a sentence: `` `kafka-offsets show --history 5` ``."""
    found = []
    for page in PAGES:
        text = _FENCE.sub("", page.read_text())
        found += [(str(page.relative_to(ROOT)), code) for code in re.findall(rf"`({program} [^`]+)`", text)]
    return found
