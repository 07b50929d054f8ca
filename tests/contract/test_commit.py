"""The commit: verified, and the next object of the batch's log (docs/log.md, rule 4). Over both clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, PlanReplaced, ReadNotVerified, StoreUnavailable
from airflow_kafka_offsets.kafka_values import Actor, TopicPartition
from airflow_kafka_offsets.log.entries import Committed
from airflow_kafka_offsets.log.ordinary_batch import ordinary_batches
from airflow_kafka_offsets.log.read_reports import begin_attempt
from airflow_kafka_offsets.stores.local import LocalStore
from tests.cluster.commits import Interrupted
from tests.cluster.memory import InMemoryCluster
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Pipeline, Row, Run, entries
from tests.contract.troubles import EventfulStore, Killed, die, produce
from tests.engine import PlanReference, commit_batch
from tests.stores.builders import as_it_is_now

ALL_FOUR = {number: [0, 1, 2, 3] for number in range(3)}

# ── verified ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def doubled(*drop_and_double: tuple[int, int]) -> Callable[[list[Row]], list[Row]]:
    """A join that loses some records of partition 0 and has others twice: the count is right, and so are the ends."""

    def join(rows: list[Row]) -> list[Row]:
        other = dict(drop_and_double)
        return [(tp, other.get(offset, offset) if tp.partition == 0 else offset) for tp, offset in rows]

    return join


def shifted(rows: list[Row]) -> list[Row]:
    return [(tp, offset + 1) for tp, offset in rows]


def of_another_topic(rows: list[Row]) -> list[Row]:
    return [*rows, (TopicPartition("another", 0), 0)]


WRONG: list[Any] = [
    pytest.param(lambda rows: [], r"\[0\] \[0, 8\): short: 0 of 8 records", id="nothing"),
    pytest.param(lambda rows: rows[:-1], r"\[2\] \[0, 8\): short: 7 of 8 offsets", id="one missing"),
    pytest.param(lambda rows: [*rows, rows[0]], r"\[0\] \[0, 8\): twice: 9 rows for 8 different", id="one twice"),
    pytest.param(doubled((1, 2)), r"\[0\] \[0, 8\): twice: 8 rows for 7 different", id="one lost and one twice"),
    pytest.param(
        doubled((1, 2), (5, 3), (6, 7)),
        r"\[0\] \[0, 8\): twice: 8 rows for 5 different",
        id="with the right sums of offsets and of their squares",
    ),
    pytest.param(shifted, r"\[0\] \[0, 8\): beyond: offsets 1 to 8", id="others"),
    pytest.param(of_another_topic, "another.0.: 1 rows are reported, and it is not in this split", id="too much"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_what_is_not_exactly_the_batch_is_not_committed(
    in_memory: Pipeline, memory: AnyCluster, wrong: Callable[[list[Row]], list[Row]], words: str
) -> None:
    produce(memory, in_memory, 4)
    run = in_memory.resolve("one")
    job = run.job().begin()
    job.write(wrong(job.read())).report()
    with pytest.raises(ReadNotVerified, match=words):
        run.commit()
    assert entries(run.batch) == ["plan"]
    assert in_memory.held() == {}


def test_the_sums_of_that_join_are_those_of_all_records() -> None:
    """So that the case above is the one that sums cannot tell."""
    tp = TopicPartition("orders", 0)
    rows = doubled((1, 2), (5, 3), (6, 7))([(tp, offset) for offset in range(8)])
    for power in (0, 1, 2):
        assert sum(offset**power for _, offset in rows) == sum(offset**power for offset in range(8))


def test_each_split_has_to_be_read(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.resolve("one", splits=3)
    run.spark([0, 2])
    with pytest.raises(ReadNotVerified, match="split 1: no Spark job has begun to read it") as refused:
        run.commit()
    assert len(refused.value.partitions) == 1
    assert "Clear the run from its Spark task on" in str(refused.value)
    assert entries(run.batch) == ["plan"]
    assert pipeline.held() == {}
    run.spark([1])
    assert run.commit().by_this
    assert entries(run.batch) == ["plan", "commit"]
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


def test_what_was_begun_once_more_has_to_be_finished_once_more(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one").spark()
    job = run.job().begin()
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported; its output may be half written"):
        run.commit()
    job.write().report()
    assert run.commit().by_this


def test_two_jobs_that_began_at_the_same_moment_verify_nothing(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one")
    job = run.job().begin().write().report()
    begin_attempt(in_memory.store, run.batch.folder, 0, 1, "rival", {"plan_id": run.plan.plan_id})
    with pytest.raises(ReadNotVerified, match="2 Spark jobs wrote to it at the same time"):
        run.commit()
    assert job.attempt is not None
    run.spark()
    assert run.commit().by_this


def test_a_report_of_another_output_is_none_of_this_one(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one", output_name="lake/orders")
    run.job().begin().write().report(output="lake/elsewhere")
    with pytest.raises(ReadNotVerified, match="written to lake/elsewhere, and the batch's output is lake/orders"):
        run.commit()


def test_without_reports_the_plan_is_compared_all_the_same(in_memory: Pipeline, memory: AnyCluster) -> None:
    old = in_memory.resolve("one")
    produce(memory, in_memory)
    new = in_memory.resolve("one", re_plan=True)
    with pytest.raises(PlanReplaced):
        old.commit(require_report=False)
    assert entries(new.batch) == ["plan"]
    assert new.commit(require_report=False).by_this


def test_without_reports_a_task_that_has_not_succeeded_vouches_for_nothing(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """Where there was something to read, and no report of it is there all the same, or the batch is on record."""
    skipped: Any = {"require_report": False, "not_done": ("spark_0: skipped",)}
    run = pipeline.resolve("one")
    with pytest.raises(ReadNotVerified, match="task spark_0: skipped"):
        run.commit(**skipped)
    assert entries(run.batch) == ["plan"]
    assert pipeline.held() == {}
    run.spark()
    assert run.commit(**skipped).by_this, "each split is verified, so that none was started"
    assert run.commit(**skipped).batch is not None
    cluster.delete_records(pipeline.topic, pipeline.at()[0])
    nothing = pipeline.resolve("two", restart="again", startup_mode="latest-offset")
    assert nothing.splits == ()
    assert nothing.commit(**skipped).by_this


def test_without_reports_only_the_run_that_has_the_batch_commits_it(in_memory: Pipeline) -> None:
    """Another run has taken it, and its job is overwriting the rows: that one's commit says that they are whole."""
    one = in_memory.resolve("one")
    one.job().write()
    two = in_memory.resolve("two")
    two.job().write(one.job().read()[:1])
    with pytest.raises(ReadNotVerified, match="run dag/two/resolve has taken batch 1 since"):
        one.commit(require_report=False)
    in_memory.resolve("two").job().write()
    assert two.commit(require_report=False).by_this
    assert one.commit(require_report=False).batch is not None
    produced = in_memory.lake.offsets()
    assert produced == {number: [0, 1, 2, 3] for number in range(3)}


