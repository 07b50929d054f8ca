"""A person adopts a table: the unfinished batch gets a key behind the table's, and all that follows knows it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.errors import ActRefused, WindowRefused
from airflow_kafka_offsets.spark.commits import Commits
from airflow_kafka_offsets.spark.plan import Plan
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, StoreOfDriver, conf_of, produce, tp

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


class Hours:
    """A pipeline by window, and the hours that its runs read."""

    def __init__(self, cluster: InMemoryCluster, pipeline: Pipeline) -> None:
        self.cluster, self.pipeline, self.first = cluster, pipeline, cluster.now_ms
        cluster.now_ms += 12 * HOUR

    def at(self, number: int) -> int:
        return self.first + number * HOUR

    def read(self, number: int, run: str | None = None, **conf: Any) -> Any:
        conf = conf_of(**conf) if conf else {}
        return self.pipeline.resolve(run, want=self.pipeline.window(self.at(number), self.at(number + 1), conf=conf))

    def adopt(self, number: int, log: str, after: int) -> Any:
        return self.read(number, after=after, acknowledge={"log": {log: HIGHEST}, "windows_from": self.at(number)})


@pytest.fixture
def hours(cluster: InMemoryCluster, pipeline: Pipeline) -> Hours:
    return Hours(cluster, pipeline)


def test_by_window_a_table_is_adopted_from_a_window_on(hours: Hours) -> None:
    """Earlier windows may be in it, and no offset tells which."""
    hours.read(2)
    with pytest.raises(ActRefused, match="windows_from"):
        hours.read(2, after=1, acknowledge=ADOPTION)
    hours.adopt(2, "lost", 1)
    with pytest.raises(WindowRefused, match="a lost log may have written it"):
        hours.read(1)


def test_a_window_that_was_planned_before_the_adoption_is_refused_if_it_is_earlier(
    cluster: InMemoryCluster, hours: Hours
) -> None:
    cluster.produce(tp(0), [hours.at(1) + 1, hours.at(2) + 1])
    for number in (1, 2):
        hours.read(number, f"of hour {number}")
    hours.adopt(2, "lost", 1)
    with pytest.raises(WindowRefused, match="a lost log may have written it"):
        hours.read(1, "of hour 1")
    hours.adopt(1, "lost", 2)
    assert hours.read(1, "of hour 1").starts_job


def test_a_table_of_another_log_has_a_first_window_of_its_own(pipeline: Pipeline, hours: Hours) -> None:
    hours.read(5)
    hours.adopt(5, "lost", 1)
    hours.adopt(6, "another", 2)
    assert pipeline.log.identity().windows_from == hours.at(6)
    hours.adopt(7, "another", 3)
    assert pipeline.log.identity().windows_from == hours.at(6), "a later window would leave out what was read"
