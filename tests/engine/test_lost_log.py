"""A lost log: which rows its refusal names, and what runs from before it do afterwards."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.engine.marks import Mark, rows_behind
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import CheckpointBehind
from airflow_kafka_offsets.kafka_values import Planned, TopicPartition
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, printed_confs, produce, refused, tp

THREE, FOUR, FIVE = (f"{number:010}-{'a' * 12}" for number in (3, 4, 5))


def marks(**of: str) -> dict[TopicPartition, Mark]:
    """``orders_0=key``."""
    return {tp(int(name[-1]), name[:-2]): Mark("orders", key) for name, key in of.items()}


def test_the_rows_that_are_read_again_are_those_of_batches_behind_the_marks() -> None:
    assert rows_behind(marks(orders_0=FOUR, orders_1=FOUR)) == f"kafka_batch > '{FOUR}'"


def test_a_partition_that_was_quiet_has_an_older_mark() -> None:
    assert rows_behind(marks(orders_0=FOUR, orders_1=THREE, orders_2=THREE, other_0=THREE)) == (
        f"kafka_batch > '{FOUR}' OR kafka_batch > '{THREE}' AND "
        "(topic = 'orders' AND partition IN (1, 2) OR topic = 'other' AND partition IN (0))"
    )


def test_batches_of_shards_have_numbers_of_their_own() -> None:
    first, second = f"0000000009-0of2-{'a' * 12}", f"0000000002-1of2-{'b' * 12}"
    assert rows_behind(marks(orders_0=first, orders_1=second, orders_2=FOUR)) == (
        f"kafka_batch > '{FOUR}' AND kafka_batch NOT LIKE '%of%'"
        f" OR kafka_batch > '{first}' AND kafka_batch LIKE '%-0of2-%'"
        f" OR kafka_batch > '{second}' AND kafka_batch LIKE '%-1of2-%'"
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
    produce(cluster, 0, 2)
    pipeline.store = MemoryStore()
    error = refused(pipeline)
    assert f"Delete the output's rows with kafka_batch > '{last.plan.key}', which are read again" in str(error)
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
