"""An end below one that is already known is asked once more, by a new client, before it is called data loss (K21).

A leader that has just been elected, or a client that still asks the last one, may know an older end (KAFKA-7703).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import EndOffset
from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.kafka_values import Actor, IsolationLevel, TopicPartition
from airflow_kafka_offsets.plan.position import ShiftBy
from airflow_kafka_offsets.stores.local import LocalStore
from testbed import kafka_answers, kafka_proxy
from testbed.broker import KafkaBroker
from testbed.kafka_proxy import LIST_OFFSETS, KafkaProxy, Moment
from tests.contract.conftest import NOW_MS
from tests.contract.pipeline import Pipeline
from tests.engine import Reset, reset_position


class Old:
    """A cluster whose clients know ends of three records ago, until they are made anew; those of a log that was cut
    know no others then.
    """

    def __init__(self, real: Any, *, is_cut: bool = False) -> None:
        self.real, self.is_cut, self.is_new = real, is_cut, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def ask_anew(self) -> None:
        self.is_new = True

    def end_offsets(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, EndOffset]:
        found: dict[TopicPartition, EndOffset] = self.real.end_offsets(partitions, isolation_level)
        if self.is_new and not self.is_cut:
            return found
        return {tp: EndOffset(end.offset - 3, end.leader_epoch) for tp, end in found.items()}


@pytest.mark.parametrize("step", ["a new batch", "one that is done again"])
def test_K21_an_old_end_is_not_data_loss(step: str, in_memory: Pipeline) -> None:
    first = in_memory.run("one") if step == "a new batch" else in_memory.resolve("one")
    in_memory.cluster = Old(in_memory.cluster)
    if step == "a new batch":
        assert in_memory.resolve("two").assignment.batch is None
    else:
        assert in_memory.resolve("one").plan == first.plan
    assert in_memory.cluster.is_new


@pytest.mark.parametrize("step", ["a new batch", "one that is done again"])
def test_K21_a_log_that_was_cut_is(step: str, in_memory: Pipeline) -> None:
    run = in_memory.run if step == "a new batch" else in_memory.resolve
    run("one")
    in_memory.cluster = Old(in_memory.cluster, is_cut=True)
    with pytest.raises(DataLoss, match="beyond the end of the log"):
        in_memory.resolve("one" if step != "a new batch" else "two")
    assert in_memory.cluster.is_new


def test_K21_a_reset_is_not_brought_to_an_old_end(in_memory: Pipeline) -> None:
    """Else what lies behind it is read again, and nobody has said that this is meant."""
    in_memory.run("one")
    in_memory.cluster = Old(in_memory.cluster)
    me, asked = Actor(None, in_memory.airflow.instance), Reset(ShiftBy(), "because")
    moves = reset_position(in_memory.log, in_memory.cluster, me, asked, now_ms=NOW_MS, dry_run=True).moves
    assert [(one.after.offset, one.changes) for one in moves] == [(4, False)] * 3


def test_K21_an_end_that_is_not_older_is_asked_once(in_memory: Pipeline) -> None:
    in_memory.run("one")
    in_memory.cluster = Old(in_memory.cluster, is_cut=True)
    in_memory.cluster.end_offsets = in_memory.cluster.real.end_offsets
    assert in_memory.resolve("two").assignment.batch is None
    assert not in_memory.cluster.is_new


def test_K21_so_it_is_where_a_broker_answers_with_an_old_end(
    broker: KafkaBroker, proxy: KafkaProxy, topic: Callable[..., str], group: str, tmp_path: Path
) -> None:
    orders = topic(1)
    broker.produce(orders, [(0, None, "x", None)] * 10)
    client = {"bootstrap.servers": proxy.bootstrap_servers, "client.id": "K21"}
    with KafkaCluster(client) as cluster:
        pipeline = Pipeline(cluster, LocalStore(tmp_path), orders, group)
        pipeline.run("one")
        end_of_the_log = Moment("K21", LIST_OFFSETS, 2)  # the first one is for its start
        older = proxy.arm("an old end", end_of_the_log, kafka_proxy.changed(kafka_answers.list_offsets_older(3)))
        assert pipeline.resolve("two").assignment.batch is None
        assert older.proof()
