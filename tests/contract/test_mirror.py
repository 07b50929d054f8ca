"""The group only follows the log: whose it is, signing, and the write (docs/log.md, rule 5). Over both clusters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import (
    AnotherPipeline,
    ClusterUnavailable,
    GroupActive,
    GroupMoved,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.plan.commit_metadata import METADATA_LIMIT_BYTES, CommitMetadata
from airflow_kafka_offsets.stores.local import LocalStore
from tests.cluster.commits import Interrupted
from tests.cluster.memory import InMemoryCluster
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import AIRFLOW, CHECKPOINT, Lake, Pipeline, Run, entries
from tests.contract.troubles import Killed, Meanwhile, die, produce
from tests.engine import mirror


def somebody(cluster: AnyCluster, pipeline: Pipeline, metadata: str = "", **at: int) -> None:
    """``somebody(…, p1=2)``: a commit that is not this package's."""
    offsets = {TopicPartition(pipeline.topic, int(name[1:])): offset for name, offset in at.items()}
    cluster.commit_as_somebody(pipeline.group, offsets, metadata=metadata)


def commits(pipeline: Pipeline) -> dict[int, CommittedOffset]:
    partitions = [TopicPartition(pipeline.topic, number) for number in range(3)]
    return {tp.partition: commit for tp, commit in pipeline.cluster.committed(pipeline.group, partitions).items()}


def marks(pipeline: Pipeline) -> dict[int, CommitMetadata | None]:
    return {number: CommitMetadata.of(commit) for number, commit in commits(pipeline).items()}


def elsewhere(run: Run, cluster: Any) -> Run:
    """``run``, whose commit task has that cluster."""
    return replace(run, pipeline=replace(run.pipeline, cluster=cluster))


# ── signing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_first_plan_signs_what_the_group_holds_and_moves_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """From then on what carries no mark is somebody's."""
    somebody(cluster, pipeline, p0=2, p1=4)
    pipeline.resolve("one", startup_mode="group-offsets", auto_offset_reset="earliest")
    assert pipeline.held() == {0: 2, 1: 4}
    assert marks(pipeline) == dict.fromkeys((0, 1), CommitMetadata(CHECKPOINT, AIRFLOW, None))


def test_a_commit_carries_the_mark_of_its_batch_and_the_epoch(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.run("one")
    assert marks(pipeline) == dict.fromkeys(range(3), CommitMetadata(CHECKPOINT, AIRFLOW, run.batch_key))
    assert {commit.leader_epoch for commit in commits(pipeline).values()} == {0}


def test_names_that_are_too_long_for_a_mark_are_told_apart_all_the_same(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.pipeline_id = "ä" * 3000
    pipeline.run("one")
    assert len(commits(pipeline)[0].metadata) <= METADATA_LIMIT_BYTES
    produce(cluster, pipeline)
    assert pipeline.run("two").ranges == [(4, 6)] * 3
    with pytest.raises(AnotherPipeline):
        pipeline.resolve("one", pipeline_id="ä" * 3001)


def test_the_first_batch_takes_a_group_over_that_is_further_and_says_so(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    somebody(cluster, pipeline, p0=4, p1=4)
    run = pipeline.resolve("one", max_records_per_partition=1)
    assert [w for w in run.plan.warnings if "ahead of this plan in 2 partitions" in w and "sets it back" in w]
    run.done()
    assert pipeline.held() == {0: 1, 1: 1, 2: 1}


def test_a_resolve_task_that_died_before_it_signed_signs_at_the_retry(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """The group still equals what the plan recorded: it is nobody's reset."""
    somebody(cluster, pipeline, p0=2)
    with pytest.raises(Killed):
        replace(pipeline, cluster=Meanwhile(pipeline.cluster, "commit_offsets", die)).resolve("one")
    assert marks(pipeline) == {0: None}
    pipeline.run("two")
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}
    assert None not in marks(pipeline).values()


def test_what_was_written_between_the_plan_and_its_signature_is_somebodys(
    cluster: AnyCluster, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody(cluster, pipeline, p0=2)
    with pytest.raises(Killed):
        replace(pipeline, cluster=Meanwhile(pipeline.cluster, "commit_offsets", die)).resolve("one")
    somebody(cluster, pipeline, p0=3)
    with pytest.raises(GroupMoved, match="the group is at 3"):
        pipeline.resolve("one")


@pytest.mark.parametrize("holds", ["something", "nothing"])
@pytest.mark.also_on_a_broker
def test_live_members_are_found_before_spark_works(cluster: AnyCluster, pipeline: Pipeline, holds: str) -> None:
    if holds == "something":
        somebody(cluster, pipeline, p0=2)
    with cluster.live_member(pipeline.group, pipeline.topic), pytest.raises(GroupActive) as refused:
        pipeline.resolve("one")
    assert len(refused.value.members) == 1
    pipeline.run("one")
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


@pytest.mark.parametrize("first", ["earliest-offset", "latest-offset", "group-offsets"])
@pytest.mark.parametrize("has_committed", [False, True], ids=["it has committed nothing", "it has committed"])
def test_who_leaves_the_group_to_its_member_as_the_error_says_reads_each_record_once(
    cluster: AnyCluster, pipeline: Pipeline, first: str, has_committed: bool
) -> None:
    somebody(cluster, pipeline, p0=2, p1=2, p2=2)
    began = {"earliest-offset": 0, "latest-offset": 4, "group-offsets": 2}[first]
    member = cluster.live_member(pipeline.group, pipeline.topic)
    with member, pytest.raises(GroupActive) as refused:
        pipeline.resolve("one", startup_mode=first)
    found = re.search(r"a group_id .* pipeline_id='([^']+)'", str(refused.value))
    assert found, refused.value
    produce(cluster, pipeline)
    if has_committed:
        somebody(cluster, pipeline, p0=3)
    with cluster.live_member(pipeline.group, pipeline.topic):
        left = replace(pipeline, group=f"{pipeline.group}-own", pipeline_id=found[1])
        left.run("one", startup_mode=first)
        left.run("two", startup_mode=first)
    assert left.lake.offsets() == {number: list(range(began, 6)) for number in range(3)}
    assert left.held() == {0: 6, 1: 6, 2: 6}


def test_an_unfinished_batch_goes_over_to_another_group_after_a_driver_has_begun(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.resolve("one").job().begin().write()
    somebody(cluster, pipeline, p0=2)
    with cluster.live_member(pipeline.group, pipeline.topic):
        other = replace(pipeline, group=f"{pipeline.group}-own")
        other.run("two")
    assert other.lake.offsets() == {number: [0, 1, 2, 3] for number in range(3)}
    assert other.held() == {0: 4, 1: 4, 2: 4}


# ── own ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_has_expired_is_written_again(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Kafka forgets a group without members after a week: the log counts."""
    pipeline.run("one")
    produce(cluster, pipeline)
    cluster.hands.expire(pipeline.group)
    run = pipeline.resolve("two")
    assert run.ranges == [(4, 6)] * 3
    run.done()
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}


def test_what_expires_between_plan_and_commit_is_written_again(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    run = pipeline.resolve("two").spark()
    cluster.hands.expire(pipeline.group)
    run.commit()
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}


def test_what_equals_the_position_is_nobodys_move(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """A tool that wrote back what it had read, without the mark."""
    pipeline.run("one")
    somebody(cluster, pipeline, p0=4, p1=4, p2=4)
    produce(cluster, pipeline)
    assert pipeline.run("two").ranges == [(4, 6)] * 3
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}


# ── moved ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_group_that_was_reset_stops_the_next_run_and_each_partition_is_named(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    somebody(cluster, pipeline, p0=2, p2=0)
    with pytest.raises(GroupMoved) as refused:
        pipeline.resolve("two")
    assert refused.value.partitions == [
        f"{pipeline.topic}[{number}]: the position is 4, and the group is at {at}, by somebody else (not this provider)"
        for number, at in ((0, 2), (2, 0))
    ]
    assert "adopt-group" in str(refused.value)
    assert "keep-checkpoint" in str(refused.value)
    assert pipeline.newest.log.plan.batch.number == 1  # type: ignore[union-attr]
    assert pipeline.held() == {0: 2, 1: 4, 2: 0}


def test_adopt_group_goes_on_from_the_group_and_counts_what_it_passes_over(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    somebody(cluster, pipeline, p0=2, p1=5)
    run = pipeline.resolve("two", group_moved="adopt-group")
    assert run.ranges == [(2, 6), (5, 6), (4, 6)]
    assert [p.start_reason for p in run.plan.partitions] == ["group moved → adopted"] * 2 + ["position"]
    assert [(p.skipped, p.continuity) for p in run.plan.partitions] == [
        (0, "overlap"), (1, "gap"), (0, "contiguous"),
    ]  # fmt: skip
    run.done()
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}
    assert pipeline.resolve("three").assignment.batch is None


def test_keep_checkpoint_goes_on_from_the_position_and_may_set_the_group_back(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    somebody(cluster, pipeline, p0=6, p1=0)
    run = pipeline.resolve("two", group_moved="keep-checkpoint", max_records_per_partition=1)
    assert run.ranges == [(4, 5)] * 3
    run.done()
    assert pipeline.held() == {0: 5, 1: 5, 2: 5}
    assert pipeline.run("three").ranges == [(5, 6)] * 3, "and that is settled"
    assert pipeline.lake.offsets() == {number: list(range(6)) for number in range(3)}


def test_keep_checkpoint_sets_the_group_back_also_where_nothing_is_new(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    somebody(cluster, pipeline, p0=1)
    pipeline.run("two", group_moved="keep-checkpoint")
    assert pipeline.held() == pipeline.at() == {0: 4, 1: 4, 2: 4}


def test_a_run_whose_group_is_reset_meanwhile_commits_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    run = pipeline.resolve("two").spark()
    somebody(cluster, pipeline, p1=3)
    for dry_run in (True, False):
        with pytest.raises(GroupMoved, match="the position is 4, and the group is at 3") as refused:
            run.commit(dry_run=dry_run)
    assert "committed in the log" not in str(refused.value)
    assert "sets the group forwards: nothing is lost or read twice" in str(refused.value)
    assert "reads up to 1 records again, which are in the output twice then" in str(refused.value)
    assert entries(run.batch) == ["plan"]
    assert pipeline.held() == {0: 4, 1: 3, 2: 4}
    pipeline.run("two", group_moved="keep-checkpoint")
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}
    assert pipeline.lake.offsets() == {number: list(range(6)) for number in range(3)}


@pytest.mark.parametrize(("policy", "at"), [("keep-checkpoint", 4), ("adopt-group", 1)])
def test_a_group_that_is_reset_between_the_commit_and_the_write_is_left_and_said(
    cluster: AnyCluster, pipeline: Pipeline, policy: str, at: int
) -> None:
    run = pipeline.resolve("one").spark()

    class ResetsAfterTheCommit(Meanwhile):
        """The first look at the group is before the commit; the second is the mirror's."""

        looks = 0

        def committed(self, *asked: Any, **how: Any) -> Any:
            self.looks += 1
            if self.looks == 2:
                somebody(cluster, pipeline, p0=1)
            return self.cluster.committed(*asked, **how)

    with pytest.raises(GroupMoved, match="The batch is committed in the log; only the group was left as it is"):
        elsewhere(run, ResetsAfterTheCommit(pipeline.cluster, "", None)).commit()
    assert entries(run.batch) == ["plan", "commit"]
    assert pipeline.held() == {0: 1}
    with pytest.raises(GroupMoved, match="committed in the log"):
        run.commit()
    with pytest.raises(GroupMoved):
        pipeline.resolve("two")
    assert pipeline.run("two", group_moved=policy).ranges[0] == (at, 4)
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


HOSTILE = [
    "[" * 4000,
    '{"plan": "0123456789abcdef", "run": "billing/run-1/resolve"}',
    json.dumps({"by": "airflow-kafka-offsets", "pipeline": CHECKPOINT, "instance": AIRFLOW, "batch": 7}),
    json.dumps({"by": "airflow-kafka-offsets", "pipeline": CHECKPOINT, "instance": AIRFLOW, "batch": "7"}),
    json.dumps({"by": "another-tool", "pipeline": CHECKPOINT, "instance": AIRFLOW, "batch": None}),
    json.dumps([{"by": "airflow-kafka-offsets"}]),
    "\u2028",
]


@pytest.mark.parametrize("metadata", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.also_on_a_broker
def test_metadata_that_is_not_exactly_a_mark_is_somebodys(
    cluster: AnyCluster, pipeline: Pipeline, metadata: str
) -> None:
    """It stops no plan of the group, and is never taken for this package's."""
    somebody(cluster, pipeline, metadata, p0=2)
    assert pipeline.run("one").ranges == [(0, 4)] * 3
    somebody(cluster, pipeline, metadata, p0=2)
    with pytest.raises(GroupMoved, match="by somebody else"):
        pipeline.resolve("two")


# ── checkpoint-only ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_checkpoint_only_neither_looks_nor_signs(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.parameters["commit_mode"] = "checkpoint-only"
    somebody(cluster, pipeline, p0=2)
    with cluster.live_member(pipeline.group, pipeline.topic):
        for number in range(1, 4):
            run = pipeline.run(f"run-{number}")
            assert run.number == number
            assert "checkpoint-only" in (run.commit().group.left_alone or "")
            produce(cluster, pipeline)
    assert marks(pipeline) == {0: None}
    assert pipeline.held() == {0: 2}
    somebody(cluster, pipeline, p0=1)
    pipeline.run("last")
    assert pipeline.held() == {0: 1}
    assert pipeline.lake.offsets() == {number: list(range(10)) for number in range(3)}


def test_checkpoint_only_may_start_where_a_group_is_and_does_not_follow_it(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """An audit beside a pipeline: the group, its marks and its moves are the other one's."""
    pipeline.run("one", max_records_per_partition=1)
    audit = replace(pipeline, pipeline_id="audit", lake=Lake())
    audit.parameters = {"startup_mode": "group-offsets", "commit_mode": "checkpoint-only"}
    assert audit.run("audit-1").ranges == [(1, 4)] * 3
    produce(cluster, pipeline)
    somebody(cluster, pipeline, p0=0)
    assert audit.run("audit-2").ranges == [(4, 6)] * 3
    assert marks(pipeline)[1] == CommitMetadata(CHECKPOINT, AIRFLOW, pipeline.newest.log.plan.batch.key)  # type: ignore[union-attr]


# ── the write ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_group_is_never_ahead_of_the_log(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """At the moment of the write the position is there already."""
    found = []

    def look() -> None:
        found.append((pipeline.at(), pipeline.held(stable=False)))  # not what is pending: what others see

    run = pipeline.resolve("one").spark()
    elsewhere(run, Interrupted(pipeline.cluster, before_commit=look)).commit()
    assert found == [({0: 4, 1: 4, 2: 4}, {})]
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
def test_a_position_that_moves_on_meanwhile_is_what_the_group_ends_with(
    cluster: AnyCluster, pipeline: Pipeline, moment: str
) -> None:
    """A mirror that paused before its write sets the group back, sees so, and writes once more."""
    run = pipeline.resolve("one").spark()
    happened: list[str] = []

    def go_on() -> None:
        if not happened:
            happened.append("once")
            produce(cluster, pipeline)
            pipeline.run("two")

    outcome = elsewhere(run, Interrupted(pipeline.cluster, **{moment: go_on})).commit()
    assert happened
    assert {after for _, after in outcome.written.values()} == {6}
    assert pipeline.held() == pipeline.at() == {0: 6, 1: 6, 2: 6}


def test_a_mirror_that_is_overtaken_again_and_again_leaves_it_to_the_faster_ones(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    run = in_memory.resolve("one").spark()

    def go_on() -> None:
        produce(memory, in_memory, 1)
        in_memory.run(f"run-{in_memory.at()}")

    outcome = elsewhere(run, Interrupted(in_memory.cluster, after_commit=go_on)).commit()
    assert outcome.written == {}
    assert "were faster" in (outcome.group.left_alone or "")
    assert in_memory.held() == in_memory.at()


def test_a_cleared_old_run_does_not_set_the_group_back(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("old")
    produce(cluster, pipeline)
    pipeline.run("new")
    cluster.hands.expire(pipeline.group)
    pipeline.run("old")
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}


@pytest.mark.also_on_a_broker
def test_under_live_members_the_log_has_the_commit_and_the_group_follows_later(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    run = pipeline.resolve("one").spark()
    with cluster.live_member(pipeline.group, pipeline.topic):
        outcome = run.commit()
    assert outcome.by_this
    assert outcome.group.is_behind
    assert "live members" in str(outcome.group.left_alone)
    assert entries(run.batch) == ["plan", "commit"]
    assert pipeline.held() == {}
    assert not run.commit().by_this
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


@dataclass
class FirstOnly:
    """A cluster whose commits arrive for one partition, and then fail: a commit is not atomic."""

    cluster: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.cluster.commit_offsets(group_id, {tp: offsets[tp] for tp in sorted(offsets)[:1]})
        raise ClusterUnavailable("Cannot commit", "the broker is gone", "Retry.", retriable=True)


@pytest.mark.parametrize("then", ["the retry", "the next run"])
@pytest.mark.also_on_a_broker
def test_a_commit_that_arrived_in_part_is_completed(cluster: AnyCluster, pipeline: Pipeline, then: str) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    run = pipeline.resolve("two").spark()
    with pytest.raises(ClusterUnavailable):
        elsewhere(run, FirstOnly(pipeline.cluster)).commit()
    assert pipeline.held() == {0: 6, 1: 4, 2: 4}
    if then == "the retry":
        run.commit()
    else:
        pipeline.run("three")
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}


# ── topics that go ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["deleted", "made anew"])
@pytest.mark.also_on_a_broker
def test_a_topic_that_goes_after_it_was_read_is_committed_in_the_log_and_left_out_of_the_group(
    cluster: AnyCluster, pipeline: Pipeline, what: str
) -> None:
    other = f"{pipeline.topic}-other"
    cluster.create_topic(other)
    cluster.produce(other, 3)
    run = pipeline.resolve("one", topics=[pipeline.topic, other]).spark()
    if what == "deleted":
        cluster.hands.delete_topic(other)
    else:
        cluster.recreate_topic(other)
        cluster.produce(other, 9)
    outcome = run.commit()
    assert {tp.topic for tp in outcome.written} == {pipeline.topic}
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}
    assert pipeline.position.offsets[TopicPartition(other, 0)].offset == 3
    if what == "made anew":
        assert cluster.reader.committed(pipeline.group, [TopicPartition(other, 0)]) == {}


def test_a_partition_that_is_not_there_any_more_is_left_out_of_the_group(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    """On a cluster that gives topics no ids: one was made anew, with fewer partitions."""
    assert isinstance(memory.reader, InMemoryCluster)
    memory.reader.topics["orders"].topic_id = None  # type: ignore[assignment]
    run = in_memory.resolve("one").spark()
    memory.hands.recreate_topic("orders", 2)
    memory.reader.topics["orders"].topic_id = None  # type: ignore[assignment]
    assert {tp.partition for tp in run.commit().written} == {0, 1}


def test_where_all_topics_are_gone_the_log_has_the_commit(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.resolve("one").spark()
    cluster.hands.delete_topic(pipeline.topic)
    assert run.commit().written == {}
    assert entries(run.batch) == ["plan", "commit"]


def test_another_cluster_is_not_mirrored_to(
    in_memory: Pipeline, memory: AnyCluster, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = in_memory.resolve("one").spark()
    monkeypatch.setattr(in_memory.cluster, "cluster_id", "another")
    with pytest.raises(ClusterUnavailable, match="was read from cluster memory, and this connection leads to another"):
        run.commit()
    assert in_memory.cluster.committed(in_memory.group, [TopicPartition("orders", 0)]) == {}


def test_a_batch_that_is_finished_while_another_cluster_answers_signs_nothing_there(
    in_memory: Pipeline, memory: AnyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is written and verified, so that it needs no records; the group there is somebody's."""
    in_memory.run("one")
    produce(memory, in_memory)
    in_memory.resolve("two").spark()
    monkeypatch.setattr(in_memory.cluster, "cluster_id", "another")
    somebody(memory, in_memory, p0=3)
    assert in_memory.resolve("two").splits == ()
    assert marks(in_memory)[0] is None


def test_after_a_change_of_cluster_what_somebody_wrote_to_the_group_is_not_signed(
    in_memory: Pipeline, memory: AnyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position is still the old cluster's; the plan that took the new one up is of this one."""
    in_memory.run("one")
    monkeypatch.setattr(in_memory.cluster, "cluster_id", "another")
    in_memory.resolve("two", cluster_changed="earliest")
    somebody(memory, in_memory, p0=3)
    with pytest.raises(GroupMoved, match="the group is at 3"):
        in_memory.resolve("three")


def test_a_pipeline_without_a_position_mirrors_nothing(in_memory: Pipeline) -> None:
    in_memory.resolve("one")
    found = mirror(in_memory.log, in_memory.cluster, in_memory.actor("one"))
    assert (found.written, found.left_alone) == ({}, "the pipeline has no position yet")


@pytest.mark.also_on_a_broker
def test_a_group_whose_name_is_not_ascii_is_committed_to(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.group = f"{pipeline.group}-grüße-日本"
    pipeline.run("one")
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}
