"""A lost log: which rows its refusal names, and what runs from before it do afterwards."""

from __future__ import annotations

import re

import pytest

from airflow_kafka_offsets.engine.marks import Mark, rows_behind
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import CheckpointBehind
from airflow_kafka_offsets.kafka_values import Planned, TopicPartition
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import (
    HOUR,
    TOPIC,
    Pipeline,
    copy_of,
    fail_to_plan,
    printed_confs,
    produce,
    refused,
    tp,
)

THREE, FOUR, FIVE = (f"{number:010}-{'a' * 12}" for number in (3, 4, 5))


def marks(**of: str) -> dict[TopicPartition, Mark]:
    """``orders_0=key``."""
    return {tp(int(name[-1]), name[:-2]): Mark("orders", key) for name, key in of.items()}


def test_the_rows_that_are_read_again_are_those_of_batches_behind_the_marks() -> None:
    assert rows_behind(marks(orders_0=FOUR, orders_1=FOUR), 1) == "kafka_batch >= '0000000005'"


def test_a_partition_that_was_quiet_has_an_older_mark() -> None:
    assert rows_behind(marks(orders_0=FOUR, orders_1=THREE, orders_2=THREE, other_0=THREE), 1) == (
        "kafka_batch >= '0000000005' OR kafka_batch >= '0000000004' AND "
        "(topic = 'orders' AND partition IN (1, 2) OR topic = 'other' AND partition IN (0))"
    )


def test_batches_of_shards_have_numbers_of_their_own() -> None:
    first, second = f"0000000009-0of2-{'a' * 12}", f"0000000002-1of2-{'b' * 12}"
    assert rows_behind(marks(orders_0=first, orders_1=second, orders_2=FOUR), 2) == (
        "kafka_batch >= '0000000005' AND kafka_batch NOT LIKE '%of%'"
        " OR kafka_batch >= '0000000010' AND kafka_batch LIKE '%-0of2-%'"
        " OR kafka_batch >= '0000000003' AND kafka_batch LIKE '%-1of2-%'"
    )


def test_a_shard_without_a_mark_reads_all_again() -> None:
    assert rows_behind(marks(orders_0=f"0000000009-1of2-{'a' * 12}"), 2) == (
        "kafka_batch >= '0000000001' AND kafka_batch LIKE '%-0of2-%'"
        " OR kafka_batch >= '0000000010' AND kafka_batch LIKE '%-1of2-%'"
    )


def test_rows_of_a_former_topic_are_not_among_those_that_are_read_again(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    """They have offsets behind the position in the new topic, and nothing else has them any more."""
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 3)
    pipeline.whole_run(conf=printed_confs(refused(pipeline))[0])
    last = pipeline.log.newest()
    assert last is not None
    behind = last.number + 1
    produce(cluster, 0, 2)
    pipeline.store = MemoryStore()
    error = refused(pipeline)
    assert f"Delete the output's rows with kafka_batch >= '{behind:010}', which are read again" in str(error)
    work = pipeline.resolve("b", conf=printed_confs(error)[0])
    assert isinstance(work, ResolvedBatch)
    assert (work.body.ranges[tp(0)].start, work.body.ranges[tp(0)].end) == (3, 5)


@pytest.mark.parametrize("group", ["lake", None])
def test_a_run_from_before_the_loss_reads_on_when_it_is_cleared(
    cluster: InMemoryCluster, pipeline: Pipeline, group: str | None
) -> None:
    """Its batch is lost, and one behind it is acknowledged."""
    pipeline.parameters["group_id"] = group
    produce(cluster, 0, 2)
    old = pipeline.whole_run("old")
    assert isinstance(old, ResolvedBatch)
    before = Planned(old.key, old.batch.plan.plan_id)
    produce(cluster, 0, 2)
    pipeline.whole_run("later")
    pipeline.store = MemoryStore()
    pipeline.whole_run("b", conf=printed_confs(refused(pipeline))[0])
    pipeline.airflow.planned = before
    assert isinstance(pipeline.resolve("old"), NoBatch)
    produce(cluster, 0, 1)
    pipeline.airflow.planned = before
    assert isinstance(pipeline.whole_run("old"), ResolvedBatch)


