"""docs/architecture.md describes the package as it is: its rooms in the order of their layers, its files, its ideas."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_kafka_offsets"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FILES = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", PAGE)))


def rooms_of_package() -> set[str]:
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def rooms_of_page() -> list[str]:
    return re.findall(r"^\| `([a-z]+)/` \|", PAGE, re.MULTILINE)


def layers() -> list[list[str]]:
    """The rooms of each layer, the highest first."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / "setup.cfg")
    lines = contracts["importlinter:contract:layers"]["layers"].split("\n")
    names = [[name.strip().rpartition(".")[2] for name in line.split("|")] for line in lines if line.strip()]
    return [layer for layer in names if set(layer) <= rooms_of_package()]


def test_the_page_names_each_room_of_the_package_once() -> None:
    assert sorted(rooms_of_page()) == sorted(rooms_of_package())


def test_the_pages_rooms_stand_in_the_order_of_their_layers() -> None:
    assert rooms_of_page() == [room for layer in layers() for room in layer]


def test_the_picture_of_rooms_has_each_of_them() -> None:
    picture = (ROOT / "docs" / "pictures" / "rooms.d2").read_text()
    assert set(re.findall(r'"([a-z]+)/', picture)) == rooms_of_package()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_the_page_names_exists(name: str) -> None:
    assert (PACKAGE / name).exists() or (ROOT / name).exists()


def test_the_page_says_how_many_ideas_it_lists() -> None:
    ideas = PAGE.partition("\n## The ideas\n")[2]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", ideas, re.MULTILINE)]
    said = re.search(r"The list has (\d+)\.", ideas)
    assert said
    assert numbers == list(range(1, int(said[1]) + 1))
