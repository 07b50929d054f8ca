"""A person sets a position: a batch of the log that reads nothing, by the same rules as every batch. Both clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.no_airflow import NoAirflow
from airflow_kafka_offsets.batch.orders import OfBatch
from airflow_kafka_offsets.batch.orders import Reset as ResetOrder
from airflow_kafka_offsets.cli.reset_command import offsets_of_query
from airflow_kafka_offsets.errors import (
    AnotherAirflow,
    ClusterChanged,
    DataLoss,
    GroupActive,
    GroupMoved,
    NoCommittedOffset,
    NoPosition,
    ResetRefused,
    StoreBehindGroup,
    TopicRecreated,
)
from airflow_kafka_offsets.kafka_values import Actor, TopicPartition
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.plan.position import (
    SavedOffset,
    ShiftBy,
    ToOffset,
    ToOffsets,
)
from airflow_kafka_offsets.request.modes import AtTimestamp
from tests.cluster.memory import InMemoryCluster
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import AIRFLOW, CHECKPOINT, Pipeline, entries
from tests.contract.troubles import Backup, EventfulStore, Killed, Meanwhile, die, produce
from tests.engine import OfGroup, Reset, ResetOutcome, reset_position

PERSON = Actor(None, AIRFLOW)


def reset(pipeline: Pipeline, target: Any, *, execute: bool = True, me: Actor = PERSON, **asked: Any) -> ResetOutcome:
    asked = {"reason": "because", "allow_duplicates": True, **asked}
    return reset_position(
        pipeline.log, pipeline.cluster, me, Reset(target, **asked), now_ms=pipeline.now_ms, dry_run=not execute
    )


def counts(done: ResetOutcome) -> list[tuple[int, int, int]]:
    """Skipped, lost and read again, of each partition."""
    return [(one.skipped, one.lost, one.reads_again) for one in done.moves]


# ── the scenarios ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_to_latest_leaves_out_what_is_there_and_the_group_follows(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = pipeline.run("one")
    produce(cluster, pipeline)
    done = reset(pipeline, "latest-offset")
    assert (pipeline.at(), pipeline.held()) == ({0: 6, 1: 6, 2: 6}, {0: 6, 1: 6, 2: 6})
    assert counts(done) == [(2, 0, 0)] * 3
    newest = pipeline.newest
    assert newest.log.plan.batch is not None
    assert (newest.log.plan.batch.number, newest.log.plan.batch.after) == (2, first.batch_key)
    assert (newest.log.plan.empty, newest.log.plan.skipped, newest.log.plan.reason) == (
        True,
        6,
        "reset to latest-offset: because",
    )
    assert (entries(newest), newest.log.committed and newest.log.committed.by) == (["plan", "commit"], PERSON)
    produce(cluster, pipeline)
    run = pipeline.run("two")
    assert (run.number, run.ranges) == (3, [(6, 8)] * 3)


def test_the_group_carries_the_mark_of_the_reset(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    reset(pipeline, "earliest-offset")
    held = pipeline.cluster.committed(pipeline.group, [TopicPartition(pipeline.topic, 0)])
    name = pipeline.newest.log.plan.batch
    assert name is not None
    assert [CommitMetadata.of(commit) for commit in held.values()] == [CommitMetadata(CHECKPOINT, AIRFLOW, name.key)]


def test_back_to_earliest_reads_everything_again_under_another_key(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = pipeline.run("one")
    assert counts(reset(pipeline, "earliest-offset")) == [(0, 0, 4)] * 3
    run = pipeline.run("two")
    assert run.ranges == [(0, 4)] * 3
    assert pipeline.lake.keys == [first.batch_key, run.batch_key], "twice in the output, as was said"


def test_every_scenario_of_kafka_consumer_groups(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    tp = TopicPartition(pipeline.topic, 0)
    cluster.produce(pipeline.topic, partition=0, timestamps_ms=[NOW_MS + 60_000, NOW_MS + 120_000])
    at: list[tuple[Any, int]] = [
        (ToOffset(3), 3),
        (ShiftBy(-2), 1),
        (ShiftBy(4), 5),
        (AtTimestamp(NOW_MS + 60_000), 4),
        (AtTimestamp(NOW_MS + 999_000), 6),
        (ToOffsets({tp: SavedOffset(2)}, "file offsets.csv"), 2),
        ("earliest-offset", 0),
        ("latest-offset", 6),
    ]
    for target, offset in at:
        reset(pipeline, target, partitions=(tp,))
        assert pipeline.at() == {0: offset, 1: 4, 2: 4}, str(target)
        assert pipeline.held()[0] == offset


def test_to_another_groups_offsets(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    other = f"{pipeline.group}-other"
    cluster.commit_as_somebody(other, {TopicPartition(pipeline.topic, 0): 1, TopicPartition(pipeline.topic, 2): 3})
    done = reset(pipeline, OfGroup(other))
    assert pipeline.at() == {0: 1, 1: 4, 2: 3}
    assert [tp.partition for tp in done.stays] == [1]
    with pytest.raises(NoCommittedOffset, match="holds no offset"):
        reset(pipeline, OfGroup(f"{other}-x"))


@pytest.mark.parametrize(
    ("target", "offset", "brought"),
    [(ToOffset(0), 2, "log start"), (ToOffset(99), 4, "end"), (ShiftBy(-99), 2, "log start"), (ShiftBy(99), 4, "end")],
    ids=str,
)
def test_an_offset_that_the_log_does_not_have_is_brought_to_its_end(
    cluster: AnyCluster, pipeline: Pipeline, target: Any, offset: int, brought: str
) -> None:
    pipeline.run("one", max_records_per_partition=3)
    cluster.delete_records(pipeline.topic, 2)
    done = reset(pipeline, target, partitions=(TopicPartition(pipeline.topic, 0),))
    assert (pipeline.at()[0], done.moves[0].brought) == (offset, brought)


def test_what_retention_took_is_lost_and_not_skipped(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one", max_records_per_partition=1)
    cluster.delete_records(pipeline.topic, 3)
    assert counts(reset(pipeline, "latest-offset")) == [(1, 2, 0), (3, 0, 0), (3, 0, 0)]
    assert (pipeline.newest.log.plan.skipped, pipeline.newest.log.plan.lost) == (7, 2)


def test_to_current_brings_a_position_whose_records_are_gone_into_the_log(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one", max_records_per_partition=1)
    cluster.delete_records(pipeline.topic, 3)
    with pytest.raises(DataLoss):
        pipeline.resolve("two")
    assert counts(reset(pipeline, ShiftBy())) == [(0, 2, 0), (0, 0, 0), (0, 0, 0)]
    assert pipeline.run("three").ranges == [(3, 4), (1, 4), (1, 4)]


def test_a_partition_that_the_pipeline_has_not_read_yet_can_be_set_too(cluster: AnyCluster, pipeline: Pipeline) -> None:
    one = [TopicPartition(pipeline.topic, number) for number in range(3)]
    pipeline.run("one", topics=None, partitions={pipeline.topic: [0]})
    assert [m.topic_partition for m in reset(pipeline, "earliest-offset").moves] == one[:1], "the position's"
    done = reset(pipeline, "latest-offset", topics=(pipeline.topic,))
    assert [m.before for m in done.moves][1:] == [None, None]
    assert pipeline.at() == {0: 4, 1: 4, 2: 4}


@pytest.mark.parametrize(
    "asked", [{"topics": ("nothing-of-it",)}, {"partitions": (TopicPartition("nothing-of-it", 0),)}]
)
def test_a_topic_that_is_not_the_pipelines_is_refused(in_memory: Pipeline, asked: dict[str, Any]) -> None:
    in_memory.run("one")
    with pytest.raises(NoPosition, match="the pipeline has no position in this topic"):
        reset(in_memory, "latest-offset", **asked)


# ── a dry run, and the further word ───────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_writes_nothing_and_shows_the_same_moves(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    before = Backup(pipeline.store).objects
    would = reset(pipeline, "latest-offset", execute=False)
    assert (Backup(pipeline.store).objects, pipeline.held()) == (before, {0: 4, 1: 4, 2: 4})
    done = reset(pipeline, "latest-offset")
    assert would.moves == done.moves
    assert would.group.written == done.group.written == dict.fromkeys(done.group.written, (4, 6))


def test_to_read_records_again_takes_a_further_word(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    before = Backup(pipeline.store).objects
    assert counts(reset(pipeline, ToOffset(1), execute=False, allow_duplicates=False)) == [(0, 0, 3)] * 3
    with pytest.raises(ResetRefused, match="from 4 back to 1, so up to 3 records are read again") as refused:
        reset(pipeline, ToOffset(1), allow_duplicates=False)
    assert "--allow-duplicates" in str(refused.value)
    assert Backup(pipeline.store).objects == before


# ── the rules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reset_that_dies_between_plan_and_commit_is_committed_by_the_next_run(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    dying = replace(pipeline, store=EventfulStore(pipeline.store, "0000000002/2.json", die))
    with pytest.raises(Killed):
        reset(dying, ToOffset(5))
    assert (entries(pipeline.newest), pipeline.at(), pipeline.held()[0]) == (["plan"], {0: 4, 1: 4, 2: 4}, 4)
    with pytest.raises(ResetRefused, match="kafka-offsets commit --batch"):
        reset(pipeline, ToOffset(5))
    run = pipeline.resolve("two")
    assert (run.number, run.splits) == (2, ())
    run.done()
    assert (pipeline.at(), pipeline.held()) == ({0: 5, 1: 5, 2: 5}, {0: 5, 1: 5, 2: 5})
    assert pipeline.run("three").ranges == [(5, 6)] * 3


def test_a_reset_that_is_planned_anew_does_not_bring_the_old_position_back(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    dying = replace(pipeline, store=EventfulStore(pipeline.store, "0000000002/2.json", die))
    with pytest.raises(Killed):
        reset(dying, ToOffset(5))
    assert pipeline.run("two", re_plan=True).ranges == [(5, 6)] * 3


@pytest.mark.parametrize("by", ["the same reset", "the next run"])
def test_a_reset_that_dies_before_the_group_is_written_is_mirrored_by_whoever_comes_next(
    cluster: AnyCluster, pipeline: Pipeline, by: str
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    with pytest.raises(Killed):
        reset(replace(pipeline, cluster=Meanwhile(pipeline.cluster, "commit_offsets", die)), "latest-offset")
    assert (pipeline.at(), pipeline.held()) == (dict.fromkeys(range(3), 6), dict.fromkeys(range(3), 4))
    if by == "the next run":
        assert pipeline.run("two").assignment.batch is None, "nothing is new, and the group is written all the same"
    else:
        reset(pipeline, "latest-offset")
    assert pipeline.held() == dict.fromkeys(range(3), 6)


def test_a_reset_to_where_the_position_is_makes_no_batch(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """So a retry does nothing."""
    pipeline.run("one")
    reset(pipeline, ToOffset(2))
    assert reset(pipeline, ToOffset(2)).batch is None
    assert pipeline.newest.log.plan.batch is not None
    assert pipeline.newest.log.plan.batch.number == 2


def test_an_unfinished_batch_is_in_the_way_and_the_ways_on_are_named(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Its drivers may be late: what they write is of a batch that the log then has, finished."""
    pipeline.run("one")
    produce(cluster, pipeline)
    run = pipeline.resolve("two")
    job = run.job().begin()
    for execute in (False, True):
        with pytest.raises(ResetRefused, match="is not committed: it is with run dag/two/resolve") as refused:
            reset(pipeline, "earliest-offset", execute=execute)
        assert f"kafka-offsets skip --batch {run.batch_key}" in str(refused.value)
    job.write().report()
    run.commit()
    reset(pipeline, "latest-offset")
    assert pipeline.lake.offsets() == {number: list(range(6)) for number in range(3)}


