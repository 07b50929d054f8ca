"""Windows: a range between two cuts, planned in any order, and side by side."""

import random
from collections import Counter

import pytest

from airflow_kafka_offsets.engine import windows
from airflow_kafka_offsets.engine.history import unfinished
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import (
    CheckpointLost,
    DataLoss,
    InvalidRequest,
    OtherPipeline,
    OverlappingRun,
    WindowRefused,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.times import iso
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, TOPIC, Pipeline, printed_confs, ranges_of, tp

T0 = 1_800_000_000_000 - 24 * HOUR


def at(hour: float) -> int:
    return int(T0 + hour * HOUR)


def plan(
    pipeline: Pipeline, start: float, end: float, run: str | None = None, **changed: object
) -> ResolvedBatch | NoBatch:
    run = run or f"window {start}"
    return pipeline.whole_run(run, pipeline.window(at(start), at(end), **changed))


def test_windows_in_any_order_share_their_cuts(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(hour + 0.5) for hour in range(6)])
    read = {hour: ranges_of(plan(pipeline, hour, hour + 1))[0] for hour in (3, 0, 5, 1, 4, 2)}
    assert read == {hour: (hour, hour + 1) for hour in range(6)}
    newest = pipeline.log.newest()
    assert [(s.start_ms, s.end_ms) for s in pipeline.log.first_body(newest).covered] == [(at(0), at(6))]


def test_a_record_that_comes_late_is_in_the_next_window(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.5)])
    assert ranges_of(plan(pipeline, 0, 1))[0] == (0, 1)
    cluster.produce(tp(0), [at(0.6), at(1.5)])  # the first one is of the hour that is planned already
    assert ranges_of(plan(pipeline, 1, 2))[0] == (1, 3)


def test_a_window_is_planned_once_and_its_clear_does_it_again(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.5)])
    first = plan(pipeline, 0, 1, "a")
    again = pipeline.work("a", pipeline.window(at(0), at(1)))
    assert again.key == first.key


def test_a_window_whose_run_is_running_is_its_own(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.5)])
    pipeline.work("a", pipeline.window(at(0), at(1)))
    pipeline.airflow.running = {"a"}
    with pytest.raises(OverlappingRun):
        pipeline.resolve("b", pipeline.window(at(0), at(1)))


def test_the_newest_plan_knows_which_windows_are_unfinished(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(hour + 0.5) for hour in range(6)])
    left = [pipeline.work(f"w{hour}", pipeline.window(at(hour), at(hour + 1))) for hour in range(2)]
    for hour, expected in ((2, [1, 2]), (3, [1, 2])):
        plan(pipeline, hour, hour + 1)
        newest = pipeline.log.newest()
        assert [batch.number for batch in unfinished(pipeline.log, newest)] == expected
    pipeline.drive(left[0])
    pipeline.commit(left[0])
    assert [batch.number for batch in unfinished(pipeline.log, newest)] == [2]
    plan(pipeline, 4, 5)
    assert pipeline.log.newest().first_plan.unfinished == (2,)


def test_windows_are_open_side_by_side(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.5), at(1.5)])
    works = [pipeline.work(f"w{hour}", pipeline.window(at(hour), at(hour + 1))) for hour in (1, 0)]
    for work in works:
        pipeline.drive(work)
        pipeline.commit(work)
    assert [ranges_of(work)[0] for work in works] == [(1, 2), (0, 1)]


def test_a_window_without_records_is_a_batch_too(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    assert isinstance(plan(pipeline, 0, 1), NoBatch)
    assert pipeline.log.newest().is_committed
    cluster.produce(tp(0), [at(0.5)])
    assert ranges_of(plan(pipeline, 1, 2))[0] == (0, 1)  # late


@pytest.mark.parametrize("window", [(0.5, 1.5), (0, 2), (0.25, 0.75)])
def test_an_overlapping_window_is_refused_and_says_what_is_free(
    cluster: InMemoryCluster, pipeline: Pipeline, window: tuple[float, float]
) -> None:
    plan(pipeline, 0, 1)
    with pytest.raises(WindowRefused, match="is planned; free: "):
        plan(pipeline, *window)
    if window[1] > 1:
        free = {"window": [at(1), at(window[1])]}
        work = pipeline.resolve("c", pipeline.window(at(window[0]), at(window[1]), conf=free))
        assert isinstance(work, NoBatch)
        assert pipeline.log.newest().plan.window == (at(1), at(window[1]))


def test_a_window_that_has_not_ended_is_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    with pytest.raises(WindowRefused, match="has not ended"):
        plan(pipeline, 23, 25)


def test_one_record_of_the_future_does_not_hide_what_follows(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.5), at(999), at(0.7)])
    assert ranges_of(plan(pipeline, 0, 1))[0] == (0, 3)


def test_a_new_partition_is_read_by_the_window_that_extends_to_the_right(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    plan(pipeline, 0, 1)
    cluster.add_partitions(TOPIC, 1)
    cluster.produce(tp(3), [at(0.2), at(1.5), at(2.5)])
    assert ranges_of(plan(pipeline, 1, 2))[3] == (0, 2)


def test_records_that_are_gone_before_a_new_cut_are_data_loss(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.5), at(1.2), at(1.5), at(2.5)])
    plan(pipeline, 0, 1)
    cluster.delete_records(tp(0), 2)
    with pytest.raises(DataLoss, match="offsets 1 to 2 are gone"):
        plan(pipeline, 1, 2)
    work = plan(pipeline, 1, 2, on_data_loss="advance")
    assert (ranges_of(work)[0], work.batch.plan.given_up["lost"]) == ((2, 3), 1)


def test_planning_again_keeps_both_cuts(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.1), at(0.5), at(1.5)])
    work = pipeline.work("a", pipeline.window(at(0), at(1)))
    cluster.delete_records(tp(0), 3)
    assert pipeline.work("a", pipeline.window(at(0), at(1), on_data_loss="advance")).starts_job  # rows may be there
    batch = pipeline.log.newest()
    body = pipeline.log.body(batch)
    assert (batch.plan.key, body.ranges[tp(0)][:2]) == (work.key, (2, 2))
    assert [(d.kind, d.start, d.end) for d in body.decisions] == [("lost", 0, 2)]


def test_a_re_created_topic_is_read_from_its_start(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.5), at(1.5)])
    plan(pipeline, 0, 1)
    cluster.recreate_topic(TOPIC)
    cluster.produce(tp(0), [at(1.2), at(1.3)])
    with pytest.raises(DataLoss, match="re-created") as refused:
        plan(pipeline, 1, 2)
    [conf] = printed_confs(refused.value)
    assert ranges_of(plan(pipeline, 1, 2, conf=conf))[0] == (0, 2)


def test_windows_of_an_ended_topic_count_as_none_for_the_new_one(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(hour + 0.5) for hour in range(4)])
    plan(pipeline, 0, 1)
    plan(pipeline, 3, 4)
    cluster.recreate_topic(TOPIC)
    cluster.produce(tp(0), [at(1.7), at(2.5), at(4.5)])
    assert isinstance(plan(pipeline, 2, 3, on_data_loss="advance"), NoBatch)  # the cut behind it has nothing of it
    assert ranges_of(plan(pipeline, 4, 5))[0] == (0, 3)


def test_a_window_of_a_topic_that_ended_under_it_is_lost_and_said(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.create_topic("payments")
    cluster.produce(tp(0, "payments"), [at(0.5)])
    both = {"topics": [TOPIC, "payments"]}
    pipeline.work("a", pipeline.window(at(0), at(1), **both))
    cluster.delete_topic("payments")
    with pytest.raises(DataLoss, match="payments-0: the topic was deleted") as refused:
        pipeline.resolve("a", pipeline.window(at(0), at(1), **both))
    pipeline.resolve("b", pipeline.window(at(0), at(1), conf=printed_confs(refused.value)[0], **both))
    decisions = pipeline.log.body(pipeline.log.newest()).decisions
    assert [d[:4] for d in decisions] == [(tp(0, "payments"), 0, 1, "lost")]


def test_more_than_the_most_stretches_are_refused_until_a_gap_is_filled(
    cluster: InMemoryCluster, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "MOST_STRETCHES", 2)
    cluster.produce(tp(0), [at(hour + 0.5) for hour in range(6)])
    plan(pipeline, 0, 1)
    plan(pipeline, 2, 3)
    with pytest.raises(WindowRefused, match="Fill a gap first"):
        plan(pipeline, 4, 5)
    plan(pipeline, 1, 2)
    assert ranges_of(plan(pipeline, 4, 5))[0] == (4, 5)


def test_another_cluster_or_subscription_is_another_pipeline(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    plan(pipeline, 0, 1)
    cluster.create_topic("payments")
    with pytest.raises(OtherPipeline, match="It reads topics orders, and this request topics orders, payments"):
        plan(pipeline, 1, 2, topics=[TOPIC, "payments"])
    cluster.cluster_id = "another"
    with pytest.raises(OtherPipeline, match="the connection leads to another"):
        plan(pipeline, 1, 2)


def test_exclude_group_and_cap_do_not_go_with_windows(pipeline: Pipeline) -> None:
    with pytest.raises(InvalidRequest) as refused:
        pipeline.window(at(0), at(1), group_id="lake", max_records=5, exclude=["orders-0"])
    assert [problem.split(" cannot")[0] for problem in refused.value.problems] == ["group_id", "max_records", "exclude"]


def test_after_a_lost_log_earlier_windows_are_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.5), at(1.5)])
    plan(pipeline, 0, 1)
    pipeline.store = MemoryStore()
    with pytest.raises(CheckpointLost, match="is known to Airflow") as refused:
        plan(pipeline, 1, 2)
    [conf] = printed_confs(refused.value)
    assert conf["acknowledge"]["windows_from"] == iso(at(1))
    work = plan(pipeline, 1, 2, conf=conf)
    assert (ranges_of(work)[0], work.batch.plan.bases) == ((1, 2), (0, 1))
    with pytest.raises(WindowRefused, match="a lost log may have written it"):
        plan(pipeline, 0, 1)


def test_a_record_of_the_future_before_the_first_window_hides_nothing(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    """A start takes Kafka's answer as it is: what lies behind the wrong clock is read."""
    cluster.produce(tp(0), [at(999), *(at(hour + 0.5) for hour in range(3))])
    assert ranges_of(plan(pipeline, 0, 1))[0] == (0, 4)


def test_a_run_that_was_killed_before_it_named_its_window_is_helped(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    cluster.produce(tp(0), [at(0.5)])
    work = pipeline.work("a", pipeline.window(at(0), at(1)))
    pipeline.store.delete(f"orders/windows/{at(0)}--{at(1)}.json")
    assert pipeline.work("b", pipeline.window(at(0), at(1))).key == work.key


@pytest.mark.parametrize("seed", range(20))
def test_every_record_between_the_first_and_the_last_window_is_read_once(seed: int) -> None:
    """Late, out of order, and while neighbours are planned; windows in a random order."""
    rnd = random.Random(seed)
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 2)
    pipeline = Pipeline(cluster)
    hours = list(range(12))
    rnd.shuffle(hours)
    read: Counter[tuple[TopicPartition, int]] = Counter()
    for hour in hours:
        for partition in range(2):
            cluster.produce(tp(partition), [at(rnd.uniform(0, 12)) for _ in range(rnd.randrange(5))])
        work = plan(pipeline, hour, hour + 1)
        if isinstance(work, ResolvedBatch):
            read.update((tp, o) for tp, r in work.body.ranges.items() for o in range(r.start, r.end))
    assert set(read.values()) <= {1}
    [stretch] = pipeline.log.first_body(pipeline.log.newest()).covered
    for partition, cut in stretch.end_cut.items():
        start = stretch.start_cut[partition].offset
        assert sorted(o for p, o in read if p == partition) == list(range(start, cut.offset))


def test_records_that_replaced_truncated_ones_are_of_the_next_window(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    """An unclean election; the log has grown beyond the cut since."""
    cluster.produce(tp(0), [at(0.1), at(0.2), at(0.3), at(0.4)])
    plan(pipeline, 0, 1)
    cluster.truncate(tp(0), 2)
    cluster.produce(tp(0), [at(1.1), at(1.2), at(2.1), at(2.2)])
    with pytest.raises(DataLoss, match="offsets 2 to 4 are other records since the log was truncated"):
        plan(pipeline, 1, 2)
    work = plan(pipeline, 1, 2, on_data_loss="advance")
    assert (ranges_of(work)[0], work.batch.plan.given_up["again"]) == ((2, 4), 2)
    assert ranges_of(plan(pipeline, 2, 3))[0] == (4, 6)


def test_windows_with_a_gap_between_read_what_replaced_truncated_records_once(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    cluster.produce(tp(0), [at(0.1), at(0.2), at(3.1), at(3.2)])
    plan(pipeline, 0, 1)
    plan(pipeline, 3, 4)
    cluster.truncate(tp(0), 1)
    cluster.produce(tp(0), [at(1.5), at(2.5), at(4.5), at(4.6), at(4.7)])
    assert isinstance(plan(pipeline, 2, 3, on_data_loss="advance"), NoBatch)  # what is behind the cut at 3 is later
    assert isinstance(plan(pipeline, 1, 2, on_data_loss="advance"), NoBatch)
    assert ranges_of(plan(pipeline, 4, 5, on_data_loss="advance"))[0] == (1, 6)


def test_a_window_that_lost_records_by_truncation_says_so_in_later_plans_too(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    cluster.produce(tp(0), [at(0.1), at(0.2), at(1.1), at(1.2), at(2.1)])
    plan(pipeline, 0, 1)
    plan(pipeline, 2, 3)
    cluster.truncate(tp(0), 3)
    work = pipeline.work("a", pipeline.window(at(1), at(2), on_data_loss="advance"))
    cluster.delete_records(tp(0), 3)
    pipeline.work("a", pipeline.window(at(1), at(2), on_data_loss="advance"))
    batch = pipeline.log.newest()
    decisions = [(d.kind, d.start, d.end) for plan in batch.plans for d in pipeline.log.body(batch).decisions]
    assert ranges_of(work)[0] == (2, 3)
    assert decisions[-2:] == [("lost", 3, 4), ("lost", 2, 3)]


def test_a_first_window_that_is_older_than_the_log_says_so(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.produce(tp(0), [at(0.1), at(0.2), at(2.5)])
    cluster.delete_records(tp(0), 2)
    with pytest.raises(DataLoss, match="offsets 0 to 2 are gone from Kafka, and may have been of window"):
        plan(pipeline, 0, 1)
    assert isinstance(plan(pipeline, 0, 1, on_data_loss="advance"), NoBatch)
    [decision] = pipeline.log.body(pipeline.log.newest()).decisions
    assert decision[:4] == (tp(0), 0, 2, "hidden")
