"""A Spark driver's attempt at a split: it looks before it writes and after, and never vouches for another's rows.

Drivers need no exclusive creation. Two that begin at one moment have one number; so each looks again before it writes.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import LateAttempt, PlanReplaced, ReadNotVerified, StoreDamaged, StoreUnavailable
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import (
    SplitAttempt,
    attempt_numbers,
    begin,
    begin_attempt,
    deciding_attempts,
    has_begun,
    highest_attempts,
    report_of,
    require_current,
    store_report,
)
from airflow_kafka_offsets.log.verify_reads import Attempt
from airflow_kafka_offsets.stores.store import Store
from tests.builders import PIPELINE, planned
from tests.model.store import MemoryStore
from tests.reads import is_read, require_read
from tests.stores.builders import OUTPUT, actor, as_it_is_now, plan_of, run, take
from tests.stores.builders import begin as begin_batch
from tests.stores.builders import report_of as full_report
from tests.stores.watched import Process, interleavings

ROWS = [planned(0, 0, 10), planned(1, 0, 8), planned(2, 0, 5)]


@pytest.fixture
def batch() -> StoredBatch:
    """One of two splits: the first reads orders[0], the second orders[1] and [2]."""
    return begin_batch(PipelineLog(MemoryStore(), PIPELINE), 1, rows=ROWS, splits=2)


def attempt_at(batch: StoredBatch, split: int = 0, store: Store | None = None) -> SplitAttempt:
    return begin(store or batch.store, batch.plan_object, batch.log.plan, split, batch.log.plan.asked.output)


def report(attempt: SplitAttempt) -> None:
    attempt.report(full_report(attempt.plan, attempt.split, attempt.number))


def do(batch: StoredBatch, *splits: int) -> None:
    for split in splits:
        attempt = attempt_at(batch, split)
        attempt.look()
        report(attempt)


def plan_anew(batch: StoredBatch) -> StoredBatch:
    anew = as_it_is_now(batch).append(Planned(plan_of(1, [planned(0, 4, 10)], splits=2, overwrites=(1,), run=run("b"))))
    assert anew is not None
    return anew


def problems(batch: StoredBatch, newer_than: dict[int, int] | None = None) -> list[str]:
    try:
        require_read(batch, newer_than)
    except ReadNotVerified as refused:
        return list(refused.partitions)
    return []


# ── one after the other ───────────────────────────────────────────────────────────────────────────────────────────────


def test_attempts_are_numbered_in_each_split_of_its_own(batch: StoredBatch) -> None:
    assert not has_begun(batch.store, batch.plan_object)
    assert [attempt_at(batch, split).number for split in (0, 0, 1, 0)] == [1, 2, 1, 3]
    assert [number for number, _ in attempt_numbers(batch.store.list(batch.folder), 0)] == [1, 2, 3]
    assert has_begun(batch.store, batch.plan_object)
    assert highest_attempts(batch, [0, 1, 2]) == {0: 3, 1: 1, 2: 0}


def test_the_number_above_the_thousandth_is_the_next(batch: StoredBatch) -> None:
    begin_attempt(batch.store, batch.folder, 0, 999_999, "abcd", {})
    assert [attempt_at(batch).number, attempt_at(batch).number] == [1_000_000, 1_000_001]
    assert highest_attempts(batch, [0]) == {0: 1_000_001}


def test_a_batch_is_read_once_each_split_has_reported(batch: StoredBatch) -> None:
    assert problems(batch) == [f"split {split}: no Spark job has begun to read it" for split in (0, 1)]
    do(batch, 0)
    assert problems(batch) == ["split 1: no Spark job has begun to read it"]
    do(batch, 1)
    assert problems(batch) == []
    assert is_read(batch)


def test_an_attempt_that_began_and_did_not_report_may_have_written_half(batch: StoredBatch) -> None:
    do(batch, 0, 1)
    attempt_at(batch, 1).look()
    assert problems(batch) == ["split 1: attempt 2 began and has not reported; its output may be half written"]
    do(batch, 1)
    assert is_read(batch)


def test_a_report_is_kept_as_it_was_made_and_made_once(batch: StoredBatch) -> None:
    attempt = attempt_at(batch)
    made = full_report(attempt.plan, 0, attempt.number)
    attempt.report(made)
    assert report_of(batch.store, batch.folder, 0, 1, attempt.random) == made
    with pytest.raises(StoreUnavailable, match="it has reported already"):
        attempt.report(replace(made, proof="scan"))
    assert report_of(batch.store, batch.folder, 0, 1, attempt.random) == made


def test_begun_says_by_which_plan_and_to_where(batch: StoredBatch) -> None:
    attempt = attempt_at(batch)
    data = batch.store.get(f"{batch.folder}/0-000001-{attempt.random}.begun.json")
    assert batch.log.plan.plan_id.encode() in data
    assert OUTPUT.encode() in data


def test_two_attempts_never_have_one_name(batch: StoredBatch) -> None:
    assert len({attempt_at(batch).random for _ in range(20)}) == 20


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "7.json", "0-000001.begun.json", "0-000001-ABCD.begun.json", "0-x-abcd.begun.json", "0-1-a.begun"],
)
def test_what_is_no_attempt_is_passed_over(batch: StoredBatch, name: str) -> None:
    batch.store.create(f"{batch.folder}/{name}", b"x")
    assert attempt_numbers(batch.store.list(batch.folder), 0) == []


def test_a_damaged_report_is_named_and_is_not_one_that_is_missing(batch: StoredBatch) -> None:
    attempt = attempt_at(batch)
    batch.store.create(f"{batch.folder}/0-000001-{attempt.random}.report.json", b"half")
    with pytest.raises(StoreDamaged, match=rf"000001-{attempt.random}\.report\.json"):
        problems(batch)


# ── looking before it writes ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_that_was_overtaken_stops_before_it_writes_and_says_that_it_wrote_nothing(
    batch: StoredBatch,
) -> None:
    late = attempt_at(batch)
    do(batch, 0, 1)
    with pytest.raises(
        LateAttempt, match="attempt 1 at split 0 of batch 1 stops before it writes: attempt 2"
    ) as refused:
        late.look()
    assert not refused.value.wrote
    found = report_of(batch.store, batch.folder, 0, 1, late.random)
    assert found is not None
    assert not found.wrote
    assert is_read(batch), "it takes nothing from a finished split"


def test_an_attempt_finds_also_one_that_has_only_begun(batch: StoredBatch) -> None:
    late, other = attempt_at(batch), attempt_at(batch)
    with pytest.raises(LateAttempt):
        late.look()
    other.look()


def test_an_older_attempt_is_no_rival_whether_it_reported_or_died(batch: StoredBatch) -> None:
    attempt_at(batch)
    do(batch, 0)
    attempt_at(batch).look()


def test_a_later_attempt_that_wrote_nothing_is_no_rival(batch: StoredBatch) -> None:
    first, second = attempt_at(batch), attempt_at(batch)
    second.report_nothing_written()
    first.look()
    report(first)
    assert deciding_attempts(batch)[0] == [Attempt(1, full_report(first.plan, 0, 1))]


def test_another_splits_attempts_do_not_matter(batch: StoredBatch) -> None:
    first = attempt_at(batch, 0)
    do(batch, 1, 1)
    first.look()


def test_an_attempt_at_a_plan_that_was_replaced_stops_before_it_writes(batch: StoredBatch) -> None:
    late = attempt_at(batch)
    anew = plan_anew(batch)
    with pytest.raises(PlanReplaced) as refused:
        late.look()
    assert (refused.value.plan_id, refused.value.by) == (batch.log.plan.plan_id, anew.log.plan.plan_id)
    do(anew, 0, 1)
    assert is_read(anew)


def test_a_driver_that_comes_with_a_replaced_plan_does_not_even_begin(batch: StoredBatch) -> None:
    def names() -> list[str]:
        return batch.store.list(batch.folder)

    require_current(batch.store, batch.plan_object, batch.log.plan, names())
    take(batch, actor("c"))
    require_current(batch.store, batch.plan_object, batch.log.plan, names())
    anew = plan_anew(batch)
    with pytest.raises(PlanReplaced, match=f"was replaced by plan {anew.log.plan.plan_id}"):
        require_current(batch.store, batch.plan_object, batch.log.plan, names())
    require_current(batch.store, anew.plan_object, anew.log.plan, names())


# ── looking after it has written ──────────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_that_is_overtaken_while_it_writes_reports_nothing_and_unverifies_the_split(
    batch: StoredBatch,
) -> None:
    """Both have written there: nobody knows whose rows are in the output."""
    do(batch, 1)
    late = attempt_at(batch)
    late.look()
    do_other = attempt_at(batch)
    report(do_other)
    assert is_read(batch)
    with pytest.raises(LateAttempt, match="attempt 1 at split 0 of batch 1 comes too late: attempt 2") as refused:
        report(late)
    assert refused.value.wrote
    assert OUTPUT in str(refused.value)
    assert "Clear the run from its Spark task on" in str(refused.value)
    assert problems(batch) == ["split 0: attempt 3 began and has not reported; its output may be half written"]
    do(batch, 0)
    assert is_read(batch)


def test_an_attempt_whose_plan_is_replaced_while_it_writes_unverifies_the_split_of_the_new_plan(
    batch: StoredBatch,
) -> None:
    late = attempt_at(batch)
    late.look()
    anew = plan_anew(batch)
    do(anew, 0, 1)
    with pytest.raises(LateAttempt, match="comes too late"):
        report(late)
    assert problems(anew) == ["split 0: attempt 3 began and has not reported; its output may be half written"]


def test_an_attempt_that_is_late_by_a_plan_alone_is_named_by_that_plan(batch: StoredBatch) -> None:
    late = attempt_at(batch)
    late.look()
    anew = plan_anew(batch)
    with pytest.raises(LateAttempt) as refused:
        report(late)
    assert refused.value.by == f"plan {anew.log.plan.plan_id}"


# ── done again ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_that_is_done_again_needs_attempts_above_those_of_before(batch: StoredBatch) -> None:
    do(batch, 0, 1)
    before = highest_attempts(batch, [0, 1])
    assert problems(batch, before) == [
        "split 0: it was not done again; attempt 1 is of before",
        "split 1: it was not done again; attempt 1 is of before",
    ]
    do(batch, 0, 1)
    assert problems(batch, before) == []


# ── which attempts decide ─────────────────────────────────────────────────────────────────────────────────────────────


def begun(batch: StoredBatch, number: int, random: str, wrote: bool | None) -> None:
    """``wrote``: ``None``: it has not reported."""
    begin_attempt(batch.store, batch.folder, 0, number, random, {})
    if wrote is not None:
        made = full_report(batch.log.plan, 0, number, wrote=wrote)
        store_report(batch.store, batch.folder, random, made if wrote else replace(made, partitions={}))


@pytest.mark.parametrize(
    ("attempts", "deciding"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(1, "a", True)], [(1, True)], id="one"),
        pytest.param([(1, "a", True), (2, "b", None)], [(2, None)], id="the highest that may have written"),
        pytest.param([(1, "a", True), (2, "b", False)], [(1, True)], id="nothing written does not count"),
        pytest.param([(1, "a", True), (1, "b", None)], [(1, None), (1, True)], id="two of one number"),
        pytest.param([(1, "a", True), (1, "b", False)], [(1, True)], id="two of one number, one wrote nothing"),
        pytest.param(
            [(1, "a", True), (1, "b", True), (2, "c", False), (2, "d", False)], [(1, True), (1, True)],
            id="all above wrote nothing",
        ),
        pytest.param([(9, "a", True), (10, "b", None)], [(10, None)], id="by number and not by name"),
    ],
)  # fmt: skip
def test_the_highest_attempts_that_may_have_written_decide(
    batch: StoredBatch, attempts: list[tuple[int, str, bool | None]], deciding: list[tuple[int, bool | None]]
) -> None:
    for attempt in attempts:
        begun(batch, *attempt)
    found = deciding_attempts(batch)[0]
    assert [(one.number, one.report and one.report.wrote) for one in found] == deciding


# ── at the same time ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_two_that_begin_with_one_number_in_any_order_at_most_one_goes_on() -> None:
    """Every order of their questions to the store, up to where the first row would be written."""
    seen = set()

    def start() -> list[Process]:
        batch = begin_batch(PipelineLog(MemoryStore(), PIPELINE), 1, rows=ROWS[:1])

        def driver(mine: Store) -> SplitAttempt:
            attempt = attempt_at(batch, 0, mine)
            attempt.look()
            return attempt

        return [Process(batch.store, driver), Process(batch.store, driver)]

    for processes in interleavings(start):
        outcomes = [process.outcome for process in processes]
        going_on = [one for one in outcomes if isinstance(one, SplitAttempt)]
        stopped = [one for one in outcomes if isinstance(one, LateAttempt)]
        assert len(going_on) + len(stopped) == 2, outcomes
        if len(going_on) == 2:  # one after the other: the later one was not there yet when the first looked
            assert sorted(one.number for one in going_on) == [1, 2]
        seen.add(len(going_on))
    assert seen == {0, 1, 2}, "also that both stop"


class Lake:
    """An output of one split: by which plan its rows are, and whether they are all of them."""

    def __init__(self) -> None:
        self.rows: tuple[str, str] | None = None


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), max_size=40)


@settings(max_examples=300)
@given(STEPS, st.integers(0, 3))
def test_what_is_verified_once_all_drivers_are_over_is_whole_and_of_the_current_plan(
    steps: list[tuple[int, int]], dies: int
) -> None:
    """Drivers that begin when they like, one of which dies half-way, and a plan made anew between any two questions.

    A driver that has looked writes at once. One that sleeps between its look and its write is what no look can find;
    that is for the sink (docs/log.md, "traps").
    """
    log = PipelineLog(MemoryStore(), PIPELINE)
    first, lake = begin_batch(log, 1, rows=ROWS[:1], output=None), Lake()

    def driver(number: int):
        def work(mine: Store) -> str:
            current = log.newest()  # what Airflow hands out when it starts the job
            assert current is not None
            mine.list("")  # the job is submitted, and comes later
            made = current.log.plan
            names = mine.list(current.folder)
            require_current(mine, current.plan_object, made, names)
            attempt = begin(mine, current.plan_object, made, 0, None, names)
            mine.list("")
            replace(attempt, store=log.store).look()  # nobody comes between this and the write
            if number == dies:
                lake.rows = made.plan_id, "half"
                return "died"
            lake.rows = made.plan_id, "whole"
            attempt.report(full_report(made, 0, attempt.number))
            return "reported"

        return work

    def person(mine: Store) -> None:
        mine.list("")
        anew = as_it_is_now(first).append(Planned(plan_of(1, [planned(0, 4, 10)], output=None)))
        assert anew is not None

    processes = [*(Process(log.store, driver(number)) for number in range(4)), Process(log.store, person)]
    for number, count in steps:
        for _ in range(count):
            if not processes[number].is_over:
                processes[number].step()
    for process in processes:
        while not process.is_over:
            process.step()
        assert process.outcome in ("died", "reported", None) or isinstance(process.outcome, LateAttempt | PlanReplaced)
    batch = log.newest()
    assert batch is not None
    if is_read(batch):
        assert lake.rows == (batch.log.plan.plan_id, "whole")
    again = Process(log.store, driver(9))  # and whoever comes after all of them makes it good
    while not again.is_over:
        again.step()
    assert again.outcome == "reported"
    assert is_read(batch)
    assert lake.rows == (batch.log.plan.plan_id, "whole")