def test_a_late_driver_of_a_batch_before_the_reset_changes_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = pipeline.resolve("one")
    late = first.job().begin()
    first.done()
    reset(pipeline, "earliest-offset", partitions=(TopicPartition(pipeline.topic, 0),))
    late.write()
    assert pipeline.at() == {0: 0, 1: 4, 2: 4}
    assert pipeline.run("two").ranges == [(0, 4), (4, 4), (4, 4)]


def test_a_run_that_plans_in_the_same_moment_is_first_and_the_reset_says_so(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    store = pipeline.store
    pipeline.store = EventfulStore(store, "0000000002/1.json", lambda: _as(pipeline, store).resolve("two"))
    with pytest.raises(ResetRefused, match="it is with run dag/two/resolve"):
        reset(pipeline, "latest-offset")
    pipeline.store = store
    assert entries(pipeline.newest) == ["plan"]


def _as(pipeline: Pipeline, store: Any) -> Pipeline:
    pipeline.store = store
    return pipeline


def test_a_run_that_plans_and_commits_meanwhile_is_gone_on_from(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """A mark of a batch that came between the two looks is no older copy of the work store."""
    pipeline.run("one")
    produce(cluster, pipeline)
    real = pipeline.cluster

    def meanwhile() -> None:
        pipeline.cluster = real
        pipeline.run("two")

    pipeline.cluster = Meanwhile(real, "committed", meanwhile)
    reset(pipeline, ShiftBy(-1))
    pipeline.cluster = real
    assert pipeline.at() == {0: 5, 1: 5, 2: 5}


def test_a_cleared_run_of_before_the_reset_does_its_own_batch_again(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    reset(pipeline, "earliest-offset")
    again = pipeline.run("one")
    assert (again.number, again.ranges) == (1, [(0, 4)] * 3)
    assert pipeline.at() == pipeline.held() == {0: 0, 1: 0, 2: 0}


def test_a_new_partition_that_a_person_resets_to_its_start_is_on_record_before_a_policy_skips_it(
    memory: AnyCluster, in_memory: Pipeline
) -> None:
    assert isinstance(memory.reader, InMemoryCluster)
    in_memory.run("one")
    memory.reader.add_partitions(in_memory.topic, 1)
    memory.produce(in_memory.topic, 2, 3)
    done = reset(in_memory, "earliest-offset", partitions=(TopicPartition(in_memory.topic, 3),))
    assert (counts(done), in_memory.at()[3]) == ([(0, 0, 0)], 0)
    assert in_memory.run("two", new_partition="latest").ranges == [(4, 4)] * 3 + [(0, 2)]


def test_a_group_that_somebody_moved_is_refused_and_nothing_is_written(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    before = Backup(pipeline.store).objects
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 1): 2})
    for execute in (False, True):
        with pytest.raises(GroupMoved, match="the group is at 2"):
            reset(pipeline, "earliest-offset", execute=execute)
    assert Backup(pipeline.store).objects == before
    assert pipeline.held() == {0: 4, 1: 2, 2: 4}


def test_a_group_that_is_moved_between_plan_and_commit_keeps_the_reset_from_being_committed(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    moved = {TopicPartition(pipeline.topic, 1): 2}
    store = pipeline.store
    pipeline.store = EventfulStore(
        store, "0000000002/1.json", lambda: cluster.commit_as_somebody(pipeline.group, moved), after=True
    )
    with pytest.raises(GroupMoved):
        reset(pipeline, "earliest-offset")
    pipeline.store = store
    assert (pipeline.at(), pipeline.held()) == ({0: 4, 1: 4, 2: 4}, {0: 4, 1: 2, 2: 4})
    assert pipeline.run("two", group_moved="adopt-group").ranges == [(0, 4), (2, 4), (0, 4)]


def test_a_group_with_live_members_is_refused_before_anything_is_written(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    before = Backup(pipeline.store).objects
    with cluster.live_member(pipeline.group, pipeline.topic):
        for execute in (False, True):
            with pytest.raises(GroupActive):
                reset(pipeline, "earliest-offset", execute=execute)
    assert Backup(pipeline.store).objects == before


def test_a_pipeline_that_moves_no_group_looks_at_none(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.parameters["commit_mode"] = "checkpoint-only"
    pipeline.run("one")
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 1): 2})
    done = reset(pipeline, "earliest-offset")
    assert "checkpoint-only" in (done.group.left_alone or "")
    assert (pipeline.at(), pipeline.held()) == ({0: 0, 1: 0, 2: 0}, {1: 2})


def test_a_log_that_is_an_older_copy_is_refused(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    copy = Backup(pipeline.store)
    produce(cluster, pipeline)
    pipeline.run("two")
    copy.restore()
    with pytest.raises(StoreBehindGroup):
        reset(pipeline, "earliest-offset")


def test_another_log_under_the_same_name_is_refused(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    cluster.recreate_topic(pipeline.topic)
    with pytest.raises(TopicRecreated, match="topic_recreated"):
        reset(pipeline, "latest-offset")


def test_another_cluster_is_refused(in_memory: Pipeline) -> None:
    in_memory.run("one")
    in_memory.cluster.cluster_id = "another"
    with pytest.raises(ClusterChanged):
        reset(in_memory, "latest-offset")


def test_another_airflow_is_refused_and_a_person_without_one_is_not(in_memory: Pipeline) -> None:
    in_memory.run("one")
    with pytest.raises(AnotherAirflow):
        reset(in_memory, "earliest-offset", me=Actor(None, "https://staging.example"))
    reset(in_memory, "earliest-offset", me=Actor(None))
    assert in_memory.newest.log.plan.by.instance == AIRFLOW
    assert in_memory.run("two").ranges == [(0, 4)] * 3


def test_a_pipeline_without_a_batch_has_no_position_to_set(in_memory: Pipeline) -> None:
    with pytest.raises(NoPosition, match="no batch in its log"):
        reset(in_memory, "latest-offset")


# ── to where it was after a batch ─────────────────────────────────────────────────────────────────────────────────────


def of_batch(pipeline: Pipeline, number: int) -> OfBatch:
    batch = pipeline.log.batch(number)
    assert batch is not None
    assert batch.log.committed is not None
    assert batch.log.committed.position is not None
    return OfBatch(f"batch {number}", batch.log.committed.position)


def test_to_a_batch_goes_on_as_the_pipeline_did_after_it(memory: AnyCluster, in_memory: Pipeline) -> None:
    """As a Flink job does from a savepoint that somebody chooses; what is read again is counted."""
    for run in ("one", "two", "three"):
        in_memory.run(run)
        produce(memory, in_memory)
    assert in_memory.at() == {0: 8, 1: 8, 2: 8}
    done = reset(in_memory, of_batch(in_memory, 1))
    assert (in_memory.at(), in_memory.held()) == ({0: 4, 1: 4, 2: 4}, {0: 4, 1: 4, 2: 4})
    assert counts(done) == [(0, 0, 4)] * 3
    assert in_memory.newest.log.plan.partitions[0].start_reason == "reset to the offsets of batch 1: because"
    assert in_memory.run("four").ranges == [(4, 10)] * 3
    assert reset(in_memory, of_batch(in_memory, 5)).batch is None, "it is there already"


def test_a_partition_that_is_new_since_the_batch_goes_on_from_its_log_start(
    memory: AnyCluster, in_memory: Pipeline
) -> None:
    """As it did after that batch: no record of it is left out."""
    in_memory.run("one")
    memory.hands.add_partitions("orders", 1)
    memory.produce("orders", 5, 3)
    memory.delete_records("orders", 2, 3)
    in_memory.run("two")
    reset(in_memory, of_batch(in_memory, 1))
    assert in_memory.at() == {0: 4, 1: 4, 2: 4, 3: 2}
    assert in_memory.run("three").ranges == [(4, 4), (4, 4), (4, 4), (2, 5)]


def test_records_that_are_gone_since_the_batch_are_begun_after(memory: AnyCluster, in_memory: Pipeline) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    in_memory.run("two")
    memory.delete_records("orders", 5)
    done = reset(in_memory, of_batch(in_memory, 1))
    assert in_memory.at() == {0: 5, 1: 4, 2: 4}
    assert counts(done) == [(0, 0, 1), (0, 0, 2), (0, 0, 2)]


def test_to_a_batch_before_a_topic_was_created_again_is_refused(memory: AnyCluster, in_memory: Pipeline) -> None:
    memory.create_topic("payments")
    memory.produce("payments", 2)
    both = {"topics": ["orders", "payments"]}
    in_memory.run("one", **both)
    memory.recreate_topic("payments")
    in_memory.run("two", **both, policies={"topic_recreated": "earliest"})
    produce(memory, in_memory)
    in_memory.run("three", **both)
    before = in_memory.newest
    with pytest.raises(ResetRefused, match=r"(?s)payments: its id is .*after batch 1 are of another log"):
        reset(in_memory, of_batch(in_memory, 1))
    assert in_memory.newest == before
    reset(in_memory, of_batch(in_memory, 1), topics=("orders",))
    assert in_memory.at() == {0: 4, 1: 4, 2: 4}


def test_to_a_batch_of_another_cluster_is_refused(memory: AnyCluster, in_memory: Pipeline) -> None:
    in_memory.run("one")
    then = of_batch(in_memory, 1)
    elsewhere = replace(then, position=replace(then.position, cluster_id="another"))
    with pytest.raises(ResetRefused, match="batch 1 was read from cluster another"):
        reset(in_memory, elsewhere)


def test_C16_no_query_begins_in_a_log_that_was_cut_below_the_position(in_memory: Pipeline) -> None:
    """Its log has grown past it again, and Spark, which knows no leader epochs, would leave out what is new."""
    kafka, tp = in_memory.cluster, TopicPartition("orders", 1)
    in_memory.run("one")
    order = ResetOrder(ShiftBy(), "", PERSON, NOW_MS)
    world = World(in_memory.log, kafka, NoAirflow())
    assert offsets_of_query(order, world) == {TopicPartition("orders", n): 4 for n in range(3)}
    kafka.truncate(tp, 2)
    kafka.produce(tp, [NOW_MS] * 4)
    with pytest.raises(DataLoss, match=r"orders\[1\]: from offset 2 on, the log is another one"):
        offsets_of_query(order, world)
    in_memory.run("two", data_loss="advance")
    assert offsets_of_query(order, world)[tp] == 6