# ── read from the log that was planned ────────────────────────────────────────────────────────────────────────────────


def hour(number: int) -> dict[str, Any]:
    start_ms, end_ms = NOW_MS + number * 3_600_000, NOW_MS + (number + 1) * 3_600_000
    start = {"startup_mode": "timestamp", "startup_timestamp": start_ms}
    return {**start, "bounded_mode": "timestamp", "bounded_timestamp": end_ms}


@pytest.mark.parametrize("kind", ["batches", "windows"])
def test_K18_what_spark_read_of_a_log_that_was_cut_after_the_plan_is_not_committed(
    in_memory: Pipeline, kind: str
) -> None:
    """The log has grown past the plan again. A commit would leave what Spark has read to the next batch, too."""
    cluster, tp = in_memory.cluster, TopicPartition(in_memory.topic, 0)
    assert isinstance(cluster, InMemoryCluster)
    one, two = ({}, {}) if kind == "batches" else (hour(0), hour(1))
    in_memory.run_type = "manual" if kind == "windows" else "scheduled"
    cluster.delete_records(tp, 4)
    cluster.produce(tp, [NOW_MS] * 6 + [NOW_MS + 3_600_000])
    run = in_memory.resolve("one", **one)
    cluster.truncate(tp, 6)
    cluster.produce(tp, [NOW_MS + 3_600_000] * 6)
    run.spark()
    for how in ({}, {"require_report": False}):
        with pytest.raises(DataLoss, match=r"orders\[0\]: from offset 6 on, the log is another one") as refused:
            run.commit(**how)
    assert "nothing is committed. Clear the run" in str(refused.value)
    assert entries(run.batch) == ["plan"]
    in_memory.run("one", data_loss="advance", **one)
    in_memory.run("two", **two)
    assert in_memory.lake.offsets()[0] == list(range(4, 12))


