"""The fault matrix: a run of the example DAG on real Kafka, Spark and Airflow, and one fault.

Plain `pytest` plays one row of each class; `pytest --all-faults` (`make test-faults`) plays all.
"""

import time
from collections.abc import Iterator

import pytest

from testbed.cache import Say
from testbed.java import Java
from tests.faults.matrix import MATRIX
from tests.faults.rows import Row, play
from tests.faults.scene import Ground, ground


@pytest.fixture(scope="session")
def shared_ground(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(tmp_path_factory.mktemp("faults"), java, say) as made:
        yield made


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.id)
def test_no_record_is_lost_and_none_is_committed_unread(row: Row, shared_ground: Ground, say: Say) -> None:
    begin = time.monotonic()
    proof, end = play(row, shared_ground)
    say(f"{row.ends:8} {row.kind}: {row.name} ({time.monotonic() - begin:.0f} s)\n         {proof}\n         {end}")
