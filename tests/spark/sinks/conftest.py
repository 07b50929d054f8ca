"""A driver in a child process for all tests of sinks, and a database. What is read is asked of that driver, too."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.java import Java
from testbed.postgres import PASSWORD, Postgres
from tests.spark.sinks.lab import Lab
from tests.spark.sinks.outputs import conf

Row = list[Any]
SLOW = {"delta", "iceberg", "jdbc"}  # a table's job takes Spark long to plan; "jdbc" starts a PostgreSQL
A = "0000000007-20261122T022057-k3f9"
B = "0000000008-20261122T032057-m2x7"
WINDOW = "20261122T020000Z--20261122T030000Z-1a2b3c4d"


@pytest.fixture(scope="session")
def lab_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all outputs."""
    return tmp_path_factory.mktemp("sinks")


@pytest.fixture(scope="session")
def make_lab(java: Java, spark_environment: Mapping[str, str], lab_root: Path) -> Callable[..., Lab]:
    """`make_lab(**settings)`: a driver of one's own, on the same outputs."""
    secrets = {"spark.kafka_offsets.jdbc.user": "postgres", "spark.kafka_offsets.jdbc.password": PASSWORD}

    def make(**settings: str) -> Lab:
        return Lab({**conf(java, lab_root), **secrets, **settings}, spark_environment, lab_root)

    return make


@pytest.fixture(scope="session")
def lab(make_lab: Callable[..., Lab]) -> Iterator[Lab]:
    with make_lab() as running:
        yield running


@dataclass
class Output:
    """One output of a test's own, and the driver that writes and reads it."""

    kind: str
    place: Mapping[str, str]
    lab: Lab

    def write(self, key: str, rows: list[Row], split: int = 0, attempt: int = 1, **more: Any) -> Any:
        """What the sink did; it raises what the sink raises, except with a fault at a step."""
        return self.lab.ask("write", **self.command(key, rows, split, attempt, **more))

    def command(self, key: str, rows: list[Row], split: int = 0, attempt: int = 1, **more: Any) -> dict[str, Any]:
        given = {"key": key, "rows": rows, "split": split, "attempt": attempt, **more}
        return {"kind": self.kind, "place": self.place, **given}

    def view(self) -> dict[str, list[Row]]:
        """By `key/split`, the rows that a reader sees."""
        found: dict[str, list[Row]] = self.lab.ask("view", kind=self.kind, place=self.place)
        return found

    def ask(self, do: str, **arguments: Any) -> Any:
        return self.lab.ask(do, kind=self.kind, place=self.place, **arguments)


@pytest.fixture
def output_of(lab: Lab, lab_root: Path, request: pytest.FixtureRequest) -> Callable[[str], Output]:
    """`output_of(kind)`: a new one."""
    name = f"t{next(_numbers)}"

    def make(kind: str) -> Output:
        place = {"root": str(lab_root), "name": name}
        if "jdbc" in kind:
            postgres: Postgres = request.getfixturevalue("postgres")
            place |= {"url": postgres.url, "password": PASSWORD}
        return Output(kind, place, lab)

    return make


_numbers = itertools.count()


def of_kinds(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """A test of each kind of output; `make test` tries it on files, and `make test-system` on tables."""
    slow = [pytest.param(kind, marks=pytest.mark.slow) if SLOW & set(kind.split()) else kind for kind in kinds]
    return pytest.mark.parametrize("kind", slow)


def rows(*offsets: int, dt: str = "2026-11-22", value: str = "v") -> list[Row]:
    return [[offset, dt, value] for offset in offsets]


def seen(given: list[Row]) -> list[Row]:
    """Rows as they are read back."""
    return sorted(([*row, None][:4] for row in given), key=repr)
