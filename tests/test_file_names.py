"""A newcomer finds a file of the package by its name alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "airflow_kafka_offsets"


def test_no_file_name_occurs_twice_in_the_package() -> None:
    names = Counter(path.name for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []
