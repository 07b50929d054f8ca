"""A batch planned anew in place: every split that may hold rows of an earlier plan is written over."""

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import Actor, OffsetRange, RunKey
from airflow_kafka_offsets.plan.plan import Draft, Plan, VerifiedSplit
from airflow_kafka_offsets.plan.planned_anew import emptied, planned_anew, shortened, skipped
from airflow_kafka_offsets.plan.position import position_within
from airflow_kafka_offsets.request.policies import Skip
from tests.builders import KEY, altered, draft, plan, planned, position, tp

LATER = Actor(RunKey("billing", "run-9", "resolve"), "airflow.example.com")
BEFORE = plan([planned(0, 10, 20), planned(1, 5, 9), planned(2, 7, 7)], splits=2, startup="latest-offset")


def fresh(*rows, splits=1, **more):
    return draft(rows, split_count=splits, **more)


def as_draft(made):
    return Draft(**{one.name: getattr(made, one.name) for one in fields(Draft)})


# ── planned anew ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_new_plan_has_the_batchs_name_the_reason_and_everything_else_of_its_own():
    made = fresh(planned(0, 12, 30), planned(1, 5, 9), splits=2, output="s3://new", restarts=("a",))
    anew = planned_anew(BEFORE, made, LATER, "re_plan")
    assert as_draft(anew) == made
    assert (anew.batch, anew.by, anew.reason, anew.verified) == (BEFORE.batch, LATER, "re_plan", {})
    assert anew.plan_id != BEFORE.plan_id


@pytest.mark.parametrize(("before_splits", "fresh_splits", "splits"), [(4, 2, 4), (2, 4, 4), (3, 3, 3), (1, 1, 1)])
def test_it_never_has_fewer_splits_than_any_plan_before(before_splits, fresh_splits, splits):
    """A split that is no more would keep what its jobs wrote, and nobody would read it back."""
    before = altered(BEFORE, splits=before_splits)
    anew = planned_anew(before, fresh(planned(0, 0, 5), splits=fresh_splits), LATER, "x")
    assert anew.split_count == splits
    assert len(anew.splits) == splits


@pytest.mark.parametrize(
    ("rows", "overwrites", "started"),
    [
        pytest.param([planned(0, 10, 20), planned(1, 5, 9)], (), [0, 1], id="both have records again"),
        pytest.param([planned(0, 10, 20)], (1,), [0, 1], id="the second has none any more"),
        pytest.param([planned(0, 20, 20)], (0, 1), [0, 1], id="none has any"),
    ],
)
def test_a_split_that_has_no_records_any_more_is_started_all_the_same(rows, overwrites, started):
    anew = planned_anew(BEFORE, fresh(*rows, splits=2), LATER, "x")
    assert (anew.overwrites, anew.splits_to_start()) == (overwrites, started)


def test_what_the_plan_before_had_to_overwrite_is_not_forgotten():
    """Nobody looks who had begun: the splits of the first plan are started by the third."""
    first = plan([planned(number, 0, 10) for number in range(3)], splits=3)
    second = planned_anew(first, fresh(planned(0, 0, 10), splits=3), LATER, "x")
    third = planned_anew(second, fresh(planned(0, 0, 10), planned(1, 0, 5), splits=1), LATER, "y")
    assert second.overwrites == (1, 2)
    assert third.overwrites == (2,)
    assert third.splits_to_start() == [0, 1, 2]


def test_a_split_that_was_never_started_is_not_started_now():
    first = plan([planned(0, 0, 10)], splits=3)
    assert planned_anew(first, fresh(planned(0, 0, 5), splits=3), LATER, "x").splits_to_start() == [0]


# ── emptied ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_emptied_batch_reads_nothing_and_starts_every_split_that_had_something():
    made = emptied(BEFORE, LATER, "withdrawn")
    assert made.empty
    assert [(p.start_offset, p.end_offset) for p in made.partitions] == [(20, 20), (9, 9), (7, 7)]
    assert (made.overwrites, made.reason, made.by, made.batch) == ((0, 1), "withdrawn", LATER, BEFORE.batch)


# ── skipped by a person ───────────────────────────────────────────────────────────────────────────────────────────────


def skip(past=(), reason="poison", verified=None):
    return skipped(BEFORE, LATER, Skip(KEY, tuple(past), reason), verified or {})


