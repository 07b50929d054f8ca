"""What random worlds have found in the engine, each as small as it can be shown."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.errors import ActRefused, CheckpointBehind, KafkaOffsetsError
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, conf_of, printed_confs, produce, tp


def refused(pipeline: Pipeline, **changed: object) -> KafkaOffsetsError:
    with pytest.raises(KafkaOffsetsError) as error:
        pipeline.resolve(**changed)
    return error.value


def move_to_another_cluster(cluster: InMemoryCluster) -> None:
    """The same records at the same offsets; the topics have other ids."""
    cluster.cluster_id = "another"
    for topic in cluster.topics.values():
        topic.topic_id = f"{topic.topic_id} there"


def test_a_refused_act_prints_all_that_differs_with_what_it_named(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 3)
    pipeline.whole_run()
    move_to_another_cluster(cluster)
    pipeline.output = "delta:/lake/moved"
    error = refused(pipeline, conf=printed_confs(refused(pipeline))[0])
    assert isinstance(error, ActRefused)
    conf = printed_confs(error)[0]
    assert conf["acknowledge"] == {"cluster": "another", "output": "delta:/lake/moved"}
    pipeline.resolve("b", conf=conf)


def test_a_cluster_is_named_for_topics_that_the_run_does_not_subscribe_to(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    pipeline.parameters["topics"] = "^.*"
    cluster.create_topic("returns")
    produce(cluster, 0, 3)
    pipeline.whole_run()
    move_to_another_cluster(cluster)
    pipeline.resolve("b", conf=conf_of(1, acknowledge={"cluster": "another"}, reason="why"), topics=["returns"])
    produce(cluster, 0, 2)
    work = pipeline.work("c")
    assert work.body.ranges[tp(0)][:2] == (3, 5)


def test_a_cluster_that_is_named_twice_keeps_the_topics_that_were_found_first(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 3)
    pipeline.whole_run()
    move_to_another_cluster(cluster)
    pipeline.act("b", after=1, acknowledge={"cluster": "another"})
    then = pipeline.log.identity()
    pipeline.act("c", after=2, acknowledge={"cluster": "another"})
    now = pipeline.log.identity()
    assert then is not None
    assert now is not None
    assert (now.number, now.cluster_at, now.topics) == (3, 2, then.topics)


def test_a_topic_that_had_ended_does_not_live_on_on_another_cluster(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 5)
    pipeline.whole_run()
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 2)
    pipeline.resolve("b", on_data_loss="advance")
    move_to_another_cluster(cluster)
    work = pipeline.act("c", after=2, acknowledge={"cluster": "another"})
    assert isinstance(work, ResolvedBatch)
    assert work.body.ranges[tp(0)][:2] == (0, 2)


def test_a_topic_that_the_log_knows_and_an_older_look_does_not_has_not_ended(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    pipeline.parameters["topics"] = "^.*"
    produce(cluster, 0, 3)
    pipeline.whole_run()
    others = iter([lambda: (cluster.create_topic("returns"), pipeline.whole_run("other"))])

    def list_folder(folder: str, listed=pipeline.store.list) -> list[str]:
        if folder.endswith("/pipeline") and (another_run := next(others, None)):
            another_run()
        return listed(folder)

    pipeline.store.list = list_folder  # type: ignore[method-assign]
    pipeline.resolve("slow", on_data_loss="advance")
    identity = pipeline.log.identity()
    assert identity is not None
    assert not identity.ended


def test_an_identity_that_comes_between_two_listings_is_no_damage(pipeline: Pipeline) -> None:
    pipeline.whole_run()
    store, hidden = MemoryStore(), iter([True])
    store.objects.update(pipeline.store.objects)

    def list_folder(folder: str, listed=store.list) -> list[str]:
        return [] if folder.endswith("/pipeline") and next(hidden, False) else listed(folder)

    store.list = list_folder  # type: ignore[method-assign]
    identity = PipelineLog(store, "orders").identity()
    assert identity is not None
    assert identity.number == 1


def test_a_rewrite_does_not_look_for_later_keys(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 3)
    assert pipeline.whole_run("a").batch.plan.newest
    assert not pipeline.work("a").batch.plan.newest


def test_an_older_copy_is_refused_with_the_rows_of_all_batches_behind_it(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 3)
    kept = pipeline.whole_run()
    copy = MemoryStore()
    copy.objects.update(pipeline.store.objects)
    for _ in range(2):
        produce(cluster, 0, 3)
        pipeline.whole_run()
    pipeline.store = copy
    error = refused(pipeline)
    assert isinstance(error, CheckpointBehind)
    assert f"kafka_batch >= '{kept.key[:10]}' AND kafka_batch <> '{kept.key}'." in str(error)
