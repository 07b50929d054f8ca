"""The fault matrix: a run of the example DAG on real Kafka, Spark and Airflow, and one fault.

Plain `pytest` plays one row of each class; `pytest --all-faults` (`make test-faults`) plays all, and then renews
docs/fault-matrix.md.
"""

import time
from collections.abc import Iterator

import pytest

from testbed.cache import Say
from testbed.java import Java
from testbed.postgres import Postgres
from tests.faults.document import DOCUMENT, document, names_shown
from tests.faults.matrix import MATRIX
from tests.faults.rows import Played, Row, play
from tests.faults.scene import Ground, ground


@pytest.fixture(scope="session")
def shared_ground(
    java: Java, postgres: Postgres, say: Say, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    with ground(tmp_path_factory.mktemp("faults"), java, postgres, say) as made:
        yield made


@pytest.fixture(scope="session")
def played(pytestconfig: pytest.Config) -> Iterator[list[Played]]:
    """What came of the rows, of which the document is made anew."""
    rows: list[Played] = []
    yield rows
    if pytestconfig.getoption("--all-faults"):
        DOCUMENT.write_text(document(DOCUMENT.read_text() if DOCUMENT.exists() else "", rows))


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.id)
def test_no_record_is_lost_and_none_is_committed_unread(
    row: Row, shared_ground: Ground, played: list[Played], say: Say
) -> None:
    begin = time.monotonic()
    try:
        proof, end = play(row, shared_ground)
    except Exception as error:
        say(f"BROKEN   {row.kind}: {row.name} ({time.monotonic() - begin:.0f} s)\n{error!r:.2000}")
        raise
    played.append(Played(row, proof, end, time.monotonic() - begin))
    ends = "KNOWN" if row.known_wrong else row.ends
    say(f"{ends:8} {row.kind}: {row.name} ({played[-1].seconds:.0f} s)\n         {proof}\n         {end}")
    if row.known_wrong:
        pytest.xfail(row.known_wrong)


def test_the_document_has_each_row_and_no_other_and_each_was_played() -> None:
    """`make test-faults` renews it; a row that was added since has never been seen to hold."""
    assert names_shown(DOCUMENT.read_text()) == {row.name: True for row in MATRIX}


def test_every_class_has_one_row_in_every_test_run() -> None:
    assert sorted(row.kind for row in MATRIX if row.in_every_test_run) == ["Airflow", "Kafka", "Spark", "Stores"]