def test_K18_what_spark_read_before_a_log_was_cut_is_committed_and_the_next_batch_begins_at_the_cut(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    """It ends below what was read: so that was the log of the plan."""
    cluster, tp = in_memory.cluster, TopicPartition(in_memory.topic, 0)
    assert isinstance(cluster, InMemoryCluster)
    produce(memory, in_memory)
    run = in_memory.resolve("one").spark()
    cluster.truncate(tp, 2)
    assert run.commit().by_this
    cluster.produce(tp, [NOW_MS] * 5)
    assert in_memory.run("two", data_loss="advance").ranges[0] == (2, 7)


@pytest.mark.parametrize("how", [{}, {"require_report": False}], ids=["reports", "no reports"])
@pytest.mark.parametrize("kind", ["batches", "windows"])
def test_K18_a_batch_that_is_done_again_with_records_of_another_log_is_a_failed_run(
    in_memory: Pipeline, kind: str, how: dict[str, Any]
) -> None:
    """Its commit stands, so its rows and the next batch's would have these records twice."""
    cluster, tp = in_memory.cluster, TopicPartition(in_memory.topic, 0)
    assert isinstance(cluster, InMemoryCluster)
    one = {} if kind == "batches" else hour(0)
    in_memory.run_type = "manual" if kind == "windows" else "scheduled"

    def spark(run: Run) -> Run:
        for split in run.splits:
            job = run.job(split).begin() if how == {} else run.job(split)
            job.write()
            if how == {}:
                job.report()
        return run

    spark(in_memory.resolve("one", **one)).commit(**how)
    again = in_memory.resolve("one", **one)
    cluster.truncate(tp, 2)
    cluster.produce(tp, [NOW_MS] * 5)
    with pytest.raises(DataLoss, match=r"orders\[0\]: from offset 2 on, the log is another one") as refused:
        spark(again).commit(**how)
    if kind == "windows":
        assert '"re_plan"' in str(refused.value)
        spark(in_memory.resolve("one", re_plan=True, data_loss="advance", **one)).commit(**how)
    else:
        assert f"kafka_batch = '{again.batch_key}'" in str(refused.value)
        in_memory.lake.rows[again.batch_key, 0].remove((tp, 2))
        in_memory.lake.rows[again.batch_key, 0].remove((tp, 3))
        left = in_memory.resolve("one")
        assert left.splits == ()
        left.commit(**how)
        spark(in_memory.resolve("two", data_loss="advance")).commit(**how)
    assert in_memory.lake.offsets()[0] == [0, 1, 2, 3, 4, 5, 6]


def test_without_reports_what_was_read_of_a_topic_that_was_made_anew_is_not_committed(in_memory: Pipeline) -> None:
    """With reports, each driver has looked itself. A topic that is deleted alone was read while it was there."""
    cluster = in_memory.cluster
    assert isinstance(cluster, InMemoryCluster)
    run = in_memory.resolve("one")
    cluster.recreate_topic("orders")
    cluster.produce(TopicPartition("orders", 0), [NOW_MS] * 4)
    run.job().write()
    with pytest.raises(DataLoss, match="orders: its id is "):
        run.commit(require_report=False)
    again = in_memory.resolve("one", topic_recreated="earliest")
    again.job().write()
    assert again.commit(require_report=False).by_this
    cluster.produce(TopicPartition("orders", 0), [NOW_MS])
    in_memory.run("two", topic_recreated="earliest")
    assert in_memory.lake.offsets() == {0: [0, 1, 2, 3, 4]}
    last = in_memory.resolve("three", restart="again", topic_recreated="earliest")
    last.job().write()
    cluster.delete_topic("orders")
    assert last.commit(require_report=False).by_this


def test_what_a_driver_has_read_that_sees_no_topic_ids_is_not_committed_where_the_topic_was_made_anew(
    in_memory: Pipeline,
) -> None:
    """As over Spark Connect: its report counts the offsets, and cannot say of which topic."""
    cluster, tp = in_memory.cluster, TopicPartition("orders", 0)
    assert isinstance(cluster, InMemoryCluster)
    run = in_memory.resolve("one")
    cluster.recreate_topic("orders")
    cluster.produce(tp, [NOW_MS] * 4)
    run.job().begin().write().report(looked=False)
    with pytest.raises(DataLoss, match="orders: its id is "):
        run.commit()
    again = in_memory.resolve("one", topic_recreated="earliest")
    assert again.ranges == [(0, 4), (0, 0), (0, 0)]
    again.job().begin().write().report(looked=False)
    again.commit()
    cluster.produce(tp, [NOW_MS])
    in_memory.run("two")
    assert in_memory.lake.offsets() == {0: [0, 1, 2, 3, 4]}


# ── what the commit is ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_a_commit_holds_the_whole_position(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Also of partitions that the batch did not have; topic ids, epochs, the startup request, the cluster."""
    first = pipeline.run("one")
    cluster.produce(pipeline.topic, 2, partition=1)
    second = pipeline.run("two", topics=None, partitions={pipeline.topic: [1]})
    committed = as_it_is_now(second.batch).log.committed
    assert committed is not None
    by = Actor(second.key, pipeline.airflow.instance)
    plain = Committed(by, pipeline.now_ms, second.plan.plan_id, position=committed.position)
    assert replace(committed, summary=None, reads=None) == plain
    position = pipeline.position
    assert committed.position == position
    assert pipeline.at() == {0: 4, 1: 6, 2: 4}
    assert {kept.leader_epoch for kept in position.offsets.values()} == {0}
    assert position.topic_ids == first.plan.found.topic_ids
    assert (position.cluster_id, position.startup) == (first.plan.found.cluster_id, "earliest-offset")


def test_an_audit_needs_no_more_than_the_commits_that_runs_have_made(cluster: AnyCluster, pipeline: Pipeline) -> None:
    folders = {}
    for number in range(3):
        run = pipeline.run(str(number))
        assert run.batch is not None
        folders[run.batch.folder] = pipeline.store.list(run.batch.folder)
        cluster.produce(pipeline.topic, 2, partition=number)
    assert list(ordinary_batches(pipeline.store, folders)) == list(folders)[1:]


def test_a_commit_is_repeated_without_harm(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.resolve("one").spark()
    assert run.commit().by_this
    assert not run.commit().by_this
    assert entries(run.batch) == ["plan", "commit"]
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


def test_a_commit_that_comes_late_finds_that_it_was_made(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Of a run that was taken for dead: the next one has done its batch and another."""
    late = pipeline.resolve("late").spark()
    pipeline.run("next")
    produce(cluster, pipeline)
    pipeline.run("third")
    outcome = late.commit()
    assert not outcome.by_this
    assert pipeline.held() == pipeline.at() == {0: 6, 1: 6, 2: 6}


def test_a_commit_of_what_somebody_else_has_read_is_right_whoever_makes_it(in_memory: Pipeline) -> None:
    late = in_memory.resolve("late")
    in_memory.resolve("next").spark()
    assert late.commit().by_this
    assert in_memory.resolve("next").sentence == "leaves batch 1 as it is: it was done by run dag/late/resolve"


def test_a_replaced_plan_is_not_committed_and_the_way_on_is_named(cluster: AnyCluster, pipeline: Pipeline) -> None:
    old = pipeline.resolve("one").spark()
    produce(cluster, pipeline)
    new = pipeline.resolve("one", re_plan=True)
    with pytest.raises(PlanReplaced, match="Clear the run's resolve task") as refused:
        old.commit()
    assert (refused.value.plan_id, refused.value.by) == (old.plan.plan_id, new.plan.plan_id)
    assert pipeline.held() == {}
    new.done()
    assert pipeline.lake.offsets() == {number: list(range(6)) for number in range(3)}


def with_store(run: Run, store: Any) -> Run:
    """``run``, whose commit task has that store."""
    return replace(run, pipeline=replace(run.pipeline, store=store), assignment=replace(
        run.assignment, batch=replace(run.batch, store=store)))  # fmt: skip


def test_a_plan_that_is_replaced_while_it_is_committed_is_not(in_memory: Pipeline, memory: AnyCluster) -> None:
    """Between the look at the reads and the creation of the commit."""
    run = in_memory.resolve("one").spark()
    produce(memory, in_memory)
    store = EventfulStore(in_memory.store, "/2.json", lambda: in_memory.resolve("one", re_plan=True))
    with pytest.raises(PlanReplaced):
        with_store(run, store).commit()
    assert in_memory.newest.log.committed is None
    assert in_memory.held() == {}


def test_a_batch_that_is_taken_while_it_is_committed_is_committed_after_that(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one").spark()
    store = EventfulStore(in_memory.store, "/2.json", lambda: in_memory.resolve("two"))
    assert with_store(run, store).commit().by_this
    assert entries(run.batch) == ["plan", "taken", "commit"]


def test_a_batch_that_is_begun_anew_while_it_is_committed_is_not(in_memory: Pipeline) -> None:
    """Who took it has a driver that writes."""
    run = in_memory.resolve("one").spark()
    store = EventfulStore(in_memory.store, "/2.json", lambda: in_memory.resolve("two").job().begin())
    with pytest.raises(ReadNotVerified, match="attempt 2 began"):
        with_store(run, store).commit()
    assert entries(run.batch) == ["plan", "taken"]


def test_of_two_commits_of_one_plan_one_is_made_and_both_are_done(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one").spark()
    later = replace(run, pipeline=replace(run.pipeline, now_ms=run.pipeline.now_ms + 1))
    store = EventfulStore(in_memory.store, "/2.json", later.commit)
    assert not with_store(run, store).commit().by_this
    assert entries(run.batch) == ["plan", "commit"]


def test_a_dry_run_shows_what_would_be_written_and_writes_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    run = pipeline.resolve("two")
    with pytest.raises(ReadNotVerified):
        run.commit(dry_run=True)
    run.spark()
    outcome = run.commit(dry_run=True)
    assert outcome.by_this, "it would be"
    assert entries(run.batch) == ["plan"]
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}
    assert run.commit().written == outcome.written
    assert set(outcome.written.values()) == {(4, 6)}
    cluster.hands.expire(pipeline.group)
    assert set(run.commit(dry_run=True).written.values()) == {(None, 6)}
    assert pipeline.held() == {}


# ── done again ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_that_is_done_again_is_verified_by_newer_attempts_only(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one", splits=3)
    again = pipeline.resolve("one")
    again.spark([0, 2])
    with pytest.raises(ReadNotVerified, match="split 1: it was not done again; attempt 1 is of before") as refused:
        again.commit()
    assert len(refused.value.partitions) == 1
    again.spark([1])
    assert not again.commit().by_this
    assert not again.commit().by_this, "and that holds for the retry"
    assert pipeline.lake.offsets() == ALL_FOUR


def test_until_it_is_begun_again_what_is_verified_stays_so_for_others(in_memory: Pipeline) -> None:
    """Of the batch that another run has committed, and is about to write once more."""
    failed = in_memory.resolve("failed")
    in_memory.run("next")
    again = in_memory.resolve("next")
    assert not in_memory.resolve("failed").commit().by_this
    again.job().begin()
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported"):
        failed.commit()


def test_a_batch_that_was_done_again_by_half_is_not_whole_for_anybody(in_memory: Pipeline) -> None:
    """The run's output and key are named, and what to clear."""
    run = in_memory.run("one", output_name="lake/orders")
    again = in_memory.resolve("one", output_name="lake/orders")
    job = again.job().begin()
    job.write(job.read()[:5])
    with pytest.raises(ReadNotVerified) as refused:
        again.commit()
    assert f"Output lake/orders may not be whole for key {run.batch_key}" in str(refused.value)
    assert "Clear the run from its Spark task on" in str(refused.value)


# ── crashes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_commit_that_dies_before_its_creation_is_none(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.resolve("one").spark()
    with pytest.raises(Killed):
        with_store(run, EventfulStore(pipeline.store, "/2.json", die)).commit()
    produce(cluster, pipeline)
    assert pipeline.run("two").number == 1
    assert pipeline.lake.offsets() == ALL_FOUR
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


@pytest.mark.parametrize("then", ["the retry", "the next run", "the next run, where nothing is new"])
def test_a_commit_that_dies_before_the_group_is_written_is_one(
    cluster: AnyCluster, pipeline: Pipeline, then: str
) -> None:
    run = pipeline.resolve("one").spark()
    with pytest.raises(Killed):
        with_store(run, EventfulStore(pipeline.store, "/2.json", die, after=True)).commit()
    assert pipeline.held() == {}
    if then == "the next run":
        produce(cluster, pipeline)
    if then == "the retry":
        assert not run.commit().by_this
    else:
        pipeline.run("two")
    assert pipeline.held() == pipeline.at()
    assert pipeline.lake.offsets() == {n: list(range(pipeline.at()[n])) for n in range(3)}


def test_a_work_store_that_fails_between_the_commit_and_the_group_is_said_and_the_retry_ends_it(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    run = pipeline.resolve("one").spark()
    store = pipeline.store
    assert isinstance(store, LocalStore)
    aside = store.root.with_name("aside")

    def break_store() -> None:
        store.root.rename(aside)
        store.root.write_text("a file where a folder belongs")

    with pytest.raises(StoreUnavailable):
        with_store(run, EventfulStore(store, "/2.json", break_store, after=True)).commit()
    store.root.unlink()
    aside.rename(store.root)
    assert pipeline.held() == {}
    assert not run.commit().by_this
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}


def test_a_commit_that_dies_after_the_group_was_written_is_one(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.resolve("one").spark()
    dying = replace(pipeline, cluster=Interrupted(pipeline.cluster, after_commit=die))
    with pytest.raises(Killed):
        replace(run, pipeline=dying).commit()
    produce(cluster, pipeline)
    assert pipeline.run("two").ranges == [(4, 6)] * 3
    assert pipeline.lake.offsets() == {number: list(range(6)) for number in range(3)}


def test_a_commit_task_that_sees_another_store_says_so(in_memory: Pipeline, tmp_path: Path) -> None:
    """Another machine's folder of the same name: the batch was not cleaned away there, it was never there."""
    run = in_memory.resolve("one").spark()
    run.pipeline = replace(in_memory, store=LocalStore(tmp_path / "of another machine"))
    with pytest.raises(
        StoreUnavailable, match=r"knows nothing of run dag/one.*\n?.*must see the work store that the resolve"
    ):
        run.commit()
    run.pipeline = in_memory
    assert run.commit().by_this


def test_what_a_person_without_airflow_commits_is_signed_as_the_plans_airflow(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one").spark()
    handed = PlanReference(run.batch.name, run.plan.plan_id)
    commit_batch(handed, in_memory.log, in_memory.cluster, Actor(None), now_ms=in_memory.now_ms)
    assert in_memory.run("two").number is None, "it is no other Airflow's, and there is nothing new"
