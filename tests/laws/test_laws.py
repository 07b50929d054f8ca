"""What holds for every request and every cluster, not only for those that somebody thought of.

``situations`` draws a request and the facts of up to six partitions, most of them awkward. ``accepted`` draws only such
that no partition is refused, for laws about plans. Offsets are small, so that they often meet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import PartitionsRefused
from airflow_kafka_offsets.kafka_values import CommittedOffset, OffsetRange, PartitionSnapshot, RunKey, TopicPartition
from airflow_kafka_offsets.plan.plan import BatchName, Plan, PlannedPartition, VerifiedSplit
from airflow_kafka_offsets.plan.plan_json import plan_from_dict, plan_to_dict, spark_options
from airflow_kafka_offsets.plan.position import Position, position_after
from airflow_kafka_offsets.plan.ranges import Facts, Known, resolve
from airflow_kafka_offsets.plan.splits import cap, fair_shares, flink_owner
from airflow_kafka_offsets.request.modes import (
    AtTimestamp,
    SpecificOffsets,
)
from airflow_kafka_offsets.request.parse_request import PlanRequest
from tests.builders import altered, plan, planned, request
from tests.laws.examples import of_examples

law = of_examples(100)

PARTITIONS = [TopicPartition(topic, number) for topic in ("clicks", "orders") for number in range(3)]
ISOLATION = st.sampled_from(["read_uncommitted", "read_committed"])
SMALL = st.integers(0, 60)
BEYOND = st.integers(0, 80)  # may lie past every end
EPOCH = st.none() | st.integers(0, 3)


def some(strategy):
    """Of some of the partitions."""
    return st.dictionaries(st.sampled_from(PARTITIONS), strategy)


@st.composite
def snapshots(draw, isolation, epochs=EPOCH):
    log_start, stable, watermark = sorted(draw(st.tuples(SMALL, SMALL, SMALL)))
    end = stable if isolation == "read_committed" else watermark
    return PartitionSnapshot(log_start, end, watermark, draw(epochs))


@st.composite
def accepted(draw):
    """A request and facts that no rule refuses: policies are set, no epoch is in the future, ends are not named."""
    return draw(situations(policies=("reset", "advance"), resets=("earliest", "latest"), epochs=st.none(), free=False))


@st.composite
def situations(
    draw, policies=("fail", "reset", "advance"), resets=("earliest", "latest", "none", None), epochs=EPOCH, free=True
):
    isolation = draw(ISOLATION)
    logs = draw(st.dictionaries(st.sampled_from(PARTITIONS), snapshots(isolation, epochs), min_size=1))
    times = {tp: st.none() | st.integers(log.log_start_offset, log.high_watermark + 5) for tp, log in logs.items()}
    found = st.fixed_dictionaries(times).map(lambda t: {tp: offset for tp, offset in t.items() if offset is not None})
    commits = some(st.builds(CommittedOffset, BEYOND, epochs))
    ends = [st.just("latest-offset"), st.just(AtTimestamp(2))]
    if free:
        ends += [st.just("group-offsets"), some(SMALL).map(SpecificOffsets)]
    asked = request(
        draw(
            st.sampled_from(["earliest-offset", "latest-offset", AtTimestamp(1), "group-offsets"])
            | some(BEYOND).map(SpecificOffsets)
        ),
        draw(st.one_of(ends)),
        isolation_level=isolation,
        auto_offset_reset=draw(st.sampled_from(resets)),
        data_loss=draw(st.sampled_from(policies)),
        run_type=draw(st.sampled_from(["manual", "scheduled"])),
    )
    positions = draw(st.none() | some(st.builds(Known, BEYOND, st.just("position"), epochs)))
    facts = Facts(
        snapshots=logs,
        committed=draw(commits if not free else st.none() | commits),
        positions=positions,
        saved=draw(some(BEYOND)),
        recreated=draw(st.sets(st.sampled_from(["clicks", "orders"])).map(frozenset)) if positions else frozenset(),
        starts=draw(found),
        ends=draw(found),
    )
    return asked, facts


# ── resolve ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@law
@given(accepted())
def test_start_is_at_most_end_and_within_the_log(situation):
    asked, facts = situation
    rows = resolve(asked, facts)
    assert [p.topic_partition for p in rows] == sorted(facts.snapshots)
    for p in rows:
        log = facts.snapshots[p.topic_partition]
        # A window is where its times were found, which may be past the ends that were asked first.
        found = [times[p.topic_partition] for times in (facts.starts, facts.ends) if p.topic_partition in times]
        grown_to = max(found, default=0) if asked.window else 0
        assert log.log_start_offset <= p.start_offset <= max(log.high_watermark, grown_to)
        assert p.start_offset <= p.end_offset <= max(p.start_offset, log.end_offset, grown_to)
        assert p.lost >= 0
        assert p.skipped >= 0


@law
@given(accepted())
def test_what_lies_between_the_position_and_the_start_is_lost_or_skipped_and_each_is_counted(situation):
    """Offset by offset: what is below the log start is gone, what is at or above it was jumped over."""
    asked, facts = situation
    for p in resolve(asked, facts):
        log, kept = facts.snapshots[p.topic_partition], facts.saved.get(p.topic_partition)
        if kept is None or kept > log.high_watermark:
            continue  # of no position, or of a log that was cut, nothing is known to lie between
        between = range(kept, p.start_offset)
        assert p.lost == sum(offset < log.log_start_offset for offset in between)
        assert p.skipped == sum(offset >= log.log_start_offset for offset in between)


@law
@given(accepted())
def test_how_a_range_joins_the_position_follows_from_the_two_offsets(situation):
    asked, facts = situation
    for p in resolve(asked, facts):
        log, kept = facts.snapshots[p.topic_partition], facts.saved.get(p.topic_partition)
        if p.topic_partition.topic in facts.recreated:
            expected = {"re-created"}
        elif kept is None:
            expected = {None} if facts.positions is None else {"new"}
        elif p.start_offset == kept:
            expected = {"contiguous"}
        elif kept > log.high_watermark:
            expected = {"truncated"}
        else:
            expected = {"gap"} if p.start_offset > kept else {"overlap"}
        assert p.continuity in expected


def outcome(asked, facts):
    """The planned rows, or of a refusal its lines."""
    try:
        return resolve(asked, facts)
    except PartitionsRefused as refused:
        return list(refused.partitions)


def reordered(mapping, key):
    return mapping and dict(sorted(mapping.items(), key=key))


@law
@given(situations(), st.randoms(use_true_random=False))
def test_resolving_twice_is_the_same_in_whatever_order_the_cluster_answers(situation, chance):
    asked, facts = situation
    again = Facts(
        **{
            name: reordered(getattr(facts, name), lambda _item: chance.random())
            for name in ("snapshots", "committed", "positions", "saved", "starts", "ends")
        },
        recreated=facts.recreated,
    )
    assert outcome(asked, again) == outcome(asked, facts)


@law
@given(accepted(), st.randoms(use_true_random=False))
def test_equal_inputs_have_equal_ids(situation, chance):
    asked, facts = situation
    rows = resolve(asked, facts)
    ids = {p.topic_partition.topic: f"id {p.topic_partition.topic}" for p in rows}
    first = plan(rows, topic_ids=ids)
    later = plan(
        resolve(asked, replace(facts, snapshots=reordered(facts.snapshots, lambda _item: chance.random()))),
        topic_ids=reordered(ids, lambda _item: chance.random()),
        resolved_at_ms=first.resolved_at_ms + 1,
    )
    assert later.plan_id == first.plan_id


@law
@given(situations())
def test_a_partitions_result_never_depends_on_another_partition(situation):
    """Flink's bugs 0.3 and 0.4: one partition's missing commit failed its neighbours, whose offsets were known."""
    asked, facts = situation
    alone = [outcome(asked, replace(facts, snapshots={tp: facts.snapshots[tp]})) for tp in sorted(facts.snapshots)]
    refused = [line for result in alone for line in result if isinstance(line, str)]
    assert outcome(asked, facts) == (refused or [row for result in alone for row in result])


@st.composite
def then_later(draw):
    """Facts, and what the same cluster may say later: it grew, retention moved on, transactions ended."""
    asked, facts = draw(accepted())
    logs, start_times, end_times = {}, {}, {}
    for tp, log in facts.snapshots.items():
        end = log.end_offset + draw(st.integers(0, 20))
        watermark = max(log.high_watermark, end) + draw(st.integers(0, 5))
        if asked.scope.isolation_level == "read_uncommitted":
            end = watermark
        log_start = min(end, log.log_start_offset + draw(st.integers(0, 20)))
        logs[tp] = PartitionSnapshot(log_start, end, watermark)
        for before, after in ((facts.starts, start_times), (facts.ends, end_times)):
            if tp in before:
                after[tp] = max(before[tp], log_start)
            elif draw(st.booleans()):  # the first record that late came in the meantime, past the end of then
                after[tp] = max(log.end_offset, log_start) + draw(st.integers(0, 5))
    return asked, facts, replace(facts, snapshots=logs, starts=start_times, ends=end_times)


@law
@given(then_later())
def test_a_later_snapshot_never_lowers_an_end(situation):
    asked, facts, later = situation
    for before, after in zip(resolve(asked, facts), resolve(asked, later), strict=True):
        assert after.end_offset >= before.end_offset


# ── a chain of runs ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Chain:
    """One cluster and one scheduled pipeline on it, by the core alone; a failed run has read and has not committed."""

    asked: PlanRequest
    logs: dict[TopicPartition, PartitionSnapshot] = field(default_factory=dict)
    position: Position | None = None
    unfinished: Plan | None = None
    first_starts: dict[TopicPartition, int] = field(default_factory=dict)
    read: dict[TopicPartition, list[int]] = field(default_factory=dict)

    def produce(self, tp, records, undecided):
        """The last ``undecided`` records belong to a transaction that is still open; older ones are decided."""
        log = self.logs.get(tp, PartitionSnapshot(0, 0, 0))
        watermark = log.high_watermark + records
        committed = self.asked.scope.isolation_level == "read_committed"
        end = max(log.end_offset, watermark - undecided) if committed else watermark
        if tp not in self.logs and self.position is not None:
            self.first_starts[tp] = 0  # a new partition is read from its beginning, whatever the mode
        self.logs[tp] = PartitionSnapshot(0, end, watermark)

    def run(self, fails=False, max_records=None):
        if self.unfinished is None:
            offsets = self.position.offsets if self.position else {}
            known = {tp: Known(kept.offset, "position", kept.leader_epoch) for tp, kept in offsets.items()}
            kept = {tp: offset.offset for tp, offset in offsets.items()}
            facts = Facts(self.logs, committed={}, positions=known if self.position else None, saved=kept)
            self.unfinished = plan(cap(resolve(self.asked, facts), max_records, None))
        if fails:
            return  # the next run does the same batch again, whatever came meanwhile
        for p in self.unfinished.partitions:
            self.first_starts.setdefault(p.topic_partition, p.start_offset)
            self.read.setdefault(p.topic_partition, []).extend(range(p.start_offset, p.end_offset))
        self.position, self.unfinished = position_after(self.unfinished, self.position), None


CHAINS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 9), st.integers(0, 4)), max_size=4),
        st.booleans(),
        st.none() | st.integers(1, 12),
    ),
    max_size=8,
)


@law
@given(
    st.sampled_from(["earliest-offset", "latest-offset", "group-offsets", SpecificOffsets({PARTITIONS[0]: 2})]),
    st.sampled_from(["earliest", "latest"]),
    ISOLATION,
    CHAINS,
)
def test_a_chain_of_runs_reads_every_record_exactly_once(mode, reset, isolation, chain):
    """Resolve, commit, produce, resolve …: with caps, failed runs and partitions that come later."""
    chained = Chain(request(mode, auto_offset_reset=reset, isolation_level=isolation, run_type="scheduled"))
    chained.produce(PARTITIONS[0], 5, 1)
    chained.run()
    for produced, fails, max_records in chain:
        for tp, records, undecided in produced:
            chained.produce(tp, records, undecided)
        chained.run(fails, max_records)
    for _ in range(
        2
    ):  # the first may finish what is left unfinished; the last one has no cap: it reads all that is left
        chained.run()
    for tp, log in chained.logs.items():
        end = max(log.end_offset, chained.first_starts[tp])
        assert chained.read[tp] == list(range(chained.first_starts[tp], end)), tp


# ── caps and splits ───────────────────────────────────────────────────────────────────────────────────────────────────

WANTED = st.lists(st.integers(0, 50), max_size=12)


@law
@given(WANTED, st.integers(0, 300), st.integers(0, 99))
def test_fair_shares_give_out_all_that_is_there_and_nobody_more_than_wanted(wanted, total, turn):
    shares = fair_shares(wanted, total, turn)
    assert sum(shares) == min(total, sum(wanted))
    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))


@law
@given(WANTED, st.integers(0, 300), st.integers(0, 99))
def test_fair_shares_of_those_who_want_more_differ_by_one_at_most_and_nobody_has_more_than_they(wanted, total, turn):
    shares = fair_shares(wanted, total, turn)
    hungry = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    if hungry:
        assert max(shares) - min(hungry) <= 1


@law
@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=5),
    st.integers(1, 7),
    st.none() | st.integers(1, 3),
    st.lists(st.lists(st.integers(0, 6), min_size=5, max_size=5), min_size=12, max_size=12),
)
def test_no_partition_waits_longer_than_a_round_however_busy_the_others_are(backlog, most, most_each, arrivals):
    """Runs one after the other under a cap, and more records before each: who has some is read within one round."""
    count = len(backlog)
    starts, ends, waiting = [0] * count, list(backlog), [0] * count
    for arrived in arrivals:
        ends = [end + more for end, more in zip(ends, arrived, strict=False)]
        rows = cap([planned(n, starts[n], ends[n]) for n in range(count)], most, most_each)
        for number, row in enumerate(rows):
            waiting[number] = waiting[number] + 1 if ends[number] > starts[number] and not row.range.size else 0
            assert waiting[number] < -(-count // most), f"{number} waits: {rows}"
        starts = [row.end_offset for row in rows]


@st.composite
def plans(draw):
    sizes = draw(st.lists(st.integers(0, 40), max_size=12))
    rows = [planned(TopicPartition("orders", number), 3, 3 + size) for number, size in enumerate(sizes)]
    return plan(rows, splits=draw(st.integers(1, 6)), split_by=draw(st.sampled_from(["size", "flink"])))


@law
@given(plans())
def test_splits_rejoin_to_the_whole_without_overlap(made):
    splits = made.splits
    assert len(splits) == made.split_count
    rejoined = sorted((p for split in splits for p in split), key=lambda p: p.topic_partition)
    assert rejoined == made.to_read()
    assert all([p.topic_partition for p in split] == sorted(p.topic_partition for p in split) for split in splits)


@law
@given(plans())
def test_splits_by_size_are_as_even_as_whole_partitions_allow(made):
    loads = [sum(p.range.size for p in split) for split in altered(made, split_by="size").splits]
    largest = max((p.range.size for p in made.to_read()), default=0)
    assert max(loads) - min(loads) <= largest


@law
@given(st.text(max_size=300), st.integers(1, 50), st.integers(0, 200))
def test_H2_flinks_owners_of_any_topic_go_round_robin(topic, parallelism, number):
    one, next_one = (flink_owner(TopicPartition(f"t{topic}", n), parallelism) for n in (number, number + 1))
    assert 0 <= one < parallelism
    assert next_one == (one + 1) % parallelism


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

TOPIC = st.text("abcXYZ019._-", min_size=1, max_size=12)
PLACE = st.builds(TopicPartition, TOPIC, st.integers(0, 2**31 - 1))
INT64 = st.integers(0, 2**63 - 1)
TEXT = st.text(max_size=12)
RANGES = st.tuples(INT64, INT64).map(lambda pair: OffsetRange(*sorted(pair)))
ROWS = st.builds(
    PlannedPartition,
    topic_partition=PLACE,
    range=RANGES,
    start_reason=TEXT,
    end_reason=TEXT,
    log_start_offset=INT64,
    position=INT64,
    position_epoch=EPOCH,
    committed_offset=st.none() | INT64,
    leader_epoch=EPOCH,
    lost=INT64,
    skipped=INT64,
    continuity=st.sampled_from([None, "contiguous", "gap", "overlap", "re-created", "truncated", "new"]),
    newest_timestamp=st.none() | INT64,
    late=INT64,
)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
TWO = st.none() | st.tuples(INT64, INT64)


@st.composite
def any_plans(draw):
    rows = draw(st.lists(ROWS, max_size=6, unique_by=lambda row: row.topic_partition))
    rows = tuple(sorted(rows, key=lambda row: row.topic_partition))
    topics = sorted({row.topic_partition.topic for row in rows})
    count = draw(st.integers(1, 9))
    more = st.integers(0, count - 1)
    return plan(
        rows,
        cluster_id=draw(TEXT),
        group_id=draw(st.none() | TEXT),
        pipeline=draw(st.none() | TEXT),
        isolation_level=draw(ISOLATION),
        startup_mode=draw(TEXT),
        bounded_mode=draw(TEXT),
        window=draw(st.booleans()),
        resolved_at_ms=draw(INT64),
        topic_ids={topic: draw(st.none() | TEXT) for topic in topics},
        batch=draw(st.builds(BatchName, TEXT, st.none() | INT64, st.none() | TEXT)),
        instance=draw(st.none() | TEXT),
        run=draw(st.none() | st.builds(RunKey, TEXT, TEXT, TEXT, st.integers(-1, 9))),
        group_follows=draw(st.booleans()),
        output=draw(st.none() | TEXT),
        subscription=draw(TEXT),
        startup=draw(TEXT),
        task=draw(st.none() | st.tuples(TEXT, TEXT)),
        splits=count,
        split_by=draw(st.sampled_from(["size", "flink"])),
        overwrites=tuple(draw(st.lists(more, max_size=2))),
        verified=draw(st.dictionaries(more, st.builds(VerifiedSplit, TEXT, INT64), max_size=2)),
        restarts=draw(TEXTS),
        restarted=draw(st.booleans()),
        reason=draw(st.none() | TEXT),
        withdrawn=draw(st.booleans()),
        interval=draw(TWO),
        window_complete=draw(st.none() | st.booleans()),
        low_watermark_ms=draw(st.none() | INT64),
        window_bounds=draw(TWO),
        window_bounds_by_topic=draw(st.none() | st.dictionaries(TEXT, st.tuples(INT64, INT64), min_size=1, max_size=2)),
        timestamp_types=dict.fromkeys(topics[:1], draw(st.sampled_from(["CreateTime", "LogAppendTime"]))),
        warnings=draw(TEXTS),
        ignored=tuple(draw(st.lists(PLACE, max_size=2))),
        vanished=draw(TEXTS),
    )


@law
@given(any_plans())
def test_a_plan_survives_JSON(made):
    again = plan_from_dict(json.loads(json.dumps(plan_to_dict(made))))
    assert again == made
    assert again.plan_id == made.plan_id


@law
@given(any_plans())
def test_spark_options_name_the_same_partitions_and_hold_nothing_that_is_lost_on_the_way(made):
    """YARN deletes ``}}`` from arguments; -1 and -2 mean "latest" and "earliest" to Spark, bound late in each task."""
    options = spark_options(made.partitions)
    assert not [text for text in options.values() if "}}" in text or "{{" in text]
    assign, starts, ends = (json.loads(options[name]) for name in ("assign", "startingOffsets", "endingOffsets"))
    places = {(topic, number) for topic, numbers in assign.items() for number in numbers}
    for offsets in (starts, ends):
        assert {(topic, int(number)) for topic, of_topic in offsets.items() for number in of_topic} == places
        assert all(offset >= 0 for of_topic in offsets.values() for offset in of_topic.values())
    for p in made.partitions:
        topic, number = p.topic_partition.topic, str(p.topic_partition.partition)
        assert (starts[topic][number], ends[topic][number]) == (p.start_offset, p.end_offset)
    assert sum(len(numbers) for numbers in assign.values()) == len(made.partitions)
