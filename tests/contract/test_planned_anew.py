"""An unfinished batch that cannot be done as it is has its log planned anew (docs/log.md, "Planning anew in place")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import (
    BatchClosed,
    DataLoss,
    GroupMoved,
    InvalidRequest,
    LateAttempt,
    NoPosition,
    PlanReplaced,
    ReadNotVerified,
    TopicRecreated,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.audit import audit_batches
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.log.whole_log import whole_records
from airflow_kafka_offsets.plan.plan import VerifiedSplit
from airflow_kafka_offsets.request.policies import Skip, parse_skip
from tests.cluster.memory import InMemoryCluster
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Pipeline, Run, entries
from tests.contract.troubles import EventfulStore, produce
from tests.engine import committed_sentence, skip_batch
from tests.failing.timed import Timed
from tests.stores.builders import as_it_is_now

ALL_FOUR = {number: [0, 1, 2, 3] for number in range(3)}
ALL_SIX = {number: list(range(6)) for number in range(3)}


def delete(cluster: AnyCluster, pipeline: Pipeline, before: int) -> None:
    for partition in range(3):
        cluster.delete_records(pipeline.topic, before, partition)


def counted(run: Run) -> list[tuple[int, int]]:
    return [(p.lost, p.skipped) for p in run.plan.partitions]


# ── records that are gone ─────────────────────────────────────────────────────────────────────────────────────────────


def test_records_that_are_gone_stop_the_batch_before_spark_starts(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.resolve("one")
    delete(cluster, pipeline, 3)
    for name in ("one", "two"):
        with pytest.raises(DataLoss) as refused:
            pipeline.resolve(name)
        assert refused.value.partitions == [
            f"{pipeline.topic}[{n}]: start offset 0 is below log start offset 3 (3 offsets are gone)" for n in range(3)
        ]
        assert 'policies={"data_loss": "advance"}' in str(refused.value)
    assert entries(run.batch) == ["plan"]


@pytest.mark.parametrize("name", ["one", "two"], ids=["its own run", "the next run"])
@pytest.mark.also_on_a_broker
def test_advance_plans_what_is_left_into_the_same_place_and_counts_what_is_lost(
    cluster: AnyCluster, pipeline: Pipeline, name: str
) -> None:
    old = pipeline.resolve("one").spark()
    old.job().begin()  # so that it is not verified any more
    delete(cluster, pipeline, 3)
    run = pipeline.resolve(name, data_loss="advance")
    assert (run.batch_key, run.number) == (old.batch_key, 1)
    assert run.ranges == [(3, 4)] * 3
    assert counted(run) == [(3, 0)] * 3
    assert run.sentence.startswith("plans batch 1 anew: records are gone: ")
    run.done()
    assert pipeline.lake.offsets() == {number: [3] for number in range(3)}
    assert pipeline.at() == {0: 4, 1: 4, 2: 4}


def test_a_batch_whose_records_are_gone_and_that_is_verified_is_finished_without_spark(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """What is written is good, and nobody could write it again: advance must not overwrite it."""
    failed = pipeline.resolve("failed").spark()
    delete(cluster, pipeline, 4)
    for name, policy in (("failed", "advance"), ("next", "fail")):
        run = pipeline.resolve(name, data_loss=policy)
        assert (run.plan, run.splits) == (failed.plan, ())
        assert run.sentence == "finishes batch 1: all of it is written, and verified"
    run.commit()
    assert pipeline.lake.offsets() == ALL_FOUR
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


def test_one_of_several_splits_that_is_not_verified_is_not_enough(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.resolve("one", splits=3).spark([0, 2])
    delete(cluster, pipeline, 4)
    with pytest.raises(DataLoss):
        pipeline.resolve("one", splits=3)


def test_a_log_that_was_cut_below_the_end_stops_the_batch(in_memory: Pipeline) -> None:
    """Only in memory: one broker cannot lose an election."""
    in_memory.resolve("one")
    assert isinstance(in_memory.cluster, InMemoryCluster)
    in_memory.cluster.truncate(TopicPartition("orders", 0), 2)
    with pytest.raises(DataLoss, match=r"orders\[0\]: end offset 4 is beyond the end of the log, 2"):
        in_memory.resolve("one")
    assert in_memory.run("one", data_loss="advance").ranges == [(0, 2), (0, 4), (0, 4)]


def test_so_does_one_that_has_grown_past_it_again(in_memory: Pipeline) -> None:
    """On real brokers: tests/failing/test_unclean_election.py."""
    cluster, tp = in_memory.cluster, TopicPartition("orders", 0)
    assert isinstance(cluster, InMemoryCluster)
    in_memory.resolve("one")
    cluster.truncate(tp, 2)
    cluster.produce(tp, [NOW_MS] * 5)
    with pytest.raises(DataLoss, match=r"orders\[0\]: from offset 2 on, the log is another one"):
        in_memory.resolve("one")
    one = in_memory.run("one", data_loss="advance")
    assert one.ranges == [(0, 7), (0, 4), (0, 4)]
    in_memory.run("two")
    cluster.truncate(tp, 3)
    cluster.produce(tp, [NOW_MS] * 5)
    assert in_memory.resolve("one").sentence.startswith("leaves batch 1 as it is")
    with pytest.raises(DataLoss, match="its output stays as it is"):
        in_memory.resolve("one", redo=True)


def test_what_is_verified_of_a_log_that_was_cut_is_not_finished(in_memory: Pipeline) -> None:
    """What it wrote is not in the log any more, and what is there now would be read by nobody."""
    cluster, tp = in_memory.cluster, TopicPartition("orders", 0)
    assert isinstance(cluster, InMemoryCluster)
    in_memory.resolve("one").spark()
    cluster.truncate(tp, 2)
    cluster.produce(tp, [NOW_MS] * 5)
    with pytest.raises(DataLoss, match=r"orders\[0\]: from offset 2 on, the log is another one"):
        in_memory.resolve("one")
    one = in_memory.run("one", data_loss="advance")
    assert (one.ranges, one.splits) == ([(0, 7), (0, 4), (0, 4)], (0,))


def test_leaders_are_compared_only_where_another_one_has_led(in_memory: Pipeline) -> None:
    cluster = in_memory.cluster
    assert isinstance(cluster, InMemoryCluster)
    in_memory.cluster = timed = Timed(cluster)
    in_memory.run("one")
    cluster.produce(TopicPartition("orders", 0), [NOW_MS])
    in_memory.resolve("two")
    assert in_memory.run("two").ranges == [(4, 5), (4, 4), (4, 4)], "done again as it is"
    assert timed.asked["ends_of_epochs"] == 0
    cluster.elect(TopicPartition("orders", 1))
    cluster.produce(TopicPartition("orders", 1), [NOW_MS])
    assert in_memory.run("three").ranges == [(5, 5), (4, 5), (4, 4)], "it lacked nothing"
    assert timed.asked["ends_of_epochs"] == 1
    cluster.produce(TopicPartition("orders", 1), [NOW_MS])
    in_memory.run("four")
    assert timed.asked["ends_of_epochs"] == 1


@pytest.mark.also_on_a_broker
def test_a_topic_that_was_made_anew_is_another_log(cluster: AnyCluster, pipeline: Pipeline) -> None:
    old = pipeline.resolve("one")
    cluster.recreate_topic(pipeline.topic)
    cluster.produce(pipeline.topic, 9)
    with pytest.raises(TopicRecreated, match=pipeline.topic):
        pipeline.resolve("one", data_loss="advance")
    run = pipeline.resolve("one", topic_recreated="earliest")
    assert (run.batch_key, run.ranges) == (old.batch_key, [(0, 9), (0, 0), (0, 0)])
    assert [p.continuity for p in run.plan.partitions] == ["re-created"] * 3
    run.done()
    assert pipeline.at() == {0: 9, 1: 0, 2: 0}


def test_a_topic_that_was_made_anew_is_another_log_however_often_the_batch_is_planned(
    memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    in_memory.resolve("two")
    memory.recreate_topic("orders")
    produce(memory, in_memory, 9)
    anew = {"topic_recreated": "earliest"}
    assert in_memory.resolve("two", **anew).ranges == [(0, 9)] * 3
    run = in_memory.resolve("two", **anew, re_plan=True)
    found = [(p.continuity, p.lost, p.skipped, p.start_offset) for p in run.plan.partitions]
    assert found == [("re-created", 0, 0, 0)] * 3, "nothing is held against offsets of the old log"


@pytest.mark.parametrize(
    ("first", "more"),
    [
        ({"startup_mode": "latest-offset"}, []),
        ({"startup_mode": "specific-offsets", "specific_offsets": {"orders": "latest-0"}}, []),
        ({"startup_mode": "latest-offset"}, [6]),
    ],
    ids=["latest", "specific", "and lost since"],
)
def test_what_the_first_start_has_skipped_stays_counted(
    memory: AnyCluster, in_memory: Pipeline, first: dict[str, Any], more: list[int]
) -> None:
    started = in_memory.resolve("one", **first).plan.partitions
    assert [(p.skipped, p.continuity) for p in started] == [(4, None)] * 3
    produce(memory, in_memory, 6)
    for offset in more:
        memory.delete_records("orders", offset, 0)
    for _ in range(2):
        again = in_memory.resolve("one", **first, re_plan=True, data_loss="advance").plan.partitions
        assert [(p.skipped, p.continuity) for p in again] == [(4, None)] * 3
        assert [p.lost for p in again] == [2 * len(more), 0, 0]


# ── splits that are verified ──────────────────────────────────────────────────────────────────────────────────────────


def _splits_of_three(pipeline: Pipeline, cluster: AnyCluster) -> Run:
    """Three splits of a partition each; split 0 is written and verified, and Kafka has lost its records."""
    first = pipeline.resolve("one", splits=3).spark([0])
    for tp, offset in pipeline.lake.of(first.batch_key):
        cluster.delete_records(tp.topic, offset + 1, tp.partition)
    return first


def test_what_is_verified_of_a_topic_that_was_made_anew_since_is_finished(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """Its records are in the output alone; those of the new topic are the next batch's."""
    one = pipeline.resolve("one").spark()
    cluster.recreate_topic(pipeline.topic)
    run = pipeline.resolve("two", topic_recreated="earliest")
    assert (run.plan, run.splits) == (one.plan, ())
    run.done()
    assert pipeline.lake.offsets() == ALL_FOUR
    produce(cluster, pipeline)
    assert pipeline.run("three", topic_recreated="earliest").ranges == [(0, 2)] * 3


