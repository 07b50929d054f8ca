"""Records that are gone, or are others: when a run is refused, and where it goes on."""

import pytest

from airflow_kafka_offsets.engine.commit import needs_job
from airflow_kafka_offsets.engine.work import NoBatch
from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.kafka_values import TopicList
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, committed, produce, ranges_of, tp


def test_records_that_are_gone_before_they_are_read_are_data_loss(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.work("a")
    cluster.delete_records(tp(0), 4)
    with pytest.raises(DataLoss, match="orders-0: start offset 0 is below log start offset 4"):
        pipeline.resolve("a")
    work = pipeline.work("a", on_data_loss="advance")
    assert ranges_of(work)[0] == (4, 10)
    assert work.batch.plan.given_up == {"lost": 4, "skipped": 0, "again": 0, "hidden": 0}


def test_a_verified_batch_whose_records_expire_is_committed_without_a_job(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work("a")
    pipeline.drive(work)
    assert needs_job(work.given(), pipeline.log, cluster)  # records are there: written again, so corrected code counts
    cluster.delete_records(tp(0), 10)
    assert not needs_job(work.given(), pipeline.log, cluster)
    again = pipeline.work("b")
    assert not again.starts_job
    assert "--nothing-to-do" in again.arguments("host:9092")
    assert pipeline.commit(again).figures["read"] == 10


def test_a_re_created_topic_is_data_loss_and_then_read_from_its_start(
    cluster: InMemoryCluster, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """``advance`` is in the log of the pipeline and of the task, as a person's decision is."""
    produce(cluster, 0, 10)
    pipeline.whole_run()
    former = cluster.describe(TopicList((TOPIC,))).topics[TOPIC].topic_id
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 20)
    with pytest.raises(DataLoss, match="re-created"):
        pipeline.resolve()
    work = pipeline.whole_run(on_data_loss="advance")
    act = {"reason": 'on_data_loss="advance"', "acknowledge": {"topic": {TOPIC: former}}}
    assert pipeline.log.identity().act == act
    assert 'on_data_loss="advance" accepts a loss: orders-0: the topic was re-created' in caplog.text
    assert ranges_of(work)[0] == (0, 20)
    assert work.body.decisions == ()  # all that was known of it had been read


def test_what_an_unfinished_batch_had_of_a_deleted_topic_is_lost(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    cluster.create_topic("payments")
    produce(cluster, 0, 10)
    cluster.produce(tp(0, "payments"), [cluster.now_ms] * 3)
    topics = {"topics": [TOPIC, "payments"]}
    key = pipeline.work("a", **topics).key
    cluster.delete_topic("payments")
    with pytest.raises(DataLoss, match="payments-0: the topic was deleted; unread records from offset 0 on"):
        pipeline.resolve("a", **topics)
    again = pipeline.work("a", **topics, on_data_loss="advance")
    assert (again.key, ranges_of(again)[0]) == (key, (0, 10))
    assert [d[:4] for d in again.body.decisions] == [(tp(0, "payments"), 0, None, "lost")]


def test_a_batch_whose_topic_was_re_created_is_not_committed(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.drive(work)
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 10)
    with pytest.raises(DataLoss, match="re-created, or its log truncated"):
        pipeline.commit(work)


def test_a_cut_log_goes_on_at_the_first_offset_that_differs(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.truncate(tp(0), 6)
    produce(cluster, 0, 8)  # it has grown past the position again
    with pytest.raises(DataLoss, match="6 to 10 are other records now"):
        pipeline.resolve()
    work = pipeline.whole_run(on_data_loss="advance")
    assert ranges_of(work)[0] == (6, 14)
    assert [(d.kind, d.start, d.end) for d in work.body.decisions] == [("again", 6, 10)]


def test_a_reset_goes_where_otherwise_says(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    cluster.delete_records(tp(0), 15)
    pipeline.connection = {"auto.offset.reset": "latest"}
    assert isinstance(pipeline.resolve(on_data_loss="reset"), NoBatch)
    decisions = pipeline.log.body(pipeline.log.newest()).decisions
    assert [(d.kind, d.start, d.end) for d in decisions] == [("lost", 10, 15), ("skipped", 15, 20)]
    assert committed(cluster)[0] == 20


def test_a_verified_batch_is_committed_after_its_topic_was_deleted(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work("a")
    pipeline.drive(work)
    cluster.delete_topic(TOPIC)
    with pytest.raises(DataLoss, match="the topic was deleted") as refused:
        pipeline.resolve("a")
    assert pipeline.commit(pipeline.run_printed(refused.value, "b")).figures["read"] == 10


def test_a_loss_that_was_recorded_is_not_forgotten_by_a_later_plan(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run(max_records=2)
    cluster.delete_records(tp(0), 4)
    pipeline.begin(pipeline.work("a", on_data_loss="advance"))
    cluster.delete_records(tp(0), 6)
    for run in ("a", "b"):
        work = pipeline.work(run, on_data_loss="advance")
        assert [d[1:4] for d in work.body.decisions] == [(2, 6, "lost")]
