"""Where the site is on the web: `make address URL=https://…`. Until it has an address, nothing names one.

``errors.DOCS_URL`` says it. README's links, ``[project.urls]`` and ``mkdocs.yml`` follow; a test holds that they agree.
README is shown on the package index too, where a link that is not absolute leads nowhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from airflow_kafka_offsets import errors

ROOT = Path(__file__).resolve().parents[2]
_FILES = {
    name: ROOT / name for name in ("airflow_kafka_offsets/errors.py", "README.md", "mkdocs.yml", "pyproject.toml")
}
_RELATIVE = re.compile(r"\]\(docs/([\w/.-]+)\)")


def addressed(texts: Mapping[str, str], before: str | None, url: str | None) -> dict[str, str]:
    """The four files with ``url`` in the place of ``before``; ``None``: without an address."""
    found = {name: without(text, before) if before else text for name, text in texts.items()}
    if url is None:
        return found
    code, readme, site, project = _FILES
    found[code] = found[code].replace("DOCS_URL: str | None = None", f'DOCS_URL: str | None = "{url}"')
    found[readme] = _RELATIVE.sub(lambda link: f"]({url}/{_on_the_site(link[1])})", found[readme])
    found[site] = found[site].replace("\ndocs_dir: ", f"\nsite_url: {url}/\ndocs_dir: ", 1)
    found[project] = found[project].replace(
        "\n[project.scripts]", f'\n[project.urls]\nDocumentation = "{url}/"\n\n[project.scripts]', 1
    )
    return found


def without(text: str, url: str) -> str:
    text = text.replace(f'DOCS_URL: str | None = "{url}"', "DOCS_URL: str | None = None")
    text = re.sub(rf"\]\({re.escape(url)}/([\w/.-]+)\)", lambda link: f"](docs/{_in_the_repository(link[1])})", text)
    text = text.replace(f"\nsite_url: {url}/\n", "\n")
    return text.replace(f'\n[project.urls]\nDocumentation = "{url}/"\n', "")


def _on_the_site(file: str) -> str:
    return file.removesuffix("README.md") if file.endswith("/README.md") else re.sub(r"\.md$", "/", file)


def _in_the_repository(place: str) -> str:
    if place == "errors/":
        return "errors/README.md"
    return f"{place.removesuffix('/')}.md" if place.endswith("/") else place


def read() -> dict[str, str]:
    return {name: path.read_text() for name, path in _FILES.items()}


def main(url: str) -> int:
    for name, text in addressed(read(), errors.DOCS_URL, url.rstrip("/") or None).items():
        _FILES[name].write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
