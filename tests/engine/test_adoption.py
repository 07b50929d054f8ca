"""A person adopts a table: the unfinished batch gets a key behind the table's, and all that follows knows it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.errors import ActRefused, WindowRefused
from airflow_kafka_offsets.spark.commits import Commits
from airflow_kafka_offsets.spark.plan import Plan
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, StoreOfDriver, conf_of, produce

HIGHEST = "0000000041-aaaaaaaaaaaa"
ADOPTION = {"log": {"lost": HIGHEST}}


@pytest.fixture
def adopted(cluster: InMemoryCluster, pipeline: Pipeline) -> ResolvedBatch:
    """Its run was ``two``. Run ``one`` has planned the batch; the table refused its driver."""
    produce(cluster, 0, 5)
    pipeline.work("one")
    return pipeline.act("two", after=1, acknowledge=ADOPTION)


def test_the_batch_is_behind_the_table_and_its_rows_count_for_a_merge(
    pipeline: Pipeline, adopted: ResolvedBatch
) -> None:
    assert adopted.key > HIGHEST
    pipeline.drive(adopted)
    pipeline.commit(adopted)
    of_log = adopted.batch.plan
    plan = Plan(
        pipeline="orders",
        number=1,
        key=of_log.key,
        plan_id=of_log.plan_id,
        bases=tuple(of_log.bases),
        adopted=of_log.adopted,
    )
    assert Commits(StoreOfDriver(pipeline), "orders", plan, str(pipeline.output)).counts(adopted.key, None)


def test_a_batch_of_which_an_attempt_has_begun_elsewhere_is_behind_the_table_too(
    pipeline: Pipeline, cluster: InMemoryCluster
) -> None:
    """Back in the former table it has its former key: the rows of that attempt are found by it."""
    produce(cluster, 0, 5)
    former, first = pipeline.output, pipeline.work("one")
    pipeline.begin(first)
    pipeline.output = "delta:/lake/adopted"
    pipeline.act("two", after=1, acknowledge={"output": pipeline.output})
    assert pipeline.act("three", after=2, acknowledge=ADOPTION).key > HIGHEST
    pipeline.output = former
    assert pipeline.act("four", after=3, acknowledge={"output": former}).key == first.key


def test_a_batch_of_which_an_attempt_has_begun_in_the_table_keeps_its_key(
    pipeline: Pipeline, cluster: InMemoryCluster
) -> None:
    produce(cluster, 0, 5)
    first = pipeline.work("one")
    pipeline.begin(first)
    assert pipeline.act("two", after=1, acknowledge=ADOPTION).key == first.key


def test_a_retry_of_the_acts_run_is_no_older_copy(pipeline: Pipeline, cluster: InMemoryCluster) -> None:
    """Airflow deletes the XComs of the try before: then it remembers the first run, and the batch's first key."""
    produce(cluster, 0, 5)
    pipeline.work("one")
    remembered = pipeline.airflow.planned
    adopted = pipeline.act("two", after=1, acknowledge=ADOPTION)
    pipeline.airflow.planned = remembered
    again = pipeline.work("two", conf=conf_of(1, acknowledge=ADOPTION))
    assert again.key == adopted.key


def test_by_window_a_table_is_adopted_from_a_window_on(pipeline: Pipeline, cluster: InMemoryCluster) -> None:
    """Earlier windows may be in it, and no offset tells which."""
    at = cluster.now_ms
    cluster.now_ms += 4 * HOUR
    hours = [at, at + HOUR, at + 2 * HOUR, at + 3 * HOUR]

    def hour(number: int, acknowledge: Any = None) -> object:
        conf = None if acknowledge is None else conf_of(1, acknowledge=acknowledge)
        return pipeline.resolve(want=pipeline.window(hours[number], hours[number + 1], conf=conf))

    hour(2)
    with pytest.raises(ActRefused, match="windows_from"):
        hour(2, ADOPTION)
    hour(2, {**ADOPTION, "windows_from": hours[2]})
    with pytest.raises(WindowRefused, match="a lost log may have written it"):
        hour(1)