@pytest.mark.parametrize("verified", ["orders", "other"])
def test_what_is_verified_stays_where_another_topic_was_made_anew(
    memory: AnyCluster, in_memory: Pipeline, verified: str
) -> None:
    """Nobody could write it again: its records are deleted, or were in the topic that was made anew."""
    memory.create_topic("other", 3)
    for partition in range(3):
        memory.produce("other", 4, partition)
    both: dict[str, Any] = {"topics": ["orders", "other"], "splits": 6}
    one = in_memory.resolve("one", **both)
    done = [n for n, split in enumerate(one.plan.splits) if {p.topic_partition.topic for p in split} == {verified}]
    one.spark(done[:2])
    one.job(done[2]).begin().write()
    kept = in_memory.lake.of(one.batch_key)
    for partition in range(3):
        memory.delete_records("orders", 2, partition)
    memory.recreate_topic("other")
    memory.produce("other", 2)
    anew = {"topic_recreated": "earliest", "data_loss": "advance"}
    for how in ({}, {"topic_recreated": "earliest"}):
        with pytest.raises(TopicRecreated if how == {} else DataLoss):
            in_memory.resolve("two", **both, **how)
    with pytest.raises(DataLoss, match="has verified rows of these records, and re_plan would replace them"):
        in_memory.resolve("two", **both, **anew, re_plan=True)
    two = in_memory.resolve("two", **both, **anew)
    assert two.batch_key == one.batch_key
    assert sorted(two.plan.verified) == done[:2]
    assert in_memory.resolve("two", **both, **anew).plan == two.plan, "its drivers go on"
    two.done()
    found = set(in_memory.lake.of(one.batch_key))
    assert {row for row in kept if row[0] in {p.topic_partition for n in done[:2] for p in one.plan.splits[n]}} <= found
    there = {(tp, offset) for tp, offset in found if tp.topic == "orders" and offset >= 2}
    assert len(there) == 6
    three = in_memory.run("three", **both, **anew)
    assert [(p.topic_partition.partition, p.size) for p in three.plan.to_read()] == [(0, 2)]
    lost = two.plan.lost
    assert lost + len(found) == 24


def test_only_splits_that_are_not_verified_need_their_records(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = _splits_of_three(pipeline, cluster)
    for policy in ("fail", "advance"):
        second = pipeline.resolve("two", splits=3, data_loss=policy)
        assert (second.plan, second.splits) == (first.plan, (1, 2))
    second.done()
    assert pipeline.lake.offsets() == ALL_FOUR


def test_advance_keeps_what_is_verified_and_shortens_the_rest_in_place(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = _splits_of_three(pipeline, cluster)
    (lost,) = {p.topic_partition for p in first.plan.splits[1]}
    cluster.delete_records(lost.topic, 3, lost.partition)
    produce(cluster, pipeline)
    with pytest.raises(DataLoss) as refused:
        pipeline.resolve("two", splits=3)
    assert [line.partition(":")[0] for line in refused.value.partitions] == [str(lost)]
    run = pipeline.resolve("two", splits=3, data_loss="advance")
    assert (run.batch_key, run.splits, list(run.plan.verified)) == (first.batch_key, (1, 2), [0])
    assert run.plan.verified[0] == VerifiedSplit(first.plan.plan_id, 1)
    assert {p.topic_partition: (p.start_offset, p.lost) for p in run.plan.partitions}[lost] == (3, 3)
    assert all(p.end_offset == 4 for p in run.plan.partitions), "nothing newer is added"
    run.done()
    assert pipeline.lake.offsets() == ALL_FOUR | {lost.partition: [3]}
    assert pipeline.at() == {0: 4, 1: 4, 2: 4}


def test_a_split_that_is_kept_and_written_once_more_is_not_verified(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = _splits_of_three(pipeline, cluster)
    (lost,) = {p.topic_partition for p in first.plan.splits[1]}
    cluster.delete_records(lost.topic, 3, lost.partition)
    run = pipeline.resolve("two", splits=3, data_loss="advance").spark()
    begin(pipeline.store, run.batch.plan_object, run.plan, 0, None)  # a late driver that may have written
    with pytest.raises(ReadNotVerified, match="split 0: attempt 2 began and has not reported"):
        run.commit()


def _skipped_past(pipeline: Pipeline) -> Run:
    """Three splits of a partition each; split 0 is verified and kept, and all records are there."""
    first = pipeline.resolve("one", splits=3).spark([0])
    (bad,) = first.plan.splits[1]
    past = f"{bad.topic_partition.topic}-{bad.topic_partition.partition}:1"
    run = pipeline.resolve("two", splits=3, skip={"batch": first.batch_key, "past": past, "reason": "poison"})
    assert (list(run.plan.verified), run.splits) == ([0], (1, 2))
    return run


def test_a_kept_split_whose_records_are_there_is_done_with_the_rest_so_that_corrected_code_writes_all_of_it(
    in_memory: Pipeline,
) -> None:
    skipped = _skipped_past(in_memory)
    run = in_memory.resolve("two", splits=3)
    assert (run.plan, run.splits) == (skipped.plan, (0, 1, 2))
    run.job(0).begin().write()
    with pytest.raises(ReadNotVerified, match="split 0: attempt 2 began and has not reported"):
        run.spark([1, 2]).commit()
    run.done()


def test_so_is_one_of_a_committed_batch_that_is_done_again(in_memory: Pipeline) -> None:
    _skipped_past(in_memory).done()
    run = in_memory.resolve("two", splits=3)
    assert run.splits == (0, 1, 2)
    run.spark([1, 2])
    with pytest.raises(ReadNotVerified, match="split 0: it was not done again; attempt 1 is of before"):
        run.commit()
    run.done()


def test_a_kept_split_that_was_done_again_and_lost_its_records_is_kept_by_its_newer_attempt(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    _skipped_past(in_memory)
    again = in_memory.resolve("two", splits=3).spark([0])
    ends = {p.topic_partition: split for split in (0, 1) for p in again.plan.splits[split]}
    for tp in ends:
        memory.delete_records(tp.topic, 3, tp.partition)
    run = in_memory.resolve("two", splits=3, data_loss="advance")
    assert (run.plan.verified, run.splits) == ({0: VerifiedSplit(again.plan.plan_id, 2)}, (1, 2))
    run.done()


def test_a_partition_of_which_one_split_is_kept_has_a_gap(in_memory: Pipeline, memory: AnyCluster) -> None:
    memory.produce("orders", 40_000)
    first = in_memory.resolve("one", splits=2, topics=None, partitions={"orders": [0]})
    middle = min(piece.end_offset for split in first.plan.splits for piece in split)
    (low,) = [n for n, split in enumerate(first.plan.splits) if split[0].end_offset == middle]
    first.spark([low])
    memory.delete_records("orders", middle + 10)
    run = in_memory.resolve("two", data_loss="advance", topics=None, partitions={"orders": [0]})
    (p,) = run.plan.partitions
    assert (run.ranges, p.gap, p.lost, p.size) == (first.ranges, 10, 10, 40_004 - 10)
    run.done()
    assert len(in_memory.lake.offsets()[0]) == 40_004 - 10
    assert as_it_is_now(in_memory.newest).log.plan == run.plan


def test_skip_past_an_offset_leaves_verified_splits_as_they_are(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = _splits_of_three(pipeline, cluster)
    (bad,) = first.plan.splits[1]
    past = {"batch": first.batch_key, "past": f"{bad.topic_partition.topic}-{bad.topic_partition.partition}:1"}
    run = pipeline.resolve("two", splits=3, skip=past | {"reason": "poison"})
    assert (run.splits, list(run.plan.verified)) == ((1, 2), [0])
    run.done()
    assert pipeline.lake.offsets() == ALL_FOUR | {bad.topic_partition.partition: [2, 3]}


def test_advance_keeps_what_is_verified_between_its_look_and_its_plan(in_memory: Pipeline, memory: AnyCluster) -> None:
    """Its records are gone: the plan anew would write over rows that nobody can read again."""
    slow, moving, (bad, lost) = _while_planned_anew(in_memory)
    memory.delete_records("orders", 3, bad)
    memory.delete_records("orders", 3, lost)
    run = moving.resolve("two", splits=3, data_loss="advance")
    assert (list(run.plan.verified), run.splits) == ([0], (1, 2))
    run.done()
    assert in_memory.lake.offsets() == ALL_FOUR | {bad: [3]}
    assert slow.plan.plan_id == run.plan.verified[0].plan_id


@pytest.mark.parametrize("by_hand", [False, True], ids=["in a run's conf", "at the terminal"])
def test_so_does_skip_past_an_offset(in_memory: Pipeline, memory: AnyCluster, by_hand: bool) -> None:
    slow, moving, (bad, lost) = _while_planned_anew(in_memory)
    memory.delete_records("orders", 3, lost)
    past = {"batch": slow.batch_key, "past": f"orders-{bad}:1"}
    skip = parse_skip(past)
    assert skip is not None
    if by_hand:
        moving.skip(skip)
    run = moving.resolve("two", splits=3, **({} if by_hand else {"skip": past}))
    assert (list(run.plan.verified), run.splits) == ([0], (1, 2))
    run.done()
    assert in_memory.lake.offsets() == ALL_FOUR | {bad: [2, 3]}


def _while_planned_anew(pipeline: Pipeline) -> tuple[Run, Pipeline, tuple[int, int]]:
    """A run whose job of split 0 reports when the pipeline plans anew; the partitions of split 1 and of split 0."""
    slow = pipeline.resolve("one", splits=3)
    job = slow.job(0).begin().write()
    moving = replace(pipeline, store=EventfulStore(pipeline.store, "/2.json", job.report))
    (lost,), (bad,), _ = slow.plan.splits
    return slow, moving, (bad.topic_partition.partition, lost.topic_partition.partition)


def test_a_plan_anew_has_the_time_when_it_was_made(in_memory: Pipeline, memory: AnyCluster) -> None:
    """People are shown it, and the next plan's backlog is estimated by it."""
    first = in_memory.resolve("one", splits=3)
    skip = {"batch": first.batch_key, "past": "orders-0:1"}
    later = [replace(in_memory, now_ms=in_memory.now_ms + 60_000 * minutes) for minutes in range(5)]
    assert first.plan.resolved_at_ms == later[0].now_ms
    assert later[1].resolve("two", skip=skip).plan.resolved_at_ms == later[1].now_ms
    assert later[2].resolve("two", output_name="lake/orders").plan.resolved_at_ms == later[2].now_ms
    memory.delete_records("orders", 3)
    assert later[3].resolve("two", data_loss="advance").plan.resolved_at_ms == later[3].now_ms
    later[4].skip(Skip(first.batch_key))
    assert in_memory.newest.log.plan.resolved_at_ms == in_memory.now_ms + 4 * 60_000


def test_a_batch_with_a_kept_split_that_is_cleared_after_its_commit_stays_as_it_is(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    first = _splits_of_three(pipeline, cluster)
    (lost,) = {p.topic_partition for p in first.plan.splits[1]}
    cluster.delete_records(lost.topic, 3, lost.partition)
    pipeline.resolve("two", splits=3, data_loss="advance").done()
    again = pipeline.resolve("two", splits=3)
    assert (again.splits, again.sentence) == (
        (),
        "leaves batch 1 as it is: it is committed, and its records are gone from Kafka",
    )


# ── splits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_there_are_never_fewer_splits_and_each_that_may_hold_rows_is_overwritten(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    old = pipeline.resolve("one", splits=3).spark()
    assert old.splits == (0, 1, 2)
    for split in old.splits:
        old.job(split).begin()  # so that none is verified any more
    cluster.delete_records(pipeline.topic, 4, 1)
    cluster.delete_records(pipeline.topic, 4, 2)
    run = pipeline.resolve("one", splits=1, data_loss="advance")
    assert (run.plan.split_count, run.splits) == (3, (0, 1, 2))
    run.spark([0])
    with pytest.raises(ReadNotVerified, match="split 1: attempt 2 began"):
        run.commit()
    run.done()
    assert pipeline.lake.offsets() == {0: [0, 1, 2, 3]}


def test_more_splits_than_before_are_more(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.resolve("one").spark()
    run = pipeline.resolve("one", splits=3, re_plan=True)
    assert run.splits == (0, 1, 2)
    run.done()
    assert pipeline.lake.offsets() == ALL_FOUR


def test_what_the_plan_before_the_one_before_wrote_is_overwritten_too(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.resolve("one", splits=3).spark()
    fewer: dict[str, Any] = {"topics": None, "partitions": {pipeline.topic: [0]}, "re_plan": True}
    pipeline.resolve("one", **fewer)
    run = pipeline.resolve("one", **fewer, splits=2)
    assert run.splits == (0, 1, 2)
    run.done()
    assert pipeline.lake.offsets() == {0: [0, 1, 2, 3]}


def test_a_split_that_must_be_empty_is_shown_by_the_output_alone(in_memory: Pipeline) -> None:
    in_memory.resolve("one", splits=2).spark()
    run = in_memory.resolve("one", re_plan=True, topics=None, partitions={"orders": [0]})
    run.job(0).begin().write().report()
    run.job(1).begin().write().report("scan")
    with pytest.raises(ReadNotVerified, match="split 1: it must be empty, which only the output itself shows"):
        run.commit()


def test_a_split_that_must_be_empty_and_that_nobody_has_written_is_empty(in_memory: Pipeline) -> None:
    in_memory.resolve("one", splits=2).job(0).begin()
    run = in_memory.resolve("one", re_plan=True, topics=None, partitions={"orders": [0]})
    run.job(0).begin().write().report()
    run.job(1).begin().write().report("scan")
    run.commit()
    assert in_memory.lake.offsets() == {0: [0, 1, 2, 3]}


@pytest.mark.parametrize("order", [{"skip": True}, {"restart": "w", "startup_mode": "latest-offset"}], ids=str)
def test_a_batch_that_is_planned_anew_to_nothing_is_done_where_no_output_can_be_read_back(
    in_memory: Pipeline, order: dict[str, Any]
) -> None:
    """What upsert has written nobody can take back, and none of it is read again: a person's word is enough."""
    failed = in_memory.resolve("failed", splits=2)
    for split in failed.splits:
        failed.job(split).begin().write()
    run = in_memory.resolve("next", **(order | {"skip": failed.batch_key} if "skip" in order else order))
    assert run.plan.empty
    for split in run.splits:
        run.job(split).begin().write().report("scan")
    assert "; scanned, not read back; " in committed_sentence(run.commit(), None)
    assert in_memory.resolve("third").assignment.batch is None


# ── re_plan ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["one", "two"], ids=["its own run", "the next run"])
def test_re_plan_takes_what_has_come_since(cluster: AnyCluster, pipeline: Pipeline, name: str) -> None:
    old = pipeline.resolve("one").spark()
    produce(cluster, pipeline)
    run = pipeline.resolve(name, re_plan=True)
    assert (run.batch_key, run.ranges, run.plan.reason) == (old.batch_key, [(0, 6)] * 3, "re_plan")
    with pytest.raises(ReadNotVerified, match="attempt 1 read plan"):
        run.commit()  # no report of the plan before counts for this one
    run.done()
    assert pipeline.lake.offsets() == ALL_SIX


def test_a_re_plan_back_to_what_was_read_first_is_read_again(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Another plan has overwritten its output meanwhile."""
    first = pipeline.resolve("one", max_records_per_partition=2).spark()
    pipeline.resolve("one", re_plan=True).job().begin()
    again = pipeline.resolve("one", re_plan=True, max_records_per_partition=2)
    assert again.plan.plan_id == first.plan.plan_id
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported"):
        again.commit()


@pytest.mark.parametrize("policy", ["fail", "advance"])
def test_re_plan_does_not_write_over_rows_whose_records_are_gone(
    cluster: AnyCluster, pipeline: Pipeline, policy: str
) -> None:
    first = _splits_of_three(pipeline, cluster)
    with pytest.raises(DataLoss, match="Leave out re_plan") as refused:
        pipeline.resolve("two", splits=3, re_plan=True, data_loss=policy)
    assert [line.partition(":")[0] for line in refused.value.partitions] == [
        str(p.topic_partition) for p in first.plan.splits[0]
    ]
    assert entries(first.batch) == ["plan"]
    pipeline.run("two", splits=3, data_loss=policy)
    assert pipeline.lake.offsets() == ALL_FOUR


def test_re_plan_keeps_to_that_where_a_split_is_verified_meanwhile(in_memory: Pipeline, memory: AnyCluster) -> None:
    _, moving, (bad, lost) = _while_planned_anew(in_memory)
    memory.delete_records("orders", 3, lost)
    with pytest.raises(DataLoss, match="Leave out re_plan"):
        moving.resolve("two", splits=3, re_plan=True, data_loss="advance")
    memory.delete_records("orders", 3, bad)
    in_memory.run("two", splits=3, data_loss="advance")
    assert in_memory.lake.offsets() == ALL_FOUR | {bad: [3]}


def test_re_plan_does_not_apply_the_startup_mode_once_more(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """``latest`` would skip what has come since."""
    pipeline.parameters = {"startup_mode": "latest-offset"}
    pipeline.resolve("one")
    produce(cluster, pipeline)
    run = pipeline.resolve("one", re_plan=True)
    assert (run.ranges, counted(run)) == ([(4, 6)] * 3, [(0, 4)] * 3), "skipped once, by the first start"


def test_what_the_startup_mode_decided_stays_on_record(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """The mode of the run that plans anew is not applied, so it must not be written down as if it had been."""
    pipeline.resolve("one")
    pipeline.run("one", re_plan=True, startup_mode="latest-offset")
    assert pipeline.position.startup == "earliest-offset"
    pipeline.resolve("two", restart="w", startup_mode="latest-offset")
    pipeline.run("two", re_plan=True)
    assert (pipeline.position.startup, pipeline.position.restarts) == ("latest-offset", ("w",))


@pytest.mark.parametrize("name", ["one", "failed"], ids=["its own", "another's"])
def test_re_plan_of_a_committed_batch_is_refused(cluster: AnyCluster, pipeline: Pipeline, name: str) -> None:
    pipeline.resolve("failed")
    run = pipeline.run("one")
    produce(cluster, pipeline)
    with pytest.raises(BatchClosed, match="re_plan cannot change batch 1: it is committed"):
        pipeline.resolve(name, re_plan=True)
    assert entries(run.batch)[-1] == "commit"


def test_re_plan_where_nothing_is_unfinished_is_what_the_run_would_do_anyway(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    assert pipeline.resolve("two", re_plan=True).number == 2


def test_of_two_re_plans_in_one_moment_one_is_made_and_the_other_looks_again(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    in_memory.resolve("one")
    produce(memory, in_memory)
    store = EventfulStore(in_memory.store, "/2.json", lambda: in_memory.resolve("one", re_plan=True, splits=2))
    run = replace(in_memory, store=store).resolve("one", re_plan=True)
    assert (run.batch.log.plan_number, run.plan.split_count) == (3, 2)
    assert run.ranges == [(0, 6)] * 3


# ── restart ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_restart_applies_the_startup_mode_once_a_word(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    pipeline.parameters["restart"] = "2026-11-20\n"
    run = pipeline.run("two", max_records_per_partition=2)
    assert (run.ranges, run.plan.restarts) == ([(0, 2)] * 3, ("2026-11-20",))
    assert pipeline.held() == {0: 2, 1: 2, 2: 2}, "the group is set back"
    assert pipeline.run("three").ranges == [(2, 4)] * 3
    pipeline.run("by hand", restart="by hand")
    produce(cluster, pipeline)
    assert pipeline.run("four").ranges == [(4, 6)] * 3, "a word by hand does not wake the one of the DAG"


def test_a_restart_whose_run_failed_is_applied_by_the_next(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    pipeline.parameters |= {"restart": "w", "max_records_per_partition": 2}
    pipeline.resolve("failed")
    assert pipeline.run("next").ranges == [(0, 2)] * 3
    assert pipeline.held() == {0: 2, 1: 2, 2: 2}
    assert pipeline.run("third").ranges == [(2, 4)] * 3


def test_a_restart_plans_an_unfinished_batch_anew(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    old = pipeline.resolve("failed").spark()
    run = pipeline.resolve("next", restart="w")
    assert (run.batch_key, run.ranges, run.plan.reason) == (old.batch_key, [(0, 6)] * 3, "restart w")
    run.done()
    assert pipeline.run("third").assignment.batch is None
    assert pipeline.at() == {0: 6, 1: 6, 2: 6}


def test_a_restart_with_latest_skips_what_was_not_read_and_no_more(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one", max_records_per_partition=1)
    run = pipeline.run("two", startup_mode="latest-offset", restart="w")
    assert (run.ranges, counted(run)) == ([(4, 4)] * 3, [(0, 3)] * 3)


@pytest.mark.parametrize("word", ["restart", "adopt-group"])
def test_neither_a_restart_nor_an_adopted_group_writes_over_rows_whose_records_are_gone(
    memory: AnyCluster, in_memory: Pipeline, word: str
) -> None:
    """The rows are all that is left of these records, and nobody had counted them as lost."""
    in_memory.resolve("one").spark()
    for partition in range(3):
        memory.delete_records("orders", 4, partition)
    produce(memory, in_memory)
    order = {"restart": "again"} if word == "restart" else {"group_moved": "adopt-group"}
    if word == "adopt-group":
        memory.commit_as_somebody(in_memory.group, {TopicPartition("orders", 0): 5})
    with pytest.raises(DataLoss, match=f"has verified rows of these records, and {word} would replace them"):
        in_memory.resolve("two", **order)
    instead = {} if word == "restart" else {"group_moved": "keep-checkpoint"}
    in_memory.run("three", **instead)
    in_memory.run("four", **order)
    assert in_memory.lake.offsets() == ALL_SIX


def test_a_restart_wins_over_a_moved_group(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 2})
    assert pipeline.run("two", restart="w").ranges == [(0, 4)] * 3
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


def test_a_restart_is_where_checkpoint_only_goes_on_too(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("before")
    asked: dict[str, Any] = {"restart": "w", "max_records_per_partition": 2, "commit_mode": "checkpoint-only"}
    assert [pipeline.run(name, **asked).ranges[0] for name in ("one", "two")] == [(0, 2), (2, 4)]


# ── skip ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def ordered_by_conf(pipeline: Pipeline, run: Run, skip: dict[str, str]) -> Run:
    return pipeline.resolve("next", skip={"batch": run.batch_key, **skip})


def ordered_at_the_terminal(pipeline: Pipeline, run: Run, skip: dict[str, str]) -> Run:
    parsed = parse_skip({"batch": run.batch_key, **skip})
    assert parsed is not None
    before, after = skip_batch(pipeline.log, parsed, now_ms=NOW_MS, dry_run=True)
    assert (before, entries(run.batch)) == (run.plan, ["plan"])
    assert skip_batch(pipeline.log, parsed, now_ms=NOW_MS, dry_run=False) == (before, after)
    return pipeline.resolve("next")


@pytest.mark.parametrize("order", [ordered_by_conf, ordered_at_the_terminal], ids=lambda f: f.__name__)
def test_a_batch_that_is_skipped_is_empty_and_its_output_too(
    cluster: AnyCluster, pipeline: Pipeline, order: Any
) -> None:
    """Records that can never pass: the failed run has written some of them."""
    failed = pipeline.resolve("failed", splits=2).spark()
    produce(cluster, pipeline)
    run = order(pipeline, failed, {"reason": "poison"})
    assert (run.batch_key, run.plan.empty, run.splits) == (failed.batch_key, True, (0, 1))
    assert counted(run) == [(0, 4)] * 3
    assert run.plan.reason == "skip: poison"
    assert [p.start_reason for p in run.plan.partitions] == [
        "earliest → log start, then 4 skipped by order: poison"
    ] * 3
    run.done()
    assert pipeline.lake.offsets() == {}
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}
    assert pipeline.run("third").ranges == [(4, 6)] * 3


@pytest.mark.parametrize("order", [ordered_by_conf, ordered_at_the_terminal], ids=lambda f: f.__name__)
def test_a_batch_may_begin_after_an_offset_instead(cluster: AnyCluster, pipeline: Pipeline, order: Any) -> None:
    failed = pipeline.resolve("failed")
    run = order(pipeline, failed, {"past": f"{pipeline.topic}-0:1,{pipeline.topic}-2:3"})
    assert (run.ranges, counted(run)) == ([(2, 4), (0, 4), (4, 4)], [(0, 2), (0, 0), (0, 4)])
    assert run.plan.reason == f"skip past {pipeline.topic}[0]:1, {pipeline.topic}[2]:3: no reason was given"
    run.done()
    assert pipeline.lake.offsets() == {0: [2, 3], 1: [0, 1, 2, 3]}
    assert pipeline.at() == {0: 4, 1: 4, 2: 4}


def test_a_skip_is_done_once_however_often_it_is_tried(in_memory: Pipeline) -> None:
    failed = in_memory.resolve("failed")
    first = ordered_by_conf(in_memory, failed, {"past": "orders-0:1"})
    again = ordered_by_conf(in_memory, failed, {"past": "orders-0:1"})
    assert again.plan == first.plan
    assert counted(again) == [(0, 2), (0, 0), (0, 0)]
    more = ordered_by_conf(in_memory, failed, {"past": "orders-0:2"})
    assert (more.ranges[0], counted(more)[0]) == ((3, 4), (0, 3))


def test_so_it_is_where_other_records_are_lost_after_it(in_memory: Pipeline, memory: AnyCluster) -> None:
    """The plan's reason is another one then, and what was skipped is still left out."""
    failed = in_memory.resolve("failed")
    skip = {"batch": failed.batch_key, "past": "orders-0:1,orders-2:3"}
    for before, left in ((0, [(2, 4), (0, 4), (4, 4)]), (3, [(3, 4), (3, 4), (4, 4)])):
        for partition in (0, 1):
            memory.delete_records("orders", before, partition)
        runs = [in_memory.resolve("next", skip=skip, data_loss="advance") for _ in range(2)]
        assert [run.ranges for run in runs] == [left, left]
    assert counted(runs[1]) == [(1, 2), (3, 0), (0, 4)]
    runs[1].done()
    assert in_memory.at() == {0: 4, 1: 4, 2: 4}


@pytest.mark.parametrize(
    ("past", "words"),
    [
        ("orders-0:4", r"orders\[0\]:4: the batch reads \[0, 4\) of it"),
        ("orders-7:0", r"orders\[7\]:0: the batch reads nothing of it"),
    ],
)
def test_only_what_the_batch_reads_can_be_skipped(in_memory: Pipeline, past: str, words: str) -> None:
    run = in_memory.resolve("failed")
    with pytest.raises(InvalidRequest, match=words):
        ordered_by_conf(in_memory, run, {"past": past})
    assert entries(run.batch) == ["plan"]


def test_what_is_left_after_a_skip_is_not_taken_for_another_log(in_memory: Pipeline) -> None:
    """An orderly election lies between the position and where the batch begins now."""
    cluster, tp = in_memory.cluster, TopicPartition("orders", 0)
    assert isinstance(cluster, InMemoryCluster)
    in_memory.run("one")
    cluster.produce(tp, [NOW_MS] * 2)
    cluster.elect(tp)
    cluster.produce(tp, [NOW_MS] * 4)
    failed = in_memory.resolve("failed")
    ordered_by_conf(in_memory, failed, {"past": "orders-0:7"})
    assert in_memory.run("next", re_plan=True).ranges[0] == (8, 10)


def test_a_skip_to_an_offset_that_was_lost_before_leaves_what_is_read(in_memory: Pipeline, memory: AnyCluster) -> None:
    memory.produce("orders", 40_000)
    asked: dict[str, Any] = {"topics": None, "partitions": {"orders": [0]}, "splits": 2}
    first = in_memory.resolve("one", **asked)
    middle = min(piece.end_offset for split in first.plan.splits for piece in split)
    (low,) = [n for n, split in enumerate(first.plan.splits) if split[0].end_offset == middle]
    first.spark([low])
    memory.delete_records("orders", middle + 10)
    in_memory.resolve("two", **asked, data_loss="advance")
    skip = {"batch": first.batch_key, "past": f"orders-0:{middle + 3}"}
    (p,) = in_memory.resolve("two", **asked, skip=skip).plan.partitions
    assert (p.range.start_offset, p.gap, p.lost, p.skipped) == (middle + 10, 0, 10, middle)
    run = in_memory.run("three", **asked, group_id="another")
    assert run.ranges == [(middle + 10, 40_004)]


def test_only_the_unfinished_batch_can_be_skipped(in_memory: Pipeline, memory: AnyCluster) -> None:
    done = in_memory.run("one")
    by_hand = Skip(done.batch_key)
    with pytest.raises(BatchClosed, match="is committed"):
        skip_batch(in_memory.log, by_hand, now_ms=NOW_MS, dry_run=False)
    produce(memory, in_memory)
    with pytest.raises(BatchClosed, match="there is no unfinished batch for this run to do"):
        ordered_by_conf(in_memory, done, {})
    open_batch = in_memory.resolve("two")
    with pytest.raises(BatchClosed, match=f"the unfinished batch is {open_batch.batch_key}"):
        ordered_by_conf(in_memory, done, {})
    with pytest.raises(BatchClosed, match=f"the unfinished batch is {open_batch.batch_key}"):
        skip_batch(in_memory.log, by_hand, now_ms=NOW_MS, dry_run=False)
    with pytest.raises(NoPosition, match="has no batch"):
        skip_batch(replace(in_memory, pipeline_id="another").log, by_hand, now_ms=NOW_MS, dry_run=False)


def test_a_spark_job_of_a_batch_that_is_skipped_meanwhile_is_refused(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one")
    skip_batch(in_memory.log, Skip(run.batch_key), now_ms=NOW_MS, dry_run=False)
    with pytest.raises(PlanReplaced):
        run.job().begin()
    with pytest.raises(PlanReplaced):
        run.commit(require_report=False)


def test_what_was_skipped_stays_skipped_when_other_records_are_gone(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """A person gave the record up because it can never pass: to plan the rest anew must not bring it back."""
    pipeline.run("one")
    produce(cluster, pipeline, 4)
    failed = pipeline.resolve("failed")
    ordered_by_conf(pipeline, failed, {"past": f"{pipeline.topic}-0:5"})
    cluster.delete_records(pipeline.topic, 7, partition=1)
    run = pipeline.resolve("third", data_loss="advance")
    assert run.ranges == [(6, 8), (7, 8), (4, 8)]
    assert counted(run) == [(0, 2), (3, 0), (0, 0)]


@pytest.mark.parametrize("order", [ordered_by_conf, ordered_at_the_terminal], ids=lambda f: f.__name__)
def test_F16_one_record_is_left_out_and_all_others_are_read_once(
    cluster: AnyCluster, pipeline: Pipeline, order: Any
) -> None:
    """Some of it was written before, also the record that cannot pass."""
    failed = pipeline.resolve("failed").spark()
    run = order(pipeline, failed, {"only": f"{pipeline.topic}-1:1,{pipeline.topic}-2:0", "reason": "poison"})
    assert (run.batch_key, run.splits) == (failed.batch_key, (0, 1))
    assert counted(run) == [(0, 0), (0, 1), (0, 1)]
    run.done()
    assert pipeline.lake.offsets() == {0: [0, 1, 2, 3], 1: [0, 2, 3], 2: [1, 2, 3]}
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}
    [audited] = audit_batches(whole_records(pipeline.log, None, None))
    [skipped] = [finding for finding in audited.findings if finding.kind == "skipped"]
    assert (skipped.count, skipped.undecided) == (2, False)
    assert str(skipped.decision).endswith(": poison")
    log = pipeline.log.newest_commit()
    assert log is not None
    assert (log.log.history.totals.records, log.log.history.totals.skipped) == (10, 2)
    produce(cluster, pipeline)
    assert pipeline.run("third").ranges == [(4, 6)] * 3


def test_F16_a_report_of_the_record_that_was_left_out_verifies_nothing(in_memory: Pipeline) -> None:
    failed = in_memory.resolve("failed")
    run = ordered_by_conf(in_memory, failed, {"only": "orders-0:1"})
    for split in run.splits:
        job = run.job(split).begin()
        if split == 0:
            job.write([*job.read(), (TopicPartition("orders", 0), 1)])
        else:
            job.write()
        job.report()
    with pytest.raises(ReadNotVerified, match=r"split 0: orders\[0\] \[0, 1\)"):
        run.commit()


def test_F16_a_driver_of_before_the_skip_stops_and_the_run_that_had_it_commits_nothing(in_memory: Pipeline) -> None:
    late = in_memory.resolve("late")
    job = late.job().begin()
    run = ordered_by_conf(in_memory, late, {"only": "orders-0:1"})
    with pytest.raises(PlanReplaced):
        job.attempt.look()  # type: ignore[union-attr]
    with pytest.raises(PlanReplaced):
        late.commit(require_report=False)
    run.done()
    assert in_memory.lake.offsets()[0] == [0, 2, 3]


def test_F16_a_run_that_orders_it_again_changes_nothing_and_a_re_plan_does_not_bring_it_back(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    failed = in_memory.resolve("failed")
    first = ordered_by_conf(in_memory, failed, {"only": "orders-0:1"})
    assert ordered_by_conf(in_memory, failed, {"only": "orders-0:1"}).plan.plan_id == first.plan.plan_id
    produce(memory, in_memory)
    anew = in_memory.run("third", re_plan=True)
    assert (anew.ranges, counted(anew)) == ([(0, 6)] * 3, [(0, 1), (0, 0), (0, 0)])
    assert in_memory.lake.offsets() == {0: [0, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5], 2: [0, 1, 2, 3, 4, 5]}


def test_F16_its_group_may_be_another_one_meanwhile(in_memory: Pipeline) -> None:
    failed = in_memory.resolve("failed")
    ordered_by_conf(in_memory, failed, {"only": "orders-0:1"})
    run = in_memory.run("third", group_id="another")
    assert (counted(run), in_memory.lake.offsets()[0]) == ([(0, 1), (0, 0), (0, 0)], [0, 2, 3])


def test_F16_a_committed_batch_without_the_record_is_done_again_without_it(in_memory: Pipeline) -> None:
    """A clear, with the code of before or corrected code: the batch is frozen."""
    failed = in_memory.resolve("failed")
    done = ordered_by_conf(in_memory, failed, {"only": "orders-0:1"}).done()
    again = in_memory.resolve("next", redo=True)
    assert (again.plan.plan_id, again.splits) == (done.plan.plan_id, (0, 1))
    again.done()
    assert in_memory.lake.offsets()[0] == [0, 2, 3]


@pytest.mark.parametrize("skip", [{"only": "orders-0:1"}, {}], ids=["a record", "the batch"])
def test_a_run_that_has_skipped_does_its_batch_again_when_it_is_cleared(
    in_memory: Pipeline, skip: dict[str, str]
) -> None:
    """A run keeps its conf, and nobody can take a word out of it."""
    failed = in_memory.resolve("failed")
    done = ordered_by_conf(in_memory, failed, skip).done()
    rows = in_memory.lake.offsets()
    again = ordered_by_conf(in_memory, failed, skip)
    assert again.plan == done.plan
    again.done()
    assert in_memory.lake.offsets() == rows


def test_so_does_one_that_has_planned_anew(in_memory: Pipeline, memory: AnyCluster) -> None:
    in_memory.resolve("failed")
    produce(memory, in_memory)
    done = in_memory.run("next", re_plan=True)
    produce(memory, in_memory)
    again = in_memory.run("next", re_plan=True)
    assert (again.plan, again.ranges) == (done.plan, [(0, 6)] * 3)
    in_memory.run("new")
    with pytest.raises(BatchClosed):
        in_memory.resolve("new", re_plan=True)
    assert in_memory.lake.offsets() == {number: list(range(8)) for number in range(3)}


# ── a moved group ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_moved_group_is_adopted_by_the_unfinished_batch(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    old = pipeline.resolve("failed").spark()
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 1})
    with pytest.raises(GroupMoved):
        pipeline.resolve("next")
    run = pipeline.resolve("next", group_moved="adopt-group")
    assert (run.batch_key, run.ranges) == (old.batch_key, [(1, 6), (4, 6), (4, 6)])
    assert run.plan.reason == "the group is adopted"
    run.done()
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}
    assert pipeline.resolve("third").assignment.batch is None


# ── jobs and commits of the plan before ───────────────────────────────────────────────────────────────────────────────


def test_a_job_of_the_plan_before_begins_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """It waited in a queue."""
    old = pipeline.resolve("one", splits=3)
    produce(cluster, pipeline)
    new = pipeline.resolve("one", re_plan=True)
    with pytest.raises(PlanReplaced, match="Clear the run's resolve task") as refused:
        old.job(2).begin()
    assert (refused.value.plan_id, refused.value.by) == (old.plan.plan_id, new.plan.plan_id)
    new.done()
    assert pipeline.lake.offsets() == ALL_SIX


def test_a_job_of_the_plan_before_that_has_begun_stops_and_takes_nothing_from_the_new_one(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    old = in_memory.resolve("one")
    late = old.job().begin()
    produce(memory, in_memory)
    new = in_memory.resolve("one", re_plan=True).spark()
    assert late.attempt is not None
    with pytest.raises(PlanReplaced):
        late.attempt.look()
    new.commit()
    assert in_memory.lake.offsets() == ALL_SIX


@pytest.mark.parametrize("writes", ["before the new one", "after the new one"])
def test_a_job_of_the_plan_before_that_writes_leaves_the_split_to_be_written_again(
    in_memory: Pipeline, memory: AnyCluster, writes: str
) -> None:
    late = in_memory.resolve("one").job().begin()
    produce(memory, in_memory)
    new = in_memory.resolve("one", re_plan=True)
    if writes == "after the new one":
        new.spark()
    late.write()
    with pytest.raises(LateAttempt, match="comes too late") as refused:
        late.report()
    assert "Clear the run from its Spark task on" in str(refused.value)
    if writes == "after the new one":
        with pytest.raises(ReadNotVerified, match="began and has not reported"):
            new.commit()
    new.done()
    assert in_memory.lake.offsets() == ALL_SIX
