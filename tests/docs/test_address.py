"""README, the package's metadata and the site name the address that the code has, or none."""

from __future__ import annotations

import tomllib

from airflow_kafka_offsets.errors import DOCS_URL
from tests.docs.address import addressed, read

URL = "https://docs.example/offsets"


def test_all_of_them_name_the_one_address() -> None:
    """If this fails: ``make address URL=…``."""
    assert addressed(addressed(read(), DOCS_URL, None), None, DOCS_URL) == read()


def test_an_address_is_set_everywhere_and_can_be_taken_back() -> None:
    bare = addressed(read(), DOCS_URL, None)
    there = addressed(bare, None, URL)
    assert f'DOCS_URL: str | None = "{URL}"' in there["airflow_kafka_offsets/errors.py"]
    assert "](docs/" not in there["README.md"]
    assert f"]({URL}/first-batch/)" in there["README.md"]
    assert f"]({URL}/errors/)" in there["README.md"]
    assert f"]({URL}/pictures/run.svg)" in there["README.md"]
    assert tomllib.loads(there["pyproject.toml"])["project"]["urls"] == {"Documentation": f"{URL}/"}
    assert f"site_url: {URL}/\n" in there["mkdocs.yml"]
    assert addressed(there, URL, None) == bare