def test_a_later_batch_than_the_acknowledged_one_is_still_missed(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 2)
    pipeline.whole_run()
    pipeline.store = MemoryStore()
    pipeline.whole_run("b", conf=printed_confs(refused(pipeline))[0])
    pipeline.airflow.planned = Planned(FIVE, "0123456789abcdef")
    assert isinstance(refused(pipeline), CheckpointBehind)


# ── an older copy: which rows are of later batches ────────────────────────────────────────────────────────────────────


def later_rows(pipeline: Pipeline, copy: MemoryStore, **changed: object) -> str:
    """As the refusal names them."""
    pipeline.store = copy
    (found,) = re.findall(r"are those with (.+)\.$", str(refused(pipeline, **changed)), re.MULTILINE)
    return str(found)


def test_a_copy_without_a_batch_knows_none_of_the_rows(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 2)
    pipeline.parameters["start"] = "latest"
    fail_to_plan(pipeline)
    copy = copy_of(pipeline.store)
    produce(cluster, 0, 2)
    pipeline.whole_run()
    assert later_rows(pipeline, copy) == "kafka_batch >= '0000000001'"


def test_behind_a_lost_log_they_begin_behind_the_acknowledged_batches(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    for _ in range(3):
        produce(cluster, 0, 2)
        pipeline.whole_run()
    pipeline.store = MemoryStore()
    conf = printed_confs(refused(pipeline))[0]
    fail_to_plan(pipeline, conf)
    copy = copy_of(pipeline.store)
    produce(cluster, 0, 2)
    pipeline.whole_run()
    assert later_rows(pipeline, copy) == "kafka_batch >= '0000000004'"


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_newest_batch_of_the_copy_is_among_them_if_it_was_unfinished(
    cluster: InMemoryCluster, pipeline: Pipeline, is_committed: bool
) -> None:
    produce(cluster, 0, 2)
    work = pipeline.whole_run("a") if is_committed else pipeline.work("a")
    assert isinstance(work, ResolvedBatch)
    copy = copy_of(pipeline.store)
    pipeline.whole_run("a")
    produce(cluster, 0, 2)
    pipeline.whole_run("b")
    kept = f" AND kafka_batch <> '{work.key}'" if is_committed else ""
    assert later_rows(pipeline, copy) == f"kafka_batch >= '0000000001'{kept}"


def test_rows_of_older_windows_that_were_unfinished_are_named_by_their_keys(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    end = cluster.now_ms
    windows = [pipeline.window(end - (n + 1) * HOUR, end - n * HOUR) for n in (3, 2, 1, 0)]
    for age in (3.5, 2.5, 1.5, 0.5):
        produce(cluster, 0, 2, age_s=int(age * 3600))
    first = pipeline.work("a", windows[0])
    second = pipeline.whole_run("b", windows[1])
    third = pipeline.work("c", windows[2])
    assert isinstance(second, ResolvedBatch)
    copy = copy_of(pipeline.store)
    for run, window in (("a", windows[0]), ("c", windows[2]), ("d", windows[3])):
        pipeline.whole_run(run, window)
    assert later_rows(pipeline, copy, run="d", want=windows[3]) == (
        f"kafka_batch >= '{third.key[:10]}' OR kafka_batch = '{first.key}'"
    )


def test_a_shard_names_rows_of_its_own(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.parameters |= {"shard": (0, 2)}
    for partition in range(3):
        produce(cluster, partition, 2)
    work = pipeline.whole_run("a")
    assert isinstance(work, ResolvedBatch)
    copy = copy_of(pipeline.store)
    for partition in range(3):
        produce(cluster, partition, 2)
    pipeline.whole_run("b")
    assert later_rows(pipeline, copy) == (
        f"kafka_batch >= '0000000001' AND kafka_batch LIKE '%-0of2-%' AND kafka_batch <> '{work.key}'"
    )
