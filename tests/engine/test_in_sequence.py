"""Runs of a pipeline in sequence: what each reads, whatever is retried, cleared, killed or run twice."""

import pytest

from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.work import NoBatch
from airflow_kafka_offsets.errors import (
    DataLoss,
    GroupActive,
    GroupMoved,
    NothingToDiscover,
    OverlappingRun,
    PlanReplaced,
    ReadNotVerified,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.log.reports import Counts
from airflow_kafka_offsets.offsets import GroupOffsets
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, committed, conf_of, produce, ranges_of, tp, whole_counts


def test_each_run_reads_what_is_new_and_the_group_follows(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    assert ranges_of(pipeline.whole_run()) == {0: (0, 10), 1: (0, 0), 2: (0, 0)}
    produce(cluster, 2, 4)
    assert ranges_of(pipeline.whole_run()) == {0: (10, 10), 1: (0, 0), 2: (0, 4)}
    assert committed(cluster) == {0: 10, 1: 0, 2: 4}


def test_with_nothing_new_no_batch_is_planned_and_the_group_is_renewed(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    pipeline.whole_run()
    cluster.expire("lake")
    assert isinstance(pipeline.resolve(), NoBatch)
    assert committed(cluster) == {0: 0, 1: 0, 2: 0}
    assert pipeline.log.newest().number == 1


def test_a_first_run_without_records_records_its_starts(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """`latest` is decided once: what comes after the first run is not skipped."""
    assert isinstance(pipeline.resolve(start="latest"), NoBatch)
    produce(cluster, 1, 5)
    assert ranges_of(pipeline.whole_run(start="latest"))[1] == (0, 5)


def test_a_retry_has_the_same_plan(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    first = pipeline.work("a")
    produce(cluster, 0, 10)
    again = pipeline.work("a")
    assert (again.key, again.body) == (first.key, first.body)


def test_a_batch_that_was_not_committed_is_done_by_the_next_run_under_its_key(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    first = pipeline.work("a")
    pipeline.drive(first)
    produce(cluster, 0, 5)
    second = pipeline.whole_run("b")
    assert (second.key, ranges_of(second)) == (first.key, ranges_of(first))
    assert ranges_of(pipeline.whole_run("c"))[0] == (10, 15)


def test_a_run_that_is_running_keeps_its_batch(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.work("a")
    pipeline.airflow.running = {"a"}
    with pytest.raises(OverlappingRun, match="a"):
        pipeline.resolve("b")
    assert OverlappingRun.retriable


def test_a_run_whose_batch_another_run_took_over_and_committed_leaves_it(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    late = pipeline.work("a")
    pipeline.whole_run("b")
    assert isinstance(pipeline.resolve("a"), NoBatch)
    pipeline.commit(late)  # its own commit finds the same plan committed
    assert len(pipeline.log.newest().commits) == 1


def test_a_cleared_run_writes_the_batch_that_it_committed_again(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    first = pipeline.whole_run("a")
    produce(cluster, 0, 5)
    again = pipeline.work("a")
    assert (again.key, ranges_of(again), again.starts_job) == (first.key, ranges_of(first), True)
    with pytest.raises(ReadNotVerified, match="attempt 1 has written another plan"):
        pipeline.commit(again)
    pipeline.drive(again)
    pipeline.commit(again)
    assert ranges_of(pipeline.whole_run("b"))[0] == (10, 15)


def test_a_rewrite_that_may_have_read_another_topic_stays_red_and_says_what_to_restore(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 5)
    pipeline.whole_run("a")
    work = pipeline.work("a")
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 5)
    pipeline.drive(work)
    restore = f"kafka_batch = '{work.key}'.* may be other records: restore them from version 7 of delta:/lake/orders"
    with pytest.raises(DataLoss, match=restore):
        pipeline.commit(work)
    with pytest.raises(DataLoss, match=restore):
        pipeline.work("a")


def test_a_committed_batch_whose_records_are_gone_is_left_as_it_is(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run("a")
    cluster.delete_records(tp(0), 10)
    left = pipeline.work("a")  # a job looks whether its rows are still in the output
    assert (left.is_left, "--nothing-to-do" in left.arguments("host:9092")) == (True, True)
    assert len(pipeline.log.newest().entries) == 2
    pipeline.commit(left)


def test_a_half_reprocessed_batch_whose_records_are_gone_fails_the_task(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run("a")
    pipeline.begin(pipeline.work("a"))
    cluster.delete_records(tp(0), 10)
    with pytest.raises(ReadNotVerified, match="has not reported"):
        pipeline.resolve("a")


def test_a_commit_waits_for_the_newest_attempt(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work()
    with pytest.raises(ReadNotVerified, match="no Spark job has begun"):
        pipeline.commit(work)
    pipeline.drive(work)
    pipeline.begin(work)
    with pytest.raises(ReadNotVerified, match="attempt 2 has not reported"):
        pipeline.commit(work)
    assert committed(cluster) == {}


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (Counts(rows=1, offsets=1, first=0, last=0), "1 different offset, expected 10"),
        (Counts(rows=9, offsets=9, first=0, last=8), "9 different offsets, expected 10"),
        (Counts(rows=11, offsets=10, first=0, last=9), "11 records for 10 offsets"),
        (Counts(rows=10, offsets=10, first=1, last=10), "offsets 1 to 10 are not within 0 to 10"),
        (Counts(rows=8, bad=1, offsets=9, first=0, last=8), "9 different offsets, expected 10"),
    ],
)
def test_a_short_or_doubled_write_is_not_committed(
    cluster: InMemoryCluster, pipeline: Pipeline, counts: Counts, message: str
) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.report(work, pipeline.begin(work), {tp(0): counts})
    with pytest.raises(ReadNotVerified, match=message):
        pipeline.commit(work)


@pytest.mark.parametrize(
    "counts",
    [
        Counts(rows=7, bad=1, filtered=2, offsets=10, first=0, last=9),
        Counts(rows=6, offsets=6, gaps=4, first=0, last=9),
    ],
)
def test_bad_filtered_and_missing_offsets_count(cluster: InMemoryCluster, pipeline: Pipeline, counts: Counts) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.report(work, pipeline.begin(work), {tp(0): counts})
    done = pipeline.commit(work)
    assert [done.figures[name] for name in ("read", "bad", "filtered")] == list(counts[:3])


def test_rows_of_a_partition_that_was_not_planned_are_not_committed(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.report(work, pipeline.begin(work), {**whole_counts(work), tp(9): Counts(1, 0, 0, 1, 0, 0, 0)})
    with pytest.raises(ReadNotVerified, match="that the batch does not read"):
        pipeline.commit(work)


def test_a_report_of_another_job_is_not_committed(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.drive(work, job="old")
    with pytest.raises(ReadNotVerified, match="another definition"):
        pipeline.commit(work, job="new")
    pipeline.drive(work, job="new")
    pipeline.commit(work, job="new")


def test_a_commit_of_a_replaced_plan_is_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    old = pipeline.work("a")
    pipeline.drive(old)
    cluster.recreate_topic(TOPIC)
    pipeline.work("a", on_data_loss="advance")
    with pytest.raises(PlanReplaced):
        pipeline.commit(old)


# ── what is read ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_partition_starts_at_its_log_start_whatever_the_startup_mode(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run(start="latest")
    cluster.add_partitions(TOPIC, 1)
    produce(cluster, 3, 7)
    work = pipeline.work(start="latest")
    assert ranges_of(work)[3] == (0, 7)
    assert work.body.resume_from[tp(3)].topic_id == work.batch.plan.topic_ids[TOPIC]  # a later plan knows the topic


def test_an_excluded_partition_keeps_its_position(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 5)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    produce(cluster, 1, 3)
    assert ranges_of(pipeline.whole_run(exclude=["orders-0"])) == {1: (0, 3), 2: (0, 0)}
    assert ranges_of(pipeline.whole_run())[0] == (5, 10)
    with pytest.raises(NothingToDiscover, match="orders-7"):
        pipeline.resolve(exclude=["orders-7"])


def test_partitions_that_are_no_longer_subscribed_are_read_on_if_they_are_not_filtered(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    cluster.create_topic("payments", 1)
    pipeline.whole_run(topics=["orders", "payments"])
    cluster.produce(tp(0, "payments"), [cluster.now_ms] * 3)
    assert isinstance(pipeline.resolve(), NoBatch)
    work = pipeline.whole_run(filter_restored_partitions=False)
    assert work.body.ranges[tp(0, "payments")][:2] == (0, 3)


def test_shards_read_each_partition_once(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.remembers = False
    for partition in range(3):
        produce(cluster, partition, 4)
    works = [pipeline.whole_run(shard=(i, 4)) for i in range(4)]
    read = [tp for work in works if not isinstance(work, NoBatch) for tp in work.body.ranges]
    assert sorted(read) == [tp(0), tp(1), tp(2)]
    assert sum(isinstance(work, NoBatch) for work in works) == 1  # an empty shard holds nothing back


def test_a_cap_is_shared_and_the_rest_is_read_by_later_runs(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 100)
    produce(cluster, 1, 2)
    assert ranges_of(pipeline.whole_run(max_records=12)) == {0: (0, 10), 1: (0, 2), 2: (0, 0)}
    assert ranges_of(pipeline.whole_run(max_records=1000))[0] == (10, 100)


def test_the_offset_options_are_those_of_sparks_kafka_source(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    assert pipeline.work().offset_options() == {
        "assign": '{"orders": [0, 1, 2]}',
        "starting_offsets": '{"orders": {"0": 0, "1": 0, "2": 0}}',
        "ending_offsets": '{"orders": {"0": 10, "1": 0, "2": 0}}',
    }


def test_a_job_without_reports_is_trusted_and_always_started(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work("a", require_report=False)
    assert work.starts_job
    pipeline.commit(work)
    assert committed(cluster)[0] == 10


def test_a_partition_that_joins_an_empty_shard_starts_at_its_log_start(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    empty = next(i for i in range(4) if not Look(pipeline.request(shard=(i, 4)), cluster).asked)
    pipeline.whole_run(shard=(empty, 4), start="latest")
    cluster.add_partitions(TOPIC, 1)
    produce(cluster, 3, 5)
    assert ranges_of(pipeline.whole_run(shard=(empty, 4), start="latest")) == {3: (0, 5)}


def test_an_unfinished_batch_is_planned_again_by_todays_request(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """So that a batch which Spark cannot hold becomes smaller; what is left over is read by the next one."""
    produce(cluster, 0, 10)
    key = pipeline.work("a").key
    work = pipeline.act("b", after=1, reset={"start": "current"})
    assert (work.key, ranges_of(work)[0]) == (key, (0, 10))
    work = pipeline.resolve("c", conf=conf_of(2, reset={"start": "current"}), max_records=4)
    assert (work.key, ranges_of(work)[0], work.body.decisions) == (key, (0, 4), ())
    pipeline.drive(work)
    pipeline.commit(work)
    assert ranges_of(pipeline.whole_run("d"))[0] == (4, 10)


def test_a_partition_that_is_excluded_first_starts_where_start_said(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 1000)
    produce(cluster, 1, 5)
    cluster.commit_as_somebody_else("lake", {tp(n): CommittedOffset(990 if n == 0 else 0) for n in range(3)})
    pipeline.parameters["start"] = GroupOffsets()
    assert 0 not in ranges_of(pipeline.whole_run(exclude=["orders-0"]))
    assert ranges_of(pipeline.whole_run())[0] == (990, 1000)


def test_a_group_that_moves_while_spark_works_is_not_overwritten(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """The commit stands: the log is the truth. The group is left, and the task fails."""
    pipeline.whole_run()
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.drive(work)
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(7)})
    with pytest.raises(GroupMoved):
        pipeline.commit(work)
    assert (committed(cluster)[0], pipeline.log.newest().is_committed) == (7, True)


def test_under_live_members_the_commit_stands_and_the_task_fails(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.drive(work)
    with cluster.live_member("lake", TOPIC), pytest.raises(GroupActive):
        pipeline.commit(work)
    pipeline.commit(work)
    assert committed(cluster)[0] == 10