def ranges(made):
    return [(p.start_offset, p.end_offset) for p in made.partitions]


def test_a_batch_that_is_skipped_reads_nothing_ends_where_it_did_and_counts_every_record_with_the_reason():
    made = skip()
    assert ranges(made) == [(20, 20), (9, 9), (7, 7)]
    assert [p.skipped for p in made.partitions] == [10, 4, 0]
    assert made.skipped == BEFORE.record_count_upper_bound
    assert [p.start_reason for p in made.partitions] == [
        "committed, then 10 skipped by order: poison",
        "committed, then 4 skipped by order: poison",
        "committed",
    ]
    assert made.reason == "skip: poison"
    assert made.splits_to_start() == BEFORE.splits_to_start(), "what was half written has to go"
    assert (made.by, made.batch) == (LATER, BEFORE.batch)


@pytest.mark.parametrize(
    ("past", "expected", "counted"),
    [
        pytest.param([(tp(0), 10)], [(11, 20), (5, 9), (7, 7)], [1, 0, 0], id="the first record"),
        pytest.param([(tp(0), 14)], [(15, 20), (5, 9), (7, 7)], [5, 0, 0], id="up to and with an offset"),
        pytest.param([(tp(0), 19)], [(20, 20), (5, 9), (7, 7)], [10, 0, 0], id="the last record: that partition"),
        pytest.param([(tp(0), 14), (tp(1), 5)], [(15, 20), (6, 9), (7, 7)], [5, 1, 0], id="of two partitions"),
    ],
)
def test_past_an_offset_the_rest_is_read_and_other_partitions_are_as_they_were(past, expected, counted):
    made = skip(past)
    assert ranges(made) == expected
    assert [p.skipped for p in made.partitions] == counted
    assert [p for p in made.partitions if p.topic_partition not in dict(past)] == [
        p for p in BEFORE.partitions if p.topic_partition not in dict(past)
    ]


def test_a_batch_that_is_planned_anew_after_a_skip_does_not_bring_back_what_was_left_out():
    """It goes on from where the plan before it did, and that is past what a person gave up."""
    before = position({0: 10, 1: 5, 2: 7})
    assert position_within(BEFORE, before).offsets == before.offsets
    within = position_within(skip([(tp(0), 14)]), before)
    assert {where.partition: kept.offset for where, kept in within.offsets.items()} == {0: 15, 1: 5, 2: 7}
    assert position_within(skip(), before).offsets[tp(0)].offset == 20


def test_what_was_skipped_before_stays_counted():
    before = altered(BEFORE, partitions=(replace(BEFORE.partitions[0], skipped=100, lost=7),))
    [p] = skipped(before, LATER, Skip(KEY, ((tp(0), 10),)), {}).partitions
    assert (p.skipped, p.lost) == (101, 7)


@pytest.mark.parametrize(
    ("past", "problem"),
    [
        pytest.param((tp(0), 9), "skip past orders[0]:9: the batch reads [10, 20) of it.", id="below the batch"),
        pytest.param((tp(0), 20), "skip past orders[0]:20: the batch reads [10, 20) of it.", id="at its end"),
        pytest.param((tp(2), 6), "skip past orders[2]:6: the batch reads nothing of it.", id="no record of it"),
        pytest.param((tp(2), 7), "skip past orders[2]:7: the batch reads nothing of it.", id="at its empty end"),
        pytest.param((tp(8), 1), "skip past orders[8]:1: the batch reads nothing of it.", id="no such partition"),
    ],
)
def test_past_outside_of_the_batch_is_refused(past, problem):
    """An offset past the end would skip records of batches to come, in silence."""
    with pytest.raises(InvalidRequest) as refused:
        skip([(tp(1), 5), past])
    assert list(refused.value.problems) == [problem]


def test_everything_that_lies_outside_is_named_at_once():
    with pytest.raises(InvalidRequest) as refused:
        skip([(tp(0), 20), (tp(1), 0)])
    assert len(refused.value.problems) == 2


def test_a_batch_that_is_skipped_whole_keeps_no_split_also_where_one_is_verified():
    made = skip(verified={0: VerifiedSplit(BEFORE.plan_id, 1)})
    assert (made.verified, made.overwrites, made.splits_to_start()) == ({}, (0, 1), [0, 1])


def test_past_an_offset_a_verified_split_that_loses_nothing_is_not_started():
    kept = {0: VerifiedSplit(BEFORE.plan_id, 3), 1: VerifiedSplit(BEFORE.plan_id, 1)}
    made = skip([(tp(0), 14)], verified=kept)
    assert (made.verified, made.splits_to_start()) == ({1: kept[1]}, [0])
    assert made.splits[1] == BEFORE.splits[1]


# ── only some records ─────────────────────────────────────────────────────────────────────────────────────────────────

MANY = plan([planned(0, 0, 100), planned(1, 5, 9)])


def only(*ranges_, of=MANY, reason="poison", verified=None):
    named = tuple((tp(number), OffsetRange(start, end)) for number, start, end in ranges_)
    return skipped(of, LATER, Skip(KEY, (), reason, named), verified or {})


@pytest.mark.parametrize(
    ("left_out", "expected", "of_0"),
    [
        pytest.param([(0, 50, 51)], [[(0, 0, 50), (1, 5, 9)], [(0, 51, 100)]], (0, 100, 1, 1), id="one in the middle"),
        pytest.param([(0, 40, 60)], [[(0, 0, 40), (1, 5, 9)], [(0, 60, 100)]], (0, 100, 20, 20), id="a range"),
        pytest.param([(0, 0, 1)], [[(0, 1, 100), (1, 5, 9)]], (1, 100, 0, 1), id="the first: no split more"),
        pytest.param([(0, 99, 100)], [[(0, 0, 99), (1, 5, 9)]], (0, 100, 1, 1), id="the last: the end stays"),
        pytest.param([(0, 0, 100)], [[(1, 5, 9)]], (100, 100, 0, 100), id="all of the partition"),
        pytest.param(
            [(0, 10, 11), (0, 11, 12), (0, 20, 21)],
            [[(0, 0, 10), (1, 5, 9)], [(0, 12, 20)], [(0, 21, 100)]],
            (0, 100, 3, 3),
            id="several: those side by side are one",
        ),
        pytest.param(
            [(0, 50, 51), (1, 6, 7)],
            [[(0, 0, 50), (1, 5, 6)], [(0, 51, 100), (1, 7, 9)]],
            (0, 100, 1, 1),
            id="of two partitions: one split more",
        ),
    ],
)
def test_F16_one_record_is_left_out_and_counted_and_what_lies_behind_it_is_read_by_another_split(
    left_out, expected, of_0
):
    """Spark's options have one range of a partition, so no split has two."""
    made = only(*left_out)
    assert pieces(made) == expected
    [p, other] = made.partitions
    assert (p.start_offset, p.end_offset, p.gap, p.skipped) == of_0
    assert made.record_count_upper_bound + made.skipped == MANY.record_count_upper_bound
    assert p.start_reason == f"committed, then {p.skipped} skipped by order: poison"
    assert made.splits_to_start() == list(range(len(expected)))
    assert other.end_offset == 9


def test_the_words_of_the_order_stand_in_the_plan():
    assert only((0, 50, 51), (0, 60, 71)).reason == "skip only orders[0]:50, orders[0]:60-70: poison"


def test_F16_what_is_left_out_already_is_not_left_out_again():
    once = only((0, 50, 51))
    assert only((0, 50, 51), of=once) is None
    more = only((0, 50, 52), of=once)
    assert (more.skipped, pieces(more)) == (2, [[(0, 0, 50), (1, 5, 9)], [(0, 52, 100)]])


def test_F16_a_verified_split_that_loses_nothing_stays_and_takes_nothing_more():
    before = plan([planned(0, 0, 100), planned(1, 0, 90)], splits=2)
    kept = {1: VerifiedSplit(before.plan_id, 1)}
    made = only((0, 50, 51), of=before, verified=kept)
    assert pieces(made) == [[(0, 0, 50)], [(1, 0, 90)], [(0, 51, 100)]]
    assert (made.verified, made.splits_to_start()) == (kept, [0, 2])


def test_a_split_that_has_to_be_written_again_anyway_takes_the_rest():
    before = plan([planned(0, 0, 100), planned(1, 0, 90), planned(2, 0, 80)], splits=3)
    assert pieces(only((0, 50, 51), of=before)) == [[(0, 0, 50)], [(1, 0, 90)], [(0, 51, 100), (2, 0, 80)]]


@pytest.mark.parametrize("split_by", ["size", "flink"])
def test_F16_a_batch_that_is_planned_anew_leaves_the_record_out_again_and_counts_it_once(split_by):
    made = planned_anew(only((0, 50, 51)), fresh(planned(0, 0, 120), planned(1, 5, 9), split_by=split_by), LATER, "x")
    [p, _] = made.partitions
    assert (p.start_offset, p.end_offset, p.gap, p.skipped, made.skipped) == (0, 120, 1, 1, 1)
    read = sorted(piece for split in pieces(made) for piece in split if piece[0] == 0)
    assert read == [(0, 0, 50), (0, 51, 120)]
    assert all(len({piece.topic_partition for piece in split}) == len(split) for split in made.splits)


def test_a_plan_that_differs_from_the_one_before_in_what_it_asks_alone_counts_it_once():
    """As where the group or the output is another one."""
    before = only((0, 50, 51))
    made = planned_anew(before, replace(before, asked=replace(before.asked, group_id="other")), LATER, "x")
    assert (made.partitions, made.skipped) == (before.partitions, 1)
    assert sorted(one for split in pieces(made) for one in split) == [(0, 0, 50), (0, 51, 100), (1, 5, 9)]


def test_F16_it_is_left_out_again_where_a_plan_in_between_had_held_the_partition():
    held = planned_anew(only((0, 50, 51)), fresh(planned(0, 0, 0), planned(1, 5, 9)), LATER, "held")
    assert (held.skipped, pieces(held)) == (0, [[(1, 5, 9)], []])
    assert planned_anew(held, fresh(planned(0, 0, 100), planned(1, 5, 9)), LATER, "x").skipped == 1


def test_F16_a_record_of_another_log_under_the_same_name_is_read():
    before = only((0, 50, 51))
    another = fresh(planned(0, 0, 100), planned(1, 5, 9), topic_ids={"orders": "another"})
    elsewhere = fresh(planned(0, 0, 100), planned(1, 5, 9), cluster_id="another")
    assert [planned_anew(before, made, LATER, "x").skipped for made in (another, elsewhere)] == [0, 0]


def test_F16_retention_and_a_person_are_counted_apart():
    made = shortened(only((0, 50, 51)), LATER, {}, {tp(0): 70}, "gone")
    [p, _] = made.partitions
    assert (p.start_offset, p.gap, p.lost, p.skipped) == (70, 0, 69, 1)
    assert planned_anew(made, fresh(planned(0, 70, 100), planned(1, 5, 9)), LATER, "x").skipped == 0, "its start counts"


@pytest.mark.parametrize(
    ("left_out", "problem"),
    [
        pytest.param((1, 4, 6), "skip only orders[1]:4-5: the batch reads [5, 9) of it.", id="from below the batch"),
        pytest.param((1, 8, 10), "skip only orders[1]:8-9: the batch reads [5, 9) of it.", id="beyond its end"),
        pytest.param((8, 1, 2), "skip only orders[8]:1: the batch reads nothing of it.", id="no such partition"),
    ],
)
def test_F16_a_record_outside_of_the_batch_is_refused(left_out, problem):
    with pytest.raises(InvalidRequest) as refused:
        only((0, 50, 51), left_out)
    assert list(refused.value.problems) == [problem]


# ── shortened, because records are gone ──────────────────────────────────────────────────────────────────────────────

# Three splits of 20,000: orders[0] is cut over all of them, and orders[1] is beside its last piece.
LONG = plan([planned(0, 0, 50_000), planned(1, 0, 10_000)], splits=3)


def pieces(made):
    return [[(p.topic_partition.partition, p.start_offset, p.end_offset) for p in split] for split in made.splits]


def test_what_is_gone_shortens_the_ranges_and_no_record_changes_its_split():
    """Which split reads what is the sink's key: a record that moved would be in two places."""
    assert pieces(LONG) == [[(1, 0, 10_000), (0, 40_000, 50_000)][::-1], [(0, 0, 20_000)], [(0, 20_000, 40_000)]]
    made = shortened(LONG, LATER, {}, {tp(0): 25_000}, "records are gone")
    assert pieces(made) == [[(0, 40_000, 50_000), (1, 0, 10_000)], [], [(0, 25_000, 40_000)]]
    assert (made.overwrites, made.splits_to_start(), made.verified) == ((1,), [0, 1, 2], {})
    assert [(p.start_offset, p.end_offset, p.lost, p.gap) for p in made.partitions] == [
        (25_000, 50_000, 25_000, 0),
        (0, 10_000, 0, 0),
    ]
    assert made.partitions[0].start_reason == "committed, then gone from Kafka, 25000 lost"
    assert (made.batch, made.by, made.reason) == (LONG.batch, LATER, "records are gone")


def test_a_verified_split_stays_whole_where_its_records_are_gone_and_names_what_it_was_read_by():
    kept = {1: VerifiedSplit(LONG.plan_id, 2)}
    made = shortened(LONG, LATER, kept, {tp(0): 25_000}, "records are gone")
    assert pieces(made) == [[(0, 40_000, 50_000), (1, 0, 10_000)], [(0, 0, 20_000)], [(0, 25_000, 40_000)]]
    assert (made.verified, made.splits_to_start()) == (kept, [0, 2])
    first = made.partitions[0]
    assert (first.start_offset, first.end_offset, first.gap, first.lost) == (0, 50_000, 5_000, 5_000)
    assert first.size == 45_000, "what no split reads is not counted as read"


def test_what_is_gone_twice_is_counted_once():
    once = shortened(LONG, LATER, {1: VerifiedSplit(LONG.plan_id, 2)}, {tp(0): 25_000}, "gone")
    twice = shortened(once, LATER, once.verified, {tp(0): 30_000, tp(1): 4}, "gone")
    assert [(p.gap, p.lost, p.size) for p in twice.partitions] == [(10_000, 10_000, 40_000), (0, 4, 9_996)]
    assert twice.verified == once.verified, "the plan and the attempt that counted are named for as long as it is kept"


def test_where_all_of_a_partition_is_gone_its_end_stays_the_position_after_it():
    made = shortened(LONG, LATER, {}, {tp(0): 90_000}, "gone")
    assert [(p.start_offset, p.end_offset, p.lost) for p in made.partitions] == [
        (50_000, 50_000, 50_000),
        (0, 10_000, 0),
    ]


# ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))
    rows = [planned(number, 10, 10 + size) for number, size in enumerate(sizes)]
    return plan(rows, splits=draw(st.integers(1, 5)), split_by=draw(st.sampled_from(["size", "flink"])))


HOW = st.sampled_from(["anew", "emptied", "skipped", "past", "shortened"])


@settings(max_examples=200)
@given(plans(), st.lists(st.tuples(HOW, plans()), max_size=5), st.data())
def test_however_often_a_batch_is_planned_anew_every_split_that_was_ever_started_is_started(first, steps, data):
    """Whoever began which split of which plan: the current plan writes over it, or reads into it."""
    current, started, counted = first, set(first.splits_to_start()), first.skipped
    for how, other in steps:
        before = current
        match how:
            case "anew":
                current = planned_anew(before, as_draft(other), LATER, "x")
                counted = current.skipped
            case "emptied":
                current = emptied(before, LATER, "x")
            case "skipped":
                current = skipped(before, LATER, Skip(KEY), {})
                counted += before.record_count_upper_bound
            case "shortened":
                gone = {tp(number): data.draw(st.integers(0, 25)) for number in range(6)}
                current = shortened(before, LATER, {}, gone, "gone")
                lost = before.record_count_upper_bound - current.record_count_upper_bound
                assert current.lost - before.lost == lost
                for old, new in zip(before.splits, current.splits, strict=True):
                    assert {p.topic_partition for p in new} <= {p.topic_partition for p in old}
            case "past":
                readable = before.to_read()
                chosen = data.draw(st.lists(st.sampled_from(readable), unique=True)) if readable else []
                if not chosen:
                    continue
                past = tuple(
                    (p.topic_partition, data.draw(st.integers(p.start_offset, p.end_offset - 1))) for p in chosen
                )
                current = skipped(before, LATER, Skip(KEY, past), {})
                counted += sum(offset + 1 - p.start_offset for p, (_, offset) in zip(chosen, past, strict=True))
        started |= set(current.splits_to_start())
        assert set(current.splits_to_start()) == started
        assert current.split_count >= before.split_count
        assert current.batch == first.batch
        assert set(current.overwrites).isdisjoint(n for n, split in enumerate(current.splits) if split)
        assert current.skipped == counted
        if how != "anew":
            assert [p.end_offset for p in current.partitions] == [p.end_offset for p in before.partitions]
