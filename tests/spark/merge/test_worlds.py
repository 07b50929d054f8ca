"""Random worlds on real tables: after each merge the entity table is the query, and in the end the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.merge.logs import Log
from tests.spark.merge.worlds import KINDS, World

pytestmark = pytest.mark.long

SEEDS = {"delta": (0, 3, 4), "iceberg": (1, 2, 5)}
"""Of each kind of world; those of even ones end as the database."""


@pytest.mark.parametrize(
    ("format_", "kind", "seed"),
    [(format_, *world) for format_, seeds in SEEDS.items() for world in zip(KINDS, seeds, strict=True)],
)
@pytest.mark.slow
def test_a_random_world(spark: SparkSession, tmp_path: Path, format_: str, kind: str, seed: int) -> None:
    World(Log(spark, tmp_path, format_), seed, kind).play(20)


def test_a_small_world(spark: SparkSession, tmp_path: Path) -> None:
    World(Log(spark, tmp_path, "iceberg"), 4, "order_by").play(5)
