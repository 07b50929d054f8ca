"""A partition that is held keeps its position, and the batch reads the others (``unavailable``, ``hold``).

In memory, where the test says who leads; ``tests/failing/test_held.py`` does it to three brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ClusterUnavailable, DataLoss, GroupMoved, NothingToDiscover
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.whole_log import audit_log
from airflow_kafka_offsets.plan.position import SavedOffset
from airflow_kafka_offsets.request.policies import Skip
from tests.cluster.memory import HANGS, InMemoryCluster
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Job, Pipeline, Run, entries
from tests.contract.troubles import produce

ALL_SIX = {number: list(range(6)) for number in range(3)}
HELD = TopicPartition("orders", 1)
WITHOUT = {"unavailable": "hold"}
BY_ORDER = {"hold": ["orders-1"]}


@pytest.fixture
def kafka(memory: AnyCluster) -> InMemoryCluster:
    assert isinstance(memory.reader, InMemoryCluster)
    return memory.reader


def held(run: Run) -> list[tuple[int, str]]:
    return [(p.topic_partition.partition, p.end_reason) for p in run.plan.partitions if p.held]


# ── nobody leads it ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_F13_a_partition_without_a_leader_is_held_and_a_later_run_reads_it_from_where_it_stood(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    kafka.elect(HELD)  # so that its epoch is another one than the others'
    in_memory.run("one")
    before = in_memory.position.offsets[HELD]
    assert before == SavedOffset(4, 1)
    produce(memory, in_memory)
    kafka.elect(HELD, None)
    with pytest.raises(ClusterUnavailable, match=r"orders\[1\]: it has no leader"):
        in_memory.resolve("two")

    second = in_memory.run("two", **WITHOUT)

    assert second.ranges == [(4, 6), (4, 4), (4, 6)]
    assert held(second) == [(1, "held: it has no leader")]
    assert [(p.lost, p.skipped, p.continuity) for p in second.plan.partitions] == [(0, 0, "contiguous")] * 3
    assert "orders[1] stays at 4 (held: it has no leader). A later run reads on from there." in second.plan.warnings
    assert in_memory.position.offsets[HELD] == before
    assert in_memory.position.topic_ids == {"orders": kafka.topics["orders"].topic_id}
    assert in_memory.held() == {0: 6, 1: 4, 2: 6}
    assert in_memory.resolve("three", **WITHOUT).assignment.batch is None, "there is nothing new in the others"

    kafka.elect(HELD)
    assert in_memory.run("four").ranges == [(6, 6), (4, 6), (6, 6)]
    assert in_memory.lake.offsets() == ALL_SIX


def test_F13_a_run_with_nothing_else_to_do_says_what_is_held(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    kafka.elect(HELD, None)
    [warning] = in_memory.resolve("two", **WITHOUT).assignment.warnings
    assert warning.startswith("orders[1] stays at 4")


def test_F13_what_goes_while_a_partition_is_held_is_lost_when_it_is_read_and_not_before(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    memory.delete_records("orders", 5, 1)
    kafka.elect(HELD, None)
    in_memory.run("two", **WITHOUT)
    kafka.elect(HELD)
    with pytest.raises(DataLoss, match=r"start offset 4 .* is below log start offset 5"):
        in_memory.resolve("three", **WITHOUT)


@pytest.mark.parametrize("mode", ["earliest-offset", "latest-offset", "group-offsets"])
def test_F13_a_first_plan_holds_nothing_that_has_no_leader(
    mode: str, kafka: InMemoryCluster, in_memory: Pipeline
) -> None:
    """Nobody can say where it starts; a later run would decide that by what is there then."""
    kafka.elect(HELD, None)
    for _ in range(2):
        with pytest.raises(ClusterUnavailable, match=r"orders\[1\]: it has no leader"):
            in_memory.resolve("one", startup_mode=mode, auto_offset_reset="latest", **WITHOUT)
    assert in_memory.log.newest() is None


@pytest.mark.parametrize("word", [{"restart": "again"}, {"group_moved": "adopt-group"}])
def test_F13_nor_does_a_plan_that_starts_it_elsewhere(
    word: dict[str, Any], kafka: InMemoryCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    kafka.commit_as_somebody_else(in_memory.group, {HELD: CommittedOffset(2)} if "group_moved" in word else {})
    kafka.elect(HELD, None)
    with pytest.raises(ClusterUnavailable):
        in_memory.resolve("two", **WITHOUT, **word)
    if "group_moved" in word:
        with pytest.raises(GroupMoved):
            in_memory.resolve("two", **WITHOUT)


def test_F13_a_new_partition_without_a_leader_stops_the_run(kafka: InMemoryCluster, in_memory: Pipeline) -> None:
    in_memory.run("one")
    kafka.add_partitions("orders", 1)
    kafka.elect(TopicPartition("orders", 3), None)
    with pytest.raises(ClusterUnavailable, match=r"orders\[3\]: it has no leader"):
        in_memory.resolve("two", **WITHOUT)


# ── its leader is known, and does not answer ──────────────────────────────────────────────────────────────────────────


def test_F17_a_partition_whose_leader_does_not_answer_is_held_after_one_wait(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    before = in_memory.position.offsets[HELD]
    produce(memory, in_memory)
    kafka.hanging.add(HELD)
    with pytest.raises(ClusterUnavailable, match=r"orders\[1\]: no answer within 1 s; its leader is broker 1"):
        in_memory.resolve("two")
    kafka.waited = 0

    second = in_memory.resolve("two", **WITHOUT)

    assert kafka.waited == 1
    assert second.ranges == [(4, 6), (4, 4), (4, 6)]
    assert held(second) == [(1, f"held: {HANGS}")]
    assert second.plan.warnings[-1].startswith(f"orders[1] stays at 4 (held: {HANGS})")
    second.done()
    assert in_memory.position.offsets[HELD] == before
    kafka.hanging.clear()
    in_memory.run("three")
    assert in_memory.lake.offsets() == ALL_SIX


def test_F17_a_first_plan_and_a_new_partition_hold_none_that_does_not_answer(
    kafka: InMemoryCluster, in_memory: Pipeline
) -> None:
    """Nobody can say where it starts."""
    kafka.hanging.add(HELD)
    with pytest.raises(ClusterUnavailable, match=r"orders\[1\]: no answer"):
        in_memory.resolve("one", **WITHOUT)
    kafka.hanging.clear()
    in_memory.run("one")
    kafka.add_partitions("orders", 1)
    kafka.hanging |= {HELD, TopicPartition("orders", 3)}
    with pytest.raises(ClusterUnavailable, match=r"orders\[3\]: no answer"):
        in_memory.resolve("two", **WITHOUT)


def test_F17_a_batch_that_is_not_done_is_planned_anew_without_it_after_one_wait(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    old = in_memory.resolve("two").spark()
    produce(memory, in_memory)
    in_memory.resolve("two", re_plan=True)
    kafka.hanging.add(HELD)

    again = in_memory.resolve("three", **WITHOUT)

    assert kafka.waited == 1
    assert (again.batch_key, again.ranges) == (old.batch_key, [(4, 8), (4, 4), (4, 8)])
    assert again.sentence == f"plans batch 2 anew: orders[1]: {HANGS}"
    assert in_memory.resolve("three", **WITHOUT).plan == again.plan
    again.done()
    assert in_memory.at() == {0: 8, 1: 4, 2: 8}


def test_F17_rows_that_are_verified_are_not_given_up_for_it(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    """Whether their records are still there, nobody can say."""
    in_memory.run("one")
    for _ in range(6000):
        memory.produce("orders", 5, 1)
    old = in_memory.resolve("two", splits=3)
    pieces = [split for split in range(3) if HELD in _of(old, split)]
    old.spark(pieces[:1])
    kafka.hanging.add(HELD)
    with pytest.raises(ClusterUnavailable, match=r"orders\[1\]: no answer"):
        in_memory.resolve("two", **WITHOUT)
    kafka.hanging.clear()
    assert in_memory.resolve("two", **WITHOUT).plan == old.plan


# ── an unfinished batch ───────────────────────────────────────────────────────────────────────────────────────────────


def unfinished(
    kafka: InMemoryCluster, memory: AnyCluster, pipeline: Pipeline, meanwhile: Callable[[Job], object] = id
) -> Run:
    """The second batch; nobody leads a partition of it after ``meanwhile``, which is given the job that reads it."""
    pipeline.run("one")
    produce(memory, pipeline)
    run = pipeline.resolve("two", splits=3, split_by="flink")
    [split] = [split for split in range(3) if HELD in _of(run, split)]
    meanwhile(run.job(split))
    kafka.elect(HELD, None)
    return run


def test_F13_a_batch_that_is_not_done_is_planned_anew_without_it(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    """Its rows, if a job wrote some, are overwritten, and the position stays at what the batch before left."""
    old = unfinished(kafka, memory, in_memory, lambda job: job.begin().write([(HELD, 4)]))
    with pytest.raises(ClusterUnavailable, match=r"orders\[1\]: it has no leader"):
        in_memory.resolve("two")

    again = in_memory.resolve("three", **WITHOUT)

    assert (again.batch_key, again.ranges) == (old.batch_key, [(4, 6), (4, 4), (4, 6)])
    assert again.sentence == "plans batch 2 anew: orders[1] has no leader"
    assert again.splits == (0, 1, 2), "one of them overwrites what the job wrote"
    again.done()
    assert in_memory.at() == {0: 6, 1: 4, 2: 6}
    kafka.elect(HELD)
    in_memory.run("four")
    assert in_memory.lake.offsets() == ALL_SIX


def _of(run: Run, split: int) -> set[TopicPartition]:
    return {p.topic_partition for p in run.plan.splits[split]}


def test_F13_a_retry_of_that_plan_is_the_same_and_a_leader_that_is_back_waits_for_the_next_run(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    unfinished(kafka, memory, in_memory)
    anew = in_memory.resolve("two", **WITHOUT)
    assert in_memory.resolve("two", **WITHOUT).plan == anew.plan
    kafka.elect(HELD)
    assert in_memory.resolve("two").plan == anew.plan
    in_memory.run("two")
    in_memory.run("three")
    assert in_memory.lake.offsets() == ALL_SIX


def test_F13_a_first_batch_that_is_planned_anew_keeps_the_start_that_was_decided(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.parameters = {"startup_mode": "latest-offset"}
    assert in_memory.resolve("one").ranges == [(4, 4)] * 3
    produce(memory, in_memory)
    in_memory.resolve("one", re_plan=True)
    kafka.elect(HELD, None)
    assert in_memory.run("one", **WITHOUT).ranges == [(4, 6), (4, 4), (4, 6)]
    produce(memory, in_memory)
    kafka.elect(HELD)
    assert in_memory.run("two").ranges == [(6, 8), (4, 8), (6, 8)], "no record of before it is skipped"


def test_F13_rows_that_are_verified_are_not_given_up_for_it(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    old = unfinished(kafka, memory, in_memory, lambda job: job.begin().write().report())
    again = in_memory.resolve("two", **WITHOUT)
    assert again.plan == old.plan, "what is left of it needs nothing of the partition"
    assert len(again.splits) == 2
    again.done()
    assert in_memory.at() == {0: 6, 1: 6, 2: 6}
    assert in_memory.lake.offsets() == ALL_SIX


def test_F13_so_a_split_of_several_partitions_waits_for_the_leader(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    """A partition that is cut into pieces, one of them verified: to hold it would overwrite its rows."""
    in_memory.run("one")
    for _ in range(6000):
        memory.produce("orders", 5, 1)
    old = in_memory.resolve("two", splits=3)
    pieces = [split for split in range(3) if HELD in _of(old, split)]
    assert len(pieces) > 1
    old.spark(pieces[:1])
    kafka.elect(HELD, None)
    with pytest.raises(ClusterUnavailable):
        in_memory.resolve("two", **WITHOUT)
    kafka.elect(HELD)
    assert in_memory.resolve("two", **WITHOUT).plan == old.plan


def test_F13_what_a_person_had_skipped_of_it_stays_skipped_and_counted(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    old = unfinished(kafka, memory, in_memory)
    in_memory.skip(Skip(old.batch_key, ((HELD, 4),), "poison"))
    again = in_memory.run("two", **WITHOUT)
    assert again.ranges == [(4, 6), (5, 5), (4, 6)]
    assert [p.skipped for p in again.plan.partitions] == [0, 1, 0]
    kafka.elect(HELD)
    assert in_memory.run("three").ranges == [(6, 6), (5, 6), (6, 6)]


def test_F13_a_batch_that_holds_one_is_done_again_while_it_has_no_leader(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    kafka.elect(HELD, None)
    second = in_memory.run("two", **WITHOUT)
    assert in_memory.resolve("two").splits == second.splits
    with pytest.raises(ClusterUnavailable):
        in_memory.resolve("one")


# ── a person holds it ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_F14_a_person_holds_a_partition_while_the_others_go_on(memory: AnyCluster, in_memory: Pipeline) -> None:
    in_memory.run("one")
    for name in ("two", "three"):
        produce(memory, in_memory)
        run = in_memory.run(name, **BY_ORDER)
        assert held(run) == [(1, "held: by order")]
    assert in_memory.at() == in_memory.held() == {0: 8, 1: 4, 2: 8}
    assert in_memory.run("four").ranges == [(8, 8), (4, 8), (8, 8)]


@pytest.mark.parametrize("mode", ["earliest-offset", "latest-offset"])
def test_F14_a_first_plan_records_where_a_held_partition_starts(
    mode: str, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.parameters = {"startup_mode": mode}
    first = in_memory.run("one", **BY_ORDER)
    start = 0 if mode == "earliest-offset" else 4
    assert first.ranges == [(start, 4), (start, start), (start, 4)]
    assert [p.skipped for p in first.plan.partitions] == [start] * 3
    produce(memory, in_memory)
    assert in_memory.run("two").ranges == [(4, 6), (start, 6), (4, 6)]


@pytest.mark.parametrize("word", [BY_ORDER, {"re_plan": True}, WITHOUT], ids=str)
def test_F14_a_log_that_is_cut_below_a_first_start_is_told_after_a_second_plan(
    word: dict[str, Any], kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    """The start keeps the epoch of the log that it was taken from. No end shows the cut: the log has grown past it."""
    in_memory.parameters = {"startup_mode": "specific-offsets", "specific_offsets": {"orders": "latest-1"}}
    in_memory.resolve("one")
    kafka.elect(HELD, None)
    if "re_plan" not in word:
        in_memory.run("one", **word)
    kafka.truncate(HELD, 1)
    produce(memory, in_memory, 4)
    with pytest.raises(DataLoss, match="from offset 1 on, the log is another one"):
        in_memory.resolve("one" if "re_plan" in word else "two", **word if "re_plan" in word else {})


@pytest.mark.parametrize("at", [0, 1])
def test_F14_one_attempt_skips_a_record_and_holds_a_partition(at: int, memory: AnyCluster, in_memory: Pipeline) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    old = in_memory.resolve("two")
    skip = {"batch": old.batch_key, "past": f"orders-{at}:4", "reason": "poison"}
    for _ in range(2):
        again = in_memory.resolve("two", skip=skip, **BY_ORDER)
        assert again.ranges == [(4 + (at == 0), 6), (4 + at, 4 + at), (4, 6)]
        assert [p.skipped for p in again.plan.partitions] == [at == 0, at == 1, 0]
        assert again.plan.reason == f"skip past orders[{at}]:4: poison; orders[1] is held by order"
    again.done()
    assert in_memory.at() == {0: 6, 1: 4 + at, 2: 6}
    [*_, last], _ = audit_log(in_memory.log)
    assert [(found.kind, found.count, found.decision) for found in last.findings] == [
        ("skipped", 1, again.plan.reason),
        ("planned anew", None, again.plan.reason),
    ]


def test_F14_a_new_partition_that_is_held_is_on_record_before_another_policy_begins(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    kafka.add_partitions("orders", 1)
    in_memory.run("two", hold=["orders-3"])
    memory.produce("orders", 2, 3)
    assert in_memory.run("three", new_partition="latest").ranges == [(4, 4)] * 3 + [(0, 2)]


def test_F14_a_batch_that_has_it_is_planned_anew_without_it(memory: AnyCluster, in_memory: Pipeline) -> None:
    """Its records may be what the batch fails at."""
    in_memory.run("one")
    produce(memory, in_memory)
    old = in_memory.resolve("two")
    again = in_memory.resolve("three", **BY_ORDER)
    assert (again.batch_key, again.ranges) == (old.batch_key, [(4, 6), (4, 4), (4, 6)])
    assert again.sentence == "plans batch 2 anew: orders[1] is held by order"
    assert in_memory.resolve("three", **BY_ORDER).plan == again.plan
    assert len(entries(in_memory.newest)) == 1
    in_memory.run("three")
    in_memory.run("four")
    assert in_memory.lake.offsets() == ALL_SIX


def test_F14_verified_rows_whose_records_are_gone_stay(memory: AnyCluster, in_memory: Pipeline) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    in_memory.resolve("two").spark()
    memory.delete_records("orders", 5, 1)
    with pytest.raises(DataLoss, match=r"has verified rows of these records, and hold would replace them"):
        in_memory.resolve("three", **BY_ORDER)
    in_memory.run("three")
    assert in_memory.lake.offsets() == ALL_SIX


def test_F14_what_is_held_by_order_is_not_asked_for_a_leader_and_not_for_lost_records(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    memory.delete_records("orders", 5, 1)
    assert in_memory.resolve("two", **BY_ORDER).ranges == [(4, 6), (4, 4), (4, 6)]
    kafka.elect(HELD, None)
    in_memory.run("two", **BY_ORDER)
    assert in_memory.at()[1] == 4


def test_F14_a_person_may_hold_what_has_no_leader_and_nothing_else_is_held_for_it(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    old = unfinished(kafka, memory, in_memory)
    assert in_memory.resolve("two", **BY_ORDER).ranges == [(4, 6), (4, 4), (4, 6)]
    kafka.elect(TopicPartition("orders", 2), None)
    with pytest.raises(ClusterUnavailable, match=r"orders\[2\]"):
        in_memory.resolve("two", **BY_ORDER)
    assert old.batch_key == in_memory.newest.log.plan.batch.key


def test_F14_a_hold_of_a_partition_that_does_not_exist_is_refused(in_memory: Pipeline) -> None:
    """A person who mistypes believes that it is held."""
    with pytest.raises(NothingToDiscover, match=r"orders\[7\] does not exist"):
        in_memory.resolve("one", hold=["orders-7"])


def test_F14_also_where_a_batch_is_unfinished(in_memory: Pipeline) -> None:
    in_memory.resolve("one")
    with pytest.raises(NothingToDiscover, match=r"orders\[7\] does not exist"):
        in_memory.resolve("one", hold=["orders-7"])
    in_memory.run("one")


def test_F14_so_is_it_not_dropped_where_the_group_gave_the_position(
    kafka: InMemoryCluster, memory: AnyCluster, in_memory: Pipeline
) -> None:
    """The group holds its offset, with the mark of the batch, like the others'."""
    in_memory.run("one")
    produce(memory, in_memory)
    in_memory.run("two", **BY_ORDER)
    marks = kafka.committed(in_memory.group, [TopicPartition("orders", n) for n in range(3)])
    assert len({commit.metadata for commit in marks.values()}) == 1
