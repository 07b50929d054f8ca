"""The lag of a pipeline counts what its next batch would read, also if no batch has been planned since a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_kafka_offsets.engine.lag import lag_of_pipeline
from airflow_kafka_offsets.errors import EndBeforeStart
from airflow_kafka_offsets.offsets import SpecificOffsets
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import Pipeline, conf_of, produce


def unread(pipeline: Pipeline) -> dict[int, int] | None:
    log = pipeline.log
    lag = lag_of_pipeline(log, log.newest(), pipeline.cluster)
    return None if lag is None else {tp.partition: found.unread for tp, found in lag.items()}


def fail_to_plan(pipeline: Pipeline, conf: Mapping[str, Any] | None = None) -> None:
    """A run that writes an identity, and fails before it has a batch."""
    with pytest.raises(EndBeforeStart):
        pipeline.resolve(conf=conf, end=SpecificOffsets({"orders": {"0": 0, "1": 0, "2": 0}}))


def test_a_pipeline_without_a_batch_is_behind_where_it_starts(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.parameters = {"start": "latest"}
    assert unread(pipeline) is None
    fail_to_plan(pipeline)
    produce(cluster, 0, 3)
    produce(cluster, 2, 2)
    assert unread(pipeline) == {0: 3, 1: 0, 2: 2}


def test_a_reset_counts_before_its_batch_is_planned(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    fail_to_plan(pipeline, conf_of(1, reset={"start": {"orders-0": 4}, "allow_duplicates": True}))
    assert unread(pipeline) == {0: 6, 1: 0, 2: 0}


def test_an_unfinished_batch_counts_from_where_it_resumes(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    cluster.add_partitions("orders", 1)
    produce(cluster, 3, 5)
    pipeline.work()
    produce(cluster, 3, 2)
    assert unread(pipeline) == {0: 0, 1: 0, 2: 0, 3: 7}
