"""A batch that is planned anew in place, however often and in whatever order.

Nothing changes its split, nothing is lost that is verified, and everything that is left out is counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import Actor, OffsetRange, TopicPartition
from airflow_kafka_offsets.plan.plan import Plan, VerifiedSplit
from airflow_kafka_offsets.plan.plan_json import plan_from_dict, plan_to_dict
from airflow_kafka_offsets.plan.planned_anew import emptied, planned_anew, shortened, skipped
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.request.policies import Skip
from tests.builders import draft, plan, planned, tp
from tests.laws.examples import of_examples

law = of_examples(200)
ME = Actor(None, "airflow")
sizes_of_partitions = st.lists(st.one_of(st.integers(0, 9), st.integers(0, 60_000)), min_size=1, max_size=4)
Rows = dict[tuple[int, TopicPartition], tuple[int, int]]


@dataclass(frozen=True)
class Cut:
    """One shortening or skip.

    :ivar verified: the splits that are verified when it happens.
    :ivar share: of each partition, how far into its range the log start, or the skip, is: 1.0 is its end.
    """

    kind: str
    verified: frozenset[int]
    shares: tuple[float, ...]


def cuts_of(*kinds: str) -> st.SearchStrategy[Cut]:
    shares = st.tuples(*[st.floats(0, 1.2)] * 4)
    return st.builds(Cut, st.sampled_from(kinds), st.frozensets(st.integers(0, 4)), shares)


in_place = cuts_of("retention", "skip past", "skip")
named = cuts_of("skip only")
cuts = cuts_of("retention", "skip past", "skip", "skip only")


def first_plan(sizes: list[int], splits: int) -> Plan:
    return plan([planned(number, 3, 3 + size) for number, size in enumerate(sizes)], splits=splits)


def rows(of: Plan) -> Rows:
    """What each split reads of each partition."""
    return {
        (number, piece.topic_partition): (piece.start_offset, piece.end_offset)
        for number, split in enumerate(of.splits)
        for piece in split
    }


def verified(of: Plan, cut: Cut) -> dict[int, VerifiedSplit]:
    found = {number for number in cut.verified if number < of.split_count and of.splits[number]}
    return {number: of.verified.get(number) or VerifiedSplit(of.plan_id, number + 1) for number in found}


def offsets(of: Plan, cut: Cut) -> dict[TopicPartition, int]:
    return {
        p.topic_partition: p.start_offset + int(share * p.range.size)
        for p, share in zip(of.partitions, cut.shares, strict=False)
    }


def after(before: Plan, cut: Cut) -> Plan:
    at, kept = offsets(before, cut), verified(before, cut)
    if cut.kind == "retention":
        return shortened(before, ME, kept, at, "records are gone")
    if cut.kind == "skip only":
        only = [
            (where, OffsetRange(offset, offset + 1)) for where, offset in at.items() if is_read(before, where, offset)
        ]
        return skipped(before, ME, Skip(before.batch.key, (), "poison", tuple(only)), kept) if only else before
    past = {p.topic_partition for p in before.to_read() if at[p.topic_partition] < p.end_offset}
    chosen = tuple((where, at[where]) for where in sorted(past)) if cut.kind == "skip past" else ()
    return skipped(before, ME, Skip(before.batch.key, chosen, "poison"), kept)


def is_read(of: Plan, where: TopicPartition, offset: int) -> bool:
    pieces = [piece for split in of.splits for piece in split if piece.topic_partition == where]
    return any(piece.start_offset <= offset < piece.end_offset for piece in pieces)


def accounted(of: Plan) -> dict[TopicPartition, int]:
    return {p.topic_partition: p.size + p.lost + p.skipped for p in of.partitions}


def first_left(cut: Cut, before: Plan) -> Mapping[TopicPartition, int]:
    """The first offset that stays of each partition; what is verified apart."""
    at = offsets(before, cut)
    if cut.kind == "retention":
        return at
    ends = {p.topic_partition: p.end_offset for p in before.partitions}
    past = {p.topic_partition: at[p.topic_partition] + 1 for p in before.to_read()}
    past = {where: offset for where, offset in past.items() if offset <= ends[where]}
    return past if cut.kind == "skip past" and past else ends


@law
@given(sizes_of_partitions, st.integers(1, 5), st.lists(in_place, min_size=1, max_size=4))
def test_no_record_changes_its_split_and_none_is_added(sizes: list[int], splits: int, steps: list[Cut]) -> None:
    now = first_plan(sizes, splits)
    for cut in steps:
        before, now = now, after(now, cut)
        had, has = rows(before), rows(now)
        for key, (start, end) in has.items():
            assert had[key][0] <= start < end == had[key][1]


@law
@given(sizes_of_partitions, st.integers(1, 5), st.lists(in_place, min_size=1, max_size=4))
def test_what_is_there_and_not_given_up_stays_and_a_verified_split_stays_whole(
    sizes: list[int], splits: int, steps: list[Cut]
) -> None:
    now = first_plan(sizes, splits)
    for cut in steps:
        before, now = now, after(now, cut)
        first, has = first_left(cut, before), rows(now)
        for (number, where), (start, end) in rows(before).items():
            whole = cut.kind == "retention" and number in verified(before, cut)
            left = start if whole else max(start, first.get(where, start))
            assert has.get((number, where)) == ((left, end) if left < end else None)
        for number in now.verified:
            assert now.splits[number]
            assert rows_of(now, number) == rows_of(before, number)


@law
@given(sizes_of_partitions, st.integers(1, 5), st.lists(cuts, min_size=1, max_size=6))
def test_only_what_a_person_names_is_not_read_and_a_split_has_one_range_of_a_partition(
    sizes: list[int], splits: int, steps: list[Cut]
) -> None:
    now = first_plan(sizes, splits)
    for cut in steps:
        before, now = now, after(now, cut)
        for split in now.splits:
            assert len({piece.topic_partition for piece in split}) == len(split)
        if cut.kind == "skip only":
            left_out = read_by(before) - read_by(now)
            assert left_out == {(where, at) for where, at in offsets(before, cut).items() if is_read(before, where, at)}
            assert read_by(now) <= read_by(before)
            for number in now.verified:
                assert rows_of(now, number) == rows_of(before, number)


@law
@given(
    sizes_of_partitions, st.integers(1, 5), st.lists(cuts_of("skip only"), min_size=1, max_size=3), st.integers(1, 5)
)
def test_what_a_person_named_stays_left_out_however_often_the_batch_is_planned_anew(
    sizes: list[int], splits: int, steps: list[Cut], more: int
) -> None:
    now = first_plan(sizes, splits)
    fresh = draft([planned(number, 3, 3 + size) for number, size in enumerate(sizes)], split_count=more)
    for cut in steps:
        now = after(now, cut)
        anew = planned_anew(now, fresh, ME, "re_plan")
        assert read_by(anew) == read_by(now)
        assert accounted(anew) == accounted(now)
        now = anew


def read_by(of: Plan) -> set[tuple[TopicPartition, int]]:
    pieces = [piece for split in of.splits for piece in split]
    return {(p.topic_partition, offset) for p in pieces for offset in range(p.start_offset, p.end_offset)}


def rows_of(of: Plan, number: int) -> set[tuple[TopicPartition, int, int]]:
    return {(p.topic_partition, p.start_offset, p.end_offset) for p in of.splits[number]}


@law
@given(sizes_of_partitions, st.integers(1, 5), st.lists(cuts, min_size=1, max_size=4))
def test_what_is_left_out_is_counted_and_the_position_after_it_is_the_same(
    sizes: list[int], splits: int, steps: list[Cut]
) -> None:
    first = now = first_plan(sizes, splits)
    for cut in steps:
        now = after(now, cut)
        assert accounted(now) == accounted(first)
        assert position_after(now, None) == position_after(first, None)
        for p in now.partitions:
            pieces = [piece for split in now.splits for piece in split if piece.topic_partition == p.topic_partition]
            assert p.start_offset == min((piece.start_offset for piece in pieces), default=p.end_offset)
            assert p.size == sum(piece.size for piece in pieces)


@law
@given(sizes_of_partitions, st.integers(1, 5), st.lists(cuts, max_size=4), st.integers(1, 7), sizes_of_partitions)
def test_every_split_that_may_hold_rows_is_started_unless_it_is_kept(
    sizes: list[int], splits: int, steps: list[Cut], more: int, fresh: list[int]
) -> None:
    now = first_plan(sizes, splits)
    for cut in steps:
        before, now = now, after(now, cut)
        assert before.splits_with_rows() <= set(now.splits_to_start()) | now.verified.keys()
    anew = planned_anew(
        now, draft([planned(n, 0, size) for n, size in enumerate(fresh)], split_count=more), ME, "re_plan"
    )
    for made in (anew, emptied(now, ME, "withdrawn", withdrawn=True)):
        assert made.split_count >= now.split_count
        assert now.splits_with_rows() <= set(made.splits_to_start())
        assert not made.verified


@law
@given(sizes_of_partitions, st.integers(1, 5), st.lists(cuts, max_size=4))
def test_a_plan_made_anew_comes_back_from_json_as_it_was(sizes: list[int], splits: int, steps: list[Cut]) -> None:
    now = first_plan(sizes, splits)
    ids = {now.plan_id: rows(now)}
    for cut in steps:
        now = after(now, cut)
        back = plan_from_dict(json.loads(json.dumps(plan_to_dict(now))))
        assert (back, back.plan_id) == (now, now.plan_id)
        assert ids.setdefault(now.plan_id, rows(now)) == rows(now)


@law
@given(sizes_of_partitions, st.integers(1, 5), st.lists(cuts, min_size=1, max_size=4))
def test_a_position_goes_forward_past_what_a_person_gave_up_and_nowhere_else(
    sizes: list[int], splits: int, steps: list[Cut]
) -> None:
    now = first_plan(sizes, splits)
    for cut in steps:
        before, now = now, after(now, cut)
        for old, new in zip(before.partitions, now.partitions, strict=True):
            assert old.position <= new.position <= new.start_offset
            if new.skipped == old.skipped:
                assert (new.position, new.position_epoch) == (old.position, old.position_epoch)


def test_the_steps_meet_gaps() -> None:
    """Else the laws would say nothing of them."""
    now = first_plan([60_000], 3)
    cut = shortened(now, ME, {0: VerifiedSplit(now.plan_id, 1)}, {tp(0): 30_003}, "records are gone")
    assert cut.partitions[0].gap
