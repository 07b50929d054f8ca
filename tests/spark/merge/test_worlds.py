"""Random worlds on real tables: after each merge the entity table is the query, and in the end the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.merge.logs import Log
from tests.spark.merge.worlds import KINDS, World

pytestmark = pytest.mark.long

SEEDS = 2


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.slow
def test_a_random_world(spark: SparkSession, tmp_path: Path, seed: int, kind: str, format_: str) -> None:
    World(Log(spark, tmp_path, format_), seed, kind).play(20)


def test_a_small_world(spark: SparkSession, tmp_path: Path) -> None:
    World(Log(spark, tmp_path, "iceberg"), 4, "order_by").play(5)
