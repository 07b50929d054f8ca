"""Runs of a pipeline in sequence: what each reads, whatever is retried, cleared, killed or run twice."""

import pytest

from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.work import Nothing
from airflow_kafka_offsets.errors import (
    CheckpointBehindGroup,
    CheckpointLost,
    ClusterChanged,
    GroupActive,
    GroupMoved,
    NothingToDiscover,
    OtherKind,
    OutputChanged,
    OverlappingRun,
    PlanReplaced,
    ReadNotVerified,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.log.reports import Counts
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, TOPIC, Pipeline, committed, produce, ranges_of, tp, whole_counts


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
    assert isinstance(pipeline.resolve(), Nothing)
    assert committed(cluster) == {0: 0, 1: 0, 2: 0}
    assert pipeline.log.newest().number == 1


def test_a_first_run_without_records_records_its_starts(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """`latest` is decided once: what comes after the first run is not skipped."""
    assert isinstance(pipeline.resolve(start="latest"), Nothing)
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
    assert isinstance(pipeline.resolve("a"), Nothing)
    pipeline.commit(late)  # its own commit finds the same plan committed
    assert len(pipeline.log.newest().commits) == 1


def test_a_cleared_run_writes_the_batch_that_it_committed_again(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    first = pipeline.whole_run("a")
    produce(cluster, 0, 5)
    again = pipeline.work("a")
    assert (again.key, ranges_of(again), again.starts_job) == (first.key, ranges_of(first), True)
    assert pipeline.log.newest().after == 1
    with pytest.raises(ReadNotVerified, match="no later Spark job"):
        pipeline.commit(again)
    pipeline.drive(again)
    pipeline.commit(again)
    assert ranges_of(pipeline.whole_run("b"))[0] == (10, 15)


def test_a_committed_batch_whose_records_are_gone_is_left_as_it_is(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run("a")
    cluster.delete_records(tp(0), 10)
    assert isinstance(pipeline.resolve("a"), Nothing)


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
    with pytest.raises(ReadNotVerified, match="does not read it"):
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
    assert isinstance(pipeline.resolve(), Nothing)
    work = pipeline.whole_run(filter_restored_partitions=False)
    assert work.body.ranges[tp(0, "payments")][:2] == (0, 3)


def test_shards_read_each_partition_once(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    for partition in range(3):
        produce(cluster, partition, 4)
    works = [pipeline.whole_run(shard=(i, 4)) for i in range(4)]
    read = [tp for work in works if not isinstance(work, Nothing) for tp in work.body.ranges]
    assert sorted(read) == [tp(0), tp(1), tp(2)]
    assert sum(isinstance(work, Nothing) for work in works) == 1  # an empty shard holds nothing back


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


def test_a_request_that_has_changed_is_for_the_next_batch(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """Also where the unfinished one is planned again."""
    cluster.create_topic("payments")
    produce(cluster, 0, 10)
    pipeline.work("a")
    cluster.delete_records(tp(0), 4)
    pipeline.connection = {"isolation.level": "read_committed"}
    work = pipeline.work("a", topics=["payments"], require_report=False, on_data_loss="advance")
    assert (work.batch.plan.isolation_level, work.batch.plan.require_report) == ("read_uncommitted", True)
    assert {tp: planned[:2] for tp, planned in work.body.ranges.items() if tp.partition == 0} == {tp(0): (4, 10)}


# ── what changed around a pipeline ────────────────────────────────────────────────────────────────────────────────────


def test_a_moved_group_is_refused_until_it_is_acknowledged(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    with pytest.raises(GroupMoved, match=r"(?s)holds 3, the position is 10.*--start current --execute"):
        pipeline.resolve()
    work = pipeline.whole_run("b", conf={"acknowledge": "we tested a consumer"})
    assert ranges_of(work)[0] == (10, 15)
    assert committed(cluster)[0] == 15


def test_a_group_that_moves_while_spark_works_is_not_overwritten(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.drive(work)
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(7)})
    with pytest.raises(GroupMoved):
        pipeline.commit(work)
    assert (committed(cluster)[0], pipeline.log.newest().is_committed) == (7, False)


def test_an_acknowledgement_is_carried_out_once(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    produce(cluster, 0, 5)
    pipeline.whole_run("b", conf={"acknowledge": "why"})
    entries = len(pipeline.log.newest().entries)
    work = pipeline.work("b", conf={"acknowledge": "why"})  # cleared: it keeps its conf
    assert (work.batch.number, len(work.batch.entries)) == (pipeline.log.newest().number, entries + 1)


def test_under_live_members_the_commit_stands_and_the_task_fails(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.drive(work)
    with cluster.live_member("lake", TOPIC), pytest.raises(GroupActive):
        pipeline.commit(work)
    pipeline.commit(work)
    assert committed(cluster)[0] == 10


def test_a_lost_log_is_refused_where_the_group_or_airflow_remembers_it(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.store = MemoryStore()
    with pytest.raises(CheckpointLost, match="--start group-offsets"):
        pipeline.resolve()
    with pytest.raises(CheckpointLost, match="pipeline 'orders'"):
        pipeline.resolve(pipeline_id="renamed")
    pipeline.airflow.has_succeeded_before = True
    with pytest.raises(CheckpointLost, match="acknowledge"):
        pipeline.resolve(group_id=None)
    assert ranges_of(pipeline.work(group_id=None, conf={"acknowledge": "anew"}))[0] == (0, 10)


def test_an_older_copy_of_the_log_is_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    copy = MemoryStore()
    copy.objects.update(pipeline.store.objects)
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.store = copy
    with pytest.raises(CheckpointBehindGroup, match="0000000002-"):
        pipeline.resolve()


def test_another_cluster_is_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    cluster.cluster_id = "another"
    with pytest.raises(ClusterChanged, match="memory"):
        pipeline.resolve()


def test_another_output_than_the_last_batchs_is_not_committed_until_it_is_acknowledged(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    pipeline.whole_run()
    produce(cluster, 0, 5)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    work = pipeline.work("c")
    assert work.batch.plan.output == "files:/lake/orders"
    pipeline.drive(work, output="files:/lake/other")
    with pytest.raises(OutputChanged, match="written to files:/lake/other"):
        pipeline.commit(work)
    again = pipeline.work("d", conf={"acknowledge": "moved"})
    with pytest.raises(ReadNotVerified, match="no longer count"):
        pipeline.commit(again)
    pipeline.drive(again, output="files:/lake/other")
    assert pipeline.commit(again).output == "files:/lake/other"


def test_the_other_kind_of_pipeline_is_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    with pytest.raises(OtherKind, match="another pipeline_id"):
        pipeline.resolve(want=pipeline.window(cluster.now_ms - HOUR, cluster.now_ms))
