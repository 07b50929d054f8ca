"""A driver that heals a batch and is killed at each step: the next attempt ends exact, whatever it finds.

Where it stands between its two writes, healed records are in both tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from testbed.broker import KafkaBroker
from tests.spark.killed_driver import IN_THE_WRITE, run_and_kill
from tests.spark.rows.conftest import Lake
from tests.spark.rows.healing import VALUES, Orders, lenient, new, old

BEFORE, AFTER = ([0], [1, 2, 3]), ([0, 1, 3], [2])
SEEN = {
    "begun": BEFORE,
    IN_THE_WRITE: BEFORE,
    "before bad records are written": ([0, 1, 3], [1, 2, 3]),
    "written": AFTER,
    "reported": AFTER,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_killed_driver_is_made_good_by_the_next_attempt(
    spark: SparkSession,
    session_settings: Mapping[str, str],
    broker: KafkaBroker,
    topic: Callable[..., str],
    tmp_path: Path,
    kind: str,
) -> None:
    lake = Lake(spark, kind, tmp_path)
    orders = Orders(lake, broker, topic(), old(lake))
    for run in SEEN:  # a batch for each moment
        orders.produce()
        orders.run(run)
    orders.forget(len(SEEN) * len(VALUES))
    folder = tmp_path / "good"
    if kind == "iceberg":
        folder = Path(session_settings["spark.sql.catalog.lake.warehouse"]) / "db" / f"{tmp_path.name}_good"
    for number, (moment, seen) in enumerate(SEEN.items(), 1):
        orders.definition = new(lake)
        work = orders.resolve(moment)
        run_and_kill(moment, session_settings, folder, orders.arguments(work))
        assert orders.seen_of(number) == seen
        if number % 2:  # the task is retried
            orders.drive(work)
            orders.commit(work)
        else:  # the run is cleared
            orders.run(moment)
        assert (orders.seen_of(number), orders.committed(number)) == (AFTER, (3, 1, 0))
    orders.definition = lenient(lake)
    orders.run("before bad records are written")
    assert (orders.seen_of(3), orders.committed(3)) == (([0, 1, 2, 3], []), (4, 0, 0))
    assert sorted(orders.offsets("good") + orders.offsets("bad")) == [*range(len(SEEN) * len(VALUES))]
