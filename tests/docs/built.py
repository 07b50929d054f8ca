"""Nothing of the built site is loaded from a foreign host: `python -m tests.docs.built site` (`make docs`)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "object": "data",
    "image": "href",
}
_LINKS_THAT_LOAD_NOTHING = {"canonical", "next", "prev"}
_FOREIGN = re.compile(r"(?:https?:)?//")


class _Loads(HTMLParser):
    """The addresses that a browser asks when it opens a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(_LOADED.get(tag, ""))
        if address and given.get("rel") not in _LINKS_THAT_LOAD_NOTHING:
            self.found.append(address)
        if given.get("style"):
            self.found += _of_style(str(given["style"]))


def _of_style(text: str) -> list[str]:
    return re.findall(r"(?:url\(|@import )[\s\"']*([^\"')\s]+)", text)


def foreign(site: Path) -> Iterator[str]:
    for page in sorted(site.rglob("*")):
        if page.suffix not in (".html", ".css", ".svg"):
            continue
        text = page.read_text()
        loads = _Loads()
        if page.suffix != ".css":
            loads.feed(text)
        for address in (*loads.found, *(_of_style(text) if page.suffix != ".html" else ())):
            if _FOREIGN.match(address):
                yield f"{page.relative_to(site)} loads {address}"


def main(site: Path) -> int:
    found = list(foreign(site))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
