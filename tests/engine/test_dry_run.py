"""What a dry run writes is seen by the dry run alone."""

import pytest

from airflow_kafka_offsets.engine.dry_run import DryStore, dry_cluster
from airflow_kafka_offsets.errors import GroupActive
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import tp


def test_a_store_keeps_its_writes_to_itself() -> None:
    behind = MemoryStore()
    behind.create("a/1.json", b"one")
    store = DryStore(behind)
    assert store.create("a/2.json", b"two")
    assert not store.create("a/1.json", b"other")  # a name that is there is taken
    assert store.create("a/1.json", b"one")
    assert (store.list("a"), store.list(""), store.get("a/2.json")) == (["1.json", "2.json"], ["a/"], b"two")
    store.delete("a/1.json")
    assert behind.objects == {"a/1.json": b"one"}


def test_a_group_is_written_for_the_dry_run_alone(cluster: InMemoryCluster) -> None:
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3), tp(1): CommittedOffset(4)})
    dry = dry_cluster(cluster)
    dry.commit_offsets("lake", {tp(0): CommittedOffset(9)})
    assert dry.committed("lake", [tp(0), tp(1)]) == {tp(0): CommittedOffset(9), tp(1): CommittedOffset(4)}
    assert cluster.groups["lake"][tp(0)] == CommittedOffset(3)
    with cluster.live_member("lake", "orders"), pytest.raises(GroupActive) as active:
        dry.commit_offsets("lake", {tp(0): CommittedOffset(9)})
    with cluster.live_member("lake", "orders"), pytest.raises(GroupActive) as real:
        cluster.commit_offsets("lake", {tp(0): CommittedOffset(9)})
    assert str(active.value) == str(real.value)
