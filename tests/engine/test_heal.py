"""A committed batch whose records are gone is healed by another definition, whatever crashes between.

The engine is the real one, and so is what the driver compares. The driver itself writes sets of offsets, in the order
of :mod:`airflow_kafka_offsets.spark.heal`, and may end between any two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.log.pipeline_log import job_digest
from airflow_kafka_offsets.log.reports import Counts
from airflow_kafka_offsets.spark.count import Counted
from airflow_kafka_offsets.spark.heal import carry_over, compare
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, produce, tp

RECORDS = range(2, 8)
"""Offset 0 was filtered, and 1 is the marker of a transaction."""
AT = TOPIC, 0
STEPS = ("begun", "rows", "bad", "reported", "committed")
"""After which a run ends."""


def job_of(good: frozenset[int]) -> dict[str, Any]:
    """A definition, by which these offsets are rows and the others are bad."""
    return {"rows": {"good": sorted(good)}, "sink": {"keeps_rows": True}}


@dataclass
class Orders:
    """One batch.

    :ivar leaves_out: what a broken twin does not do.
    """

    pipeline: Pipeline
    leaves_out: str = ""
    rows: list[int] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    reported: Counted = field(default_factory=Counted)
    committed: Counted = field(default_factory=Counted)

    def run(self, good: frozenset[int], until: str = "committed") -> ResolvedBatch:
        self.pipeline.airflow.jobs = job_of(good)
        job, work = job_digest(job_of(good)), self.pipeline.work("a")
        if not work.is_left and not self.drive(work, good, job, until):
            return work
        if until == "committed":
            self.pipeline.commit(work, job)
            self.committed = self.reported
        return work

    def drive(self, work: ResolvedBatch, good: frozenset[int], job: str, until: str) -> bool:
        """Whether it has reported."""
        attempt, kept, source = self.pipeline.begin(work, job=job), list[int](), list(RECORDS)
        if work.batch.plan.from_outputs:
            kept = [o for o in self.rows if self.leaves_out == "the anti-join" or o not in self.bad]
            assert compare({AT: self.committed}, {AT: self.count(kept, self.bad)}) == []
            source = self.bad
        writes = [(True, kept + [o for o in source if o in good]), (False, [o for o in source if o not in good])]
        for step, (is_rows, offsets) in enumerate(reversed(writes) if self.leaves_out == "order" else writes):
            if until == STEPS[step]:
                return False
            self.rows, self.bad = (offsets, self.bad) if is_rows else (self.rows, offsets)
        if until == "bad":
            return False
        whole = Counted(filtered=1, gaps=1, first=0, last=7)
        self.reported = carry_over(
            self.committed if work.batch.is_committed else whole, self.count(self.rows, self.bad)
        )
        counts = {name: getattr(self.reported, name) for name in Counts._fields}
        self.pipeline.report(work, attempt, {tp(0): Counts(**counts)}, job=job)
        return True

    @staticmethod
    def count(rows: list[int], bad: list[int]) -> Counted:
        return Counted(len(rows), len(bad), offsets=len({*rows, *bad}))


def make(leaves_out: str = "", first: frozenset[int] = frozenset({2}), *, is_gone: bool = True) -> Orders:
    """The batch is committed, and its records are gone."""
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 1)
    produce(cluster, 0, 8)
    made = Orders(Pipeline(cluster), leaves_out)
    made.run(first)
    if is_gone:
        cluster.delete_records(tp(0), 8)
    return made


def play(orders: Orders, history: list[tuple[frozenset[int], str]]) -> None:
    for good, until in history:
        healed = {*orders.rows} | ({*orders.bad} & good)
        orders.run(good, until)
        assert {*orders.rows, *orders.bad} == {*RECORDS}
        if until == "committed":
            assert sorted(orders.rows + orders.bad) == [*RECORDS]
            commit = orders.pipeline.log.existing(1).commits[-1]
            assert (commit.rows, commit.bad, commit.filtered) == (len(orders.rows), len(orders.bad), 1)
            assert {*orders.rows} <= healed


DEFINITIONS = st.frozensets(st.sampled_from(RECORDS))
HISTORIES = st.lists(st.tuples(DEFINITIONS, st.sampled_from(STEPS)), max_size=8)


@settings(max_examples=300, deadline=None)
@given(DEFINITIONS, HISTORIES, DEFINITIONS)
def test_whatever_crashes_and_whatever_the_code_is_each_record_is_a_row_or_bad_and_once(
    first: frozenset[int], history: list[tuple[frozenset[int], str]], last: frozenset[int]
) -> None:
    play(make(first=first), [*history, (last, "committed")])


@pytest.mark.parametrize("leaves_out", ["the anti-join", "order"])
def test_the_order_and_the_anti_join_are_needed(leaves_out: str) -> None:
    with pytest.raises(AssertionError):
        play(make(leaves_out), [(frozenset({2, 3}), "rows"), (frozenset(), "committed")])


@pytest.mark.parametrize(
    "job",
    [
        None,  # a job of the user's own
        {"rows": None, "sink": {"keeps_rows": True}},
        {"rows": {}, "sink": {"keeps_rows": False}},
        job_of(frozenset({2})),  # the committed one
    ],
)
def test_a_batch_that_this_run_cannot_heal_is_left_as_it_is(job: dict[str, Any] | None) -> None:
    orders = make()
    orders.pipeline.airflow.jobs = job
    work = orders.pipeline.work("a")
    assert (work.is_left, len(work.batch.entries)) == (True, 2)
    assert ("clear the run with" in work.summary) == (job == job_of(frozenset({2})))


def test_a_batch_without_bad_records_is_left_as_it_is() -> None:
    orders = make(first=frozenset(RECORDS))
    assert orders.run(frozenset()).is_left


def test_an_attempt_that_may_have_read_another_log_is_not_healed() -> None:
    """A cleared run began to write the batch again, and the topic was created again before it had reported."""
    orders = make(is_gone=False)
    assert not orders.run(frozenset({3}), "begun").batch.plan.from_outputs
    orders.pipeline.cluster.recreate_topic(TOPIC)
    with pytest.raises(DataLoss):
        orders.run(frozenset({3}))


def test_what_was_healed_is_committed_though_the_topic_is_another_one() -> None:
    orders = make()
    orders.pipeline.cluster.recreate_topic(TOPIC)
    play(orders, [(frozenset({3}), "reported"), (frozenset({3, 4}), "rows"), (frozenset({3, 4}), "committed")])
    assert orders.rows == [2, 3, 4]
