"""An output of each kind for each test of the contract."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.sinks.outputs import Output, sink_at

KINDS = ("delta", "iceberg")


@pytest.fixture
def output_of(spark: SparkSession, tmp_path: Path) -> Callable[..., Output]:
    """`output_of(kind, **members)`: a new output; members of the job object's `sink`."""

    def make(kind: str, **members: Any) -> Output:
        return Output(spark, sink_at(kind, tmp_path, **members))

    return make


@pytest.fixture(params=KINDS)
def output(request: pytest.FixtureRequest, output_of: Callable[..., Output]) -> Output:
    """An output of each kind, partitioned by day."""
    return output_of(request.param, partition_by=["day"])


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest) -> str:
    return str(request.param)
