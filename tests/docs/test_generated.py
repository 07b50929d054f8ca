"""Pages that are made of the code are current, and have all of it."""

from __future__ import annotations

import click
import pytest

import airflow_kafka_offsets
from airflow_kafka_offsets import errors
from airflow_kafka_offsets.cli.main import commands
from tests.docs.generate import GENERATED
from tests.docs.pages import DOCS


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == GENERATED[name](), "run `make docs`"


def test_every_public_name_has_its_parameters() -> None:
    page = (DOCS / "parameters.md").read_text()
    assert [name for name in airflow_kafka_offsets.__all__ if f"\n### {name}\n" not in page] == []


def test_every_command_is_on_the_page() -> None:
    page = (DOCS / "command-line.md").read_text()
    names = commands.list_commands(click.Context(commands))
    assert [name for name in names if f"\n## {name}\n" not in page] == []


def test_every_error_is_on_the_page() -> None:
    page = (DOCS / "errors.md").read_text()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and getattr(kind, "code", "")]
    assert len(kinds) > 20
    assert [kind for kind in kinds if f"\n## {kind.code} {kind.__name__}\n" not in page] == []
