"""Who gets a window, whatever the order: runs plan step by step, each step of each in any order.

A step is one question to the store, or one write. Runs wait for their turn at each, and hypothesis says whose it is.
The rule is plan, claim, look: of two windows that overlap at least one finds the other; both may.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import WindowOverlaps
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.window_claims import TimeClaim
from tests.engine import Assignment, plan_batch
from tests.laws.examples import of_examples
from tests.laws.pipelines import Pipeline, cluster, run_key
from tests.stores.watched import Process

law = of_examples(150)

DAY = 86_400_000
T = int(datetime(2024, 1, 29, tzinfo=UTC).timestamp()) * 1000  # near the end of a month, so that windows lie in two


def world() -> Pipeline:
    """Two topics with a record every half day, so that every window reads some."""
    pipeline = Pipeline(
        cluster(), {"topics": "orders,payments", "startup_mode": "timestamp", "bounded_mode": "timestamp"}
    )
    for topic in ("orders", "payments"):
        pipeline.cluster.create_topic(topic)
        pipeline.cluster.produce(TopicPartition(topic, 0), [T + half * DAY // 2 for half in range(24)])
    return pipeline


def _claim(start: int, length: int, later: int | None) -> TimeClaim:
    """In half days; with ``later``, of two topics, one of which is that much behind the other."""
    bounds = T + start * DAY // 2, T + (start + length) * DAY // 2
    if later is None:
        return TimeClaim(*bounds)
    behind = bounds[0] + later * DAY // 2, bounds[1] + later * DAY // 2
    return TimeClaim(bounds[0], behind[1], (("orders", *bounds), ("payments", *behind)))


class Try(Process):
    """One try of a run to get its window."""

    def __init__(self, pipeline: Pipeline, number: int, claim: TimeClaim) -> None:
        self.pipeline, self.number, self.claim = pipeline, number, claim
        super().__init__(
            pipeline.store, lambda store: plan_batch(pipeline.asker(run_key(number), store=store, **self._ask()))
        )

    def _ask(self) -> dict[str, Any]:
        if not self.claim.by_topic:
            return {"startup_timestamp": self.claim.start_ms, "bounded_timestamp": self.claim.end_ms}
        return {
            "startup_timestamp": {topic: start for topic, start, _ in self.claim.by_topic},
            "bounded_timestamp": {topic: end for topic, _, end in self.claim.by_topic},
        }

    @property
    def has_it(self) -> bool:
        """Whether its Spark jobs may work by the plan that it was given: no other has taken that plan's place."""
        if not isinstance(self.outcome, Assignment):
            return False
        window = self.pipeline.log.window(self.claim.name)
        return window is not None and window.log.plan == self.outcome.plan

    @property
    def is_refused(self) -> bool:
        return isinstance(self.outcome, WindowOverlaps)

    def finish(self) -> None:
        for _ in range(1_000):
            if self.is_over:
                assert isinstance(self.outcome, Assignment | WindowOverlaps), self.outcome
                return
            self.step()
        raise AssertionError("it goes on for ever")

    def again(self) -> Try:
        """The same run once more, alone."""
        tried = Try(self.pipeline, self.number, self.claim)
        tried.finish()
        return tried


CLAIMS = st.builds(_claim, st.integers(0, 5), st.integers(1, 5), st.none() | st.integers(0, 3))
CLAIM_LISTS = st.lists(CLAIMS, min_size=2, max_size=4)
ORDERS = st.lists(st.integers(0, 3), min_size=40, max_size=90)  # shorter ones are no more than one after the other


def begin(claims: list[TimeClaim]) -> list[Try]:
    pipeline = world()
    return [Try(pipeline, number, claim) for number, claim in enumerate(claims)]


def play(tries: list[Try], order: list[int]) -> None:
    for number in order:
        if not tries[number % len(tries)].is_over:
            tries[number % len(tries)].step()


def assert_no_two_have_the_same(tries: list[Try]) -> None:
    """One window is one batch, whoever does it; two that overlap would put records into two places."""
    having = [one for one in tries if one.has_it]
    for one in having:
        rivals = [other for other in having if other.claim != one.claim and other.claim.overlaps(one.claim)]
        assert not rivals, (one.claim, [other.claim for other in rivals])


@law
@given(CLAIM_LISTS, ORDERS)
def test_of_windows_that_overlap_never_two_are_given_out_and_who_is_in_nobodys_way_gets_its_own(claims, order):
    tries = begin(claims)
    play(tries, order)
    for one in tries:
        one.finish()
    assert_no_two_have_the_same(tries)
    for one in tries:
        rivals = [other for other in tries if other.claim != one.claim and other.claim.overlaps(one.claim)]
        assert one.has_it or rivals, "who is in nobody's way is not refused"


@law
@given(CLAIM_LISTS)
def test_of_windows_one_after_the_other_the_first_gets_its_own_and_only_what_overlaps_it_is_refused(claims):
    tries, having = begin(claims), []
    for one in tries:
        one.finish()
        in_the_way = [other for other in having if other.claim != one.claim and other.claim.overlaps(one.claim)]
        assert one.has_it == (not in_the_way)
        if one.is_refused:
            assert one.outcome.withdrawn, "so that it blocks nobody"
            assert len(one.outcome.others) == len({other.claim for other in in_the_way})
        having += [one] if one.has_it else []


@law
@given(CLAIM_LISTS, ORDERS)
def test_two_that_were_refused_in_the_same_moment_get_it_when_they_try_again(claims, order):
    """Those that were refused have withdrawn, and block nobody: then each has its window, or a rival has it."""
    tries = begin(claims)
    play(tries, order)
    for one in tries:
        one.finish()
    for old in [one for one in tries if not one.has_it]:
        in_the_way = [one for one in tries if one.has_it and one.claim != old.claim and one.claim.overlaps(old.claim)]
        again = old.again()
        assert again.has_it == (not in_the_way)
        tries.append(again)
    assert_no_two_have_the_same(tries)


@law
@given(CLAIM_LISTS, ORDERS, st.sets(st.integers(0, 3), min_size=1))
def test_runs_that_died_while_they_planned_block_nobody_for_ever(claims, order, dead):
    """Each of them stops after the steps that it has had; then its run is tried again, as others are."""
    tries = begin(claims)
    play(tries, order)
    for number, one in enumerate(tries):
        if number not in dead:
            one.finish()
    assert_no_two_have_the_same(tries)
    for _ in range(2):  # one that is refused because of a dead one gets it once that one has been refused itself
        for number, claim in enumerate(claims):
            if not any(one.has_it for one in tries if one.claim == claim):
                tries.append(Try(tries[0].pipeline, number, claim))
                tries[-1].finish()
    assert_no_two_have_the_same(tries)
    having = [one.claim for one in tries if one.has_it]
    for claim in claims:
        assert claim in having or any(claim.overlaps(other) for other in having), f"nobody has what {claim} wants"
