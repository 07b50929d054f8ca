"""Rules D and F end to end: where a pipeline goes on that has run before."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, GroupMoved, PlanBelowGroup, TopicRecreated, TopicVanished
from airflow_kafka_offsets.offsets.assign import split_plan
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint
from airflow_kafka_offsets.offsets.model import ClusterDescription, TopicPartition
from airflow_kafka_offsets.offsets.spec import Subscription
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, Wrapped, of, ranges, reasons
from tests.conformance.situations import EARLIEST, LATEST, at, since, specific

GROUP = {"startup_mode": "group-offsets", "auto_offset_reset": "earliest"}
MODES = [EARLIEST, LATEST, GROUP, since(at(8)), specific(p0=5)]


def tp(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def written(site: Site, orders: str) -> str:
    """A topic with ten records in each of two partitions."""
    site.hands.create_topic(orders, 2)
    for number in (0, 1):
        site.hands.produce(tp(orders, number), [at(second) for second in range(10)])
    return orders


@pytest.fixture
def pipeline(site: Site, store: WorkStore, group: str, orders: str) -> Pipeline:
    return Pipeline(site.cluster, store, group, {"topics": [orders], **EARLIEST})


# ── the checkpoint wins ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode["startup_mode"])
def test_F1_F2_the_checkpoint_beats_every_mode(
    mode: dict[str, Any], site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.run(max_records_per_partition=6)
    ask = {name: {written: {"0": 5}} if name == "specific_offsets" else value for name, value in mode.items()}
    if mode is not EARLIEST:
        pipeline.ask = {"topics": [written]}
    second = pipeline.plan(**ask)
    assert ranges(second) == {0: (6, 10), 1: (6, 10)}
    assert reasons(second) == ["checkpoint", "checkpoint"]
    assert bool([w for w in second.warnings if "not applied" in w]) == (mode is not EARLIEST)


def test_F1_what_the_first_run_decided_stays_though_it_failed(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.ask |= LATEST
    assert ranges(pipeline.plan()) == {0: (10, 10), 1: (10, 10)}
    site.hands.produce(tp(written), [at(20)] * 3)
    assert ranges(pipeline.plan()) == {0: (10, 13), 1: (10, 10)}


def test_F11_I6_a_run_that_failed_moves_nothing(site: Site, pipeline: Pipeline, written: str) -> None:
    first = pipeline.plan()
    assert pipeline.committed(*[p.topic_partition for p in first.partitions]) == {}
    assert ranges(pipeline.plan()) == ranges(first) == {0: (0, 10), 1: (0, 10)}


def test_F3_G8_a_new_partition_starts_at_its_log_start_whatever_the_mode(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    site.hands.delete_records(tp(written, 1), 4)
    pipeline.ask = {"partitions": {written: [0]}, **LATEST}
    pipeline.run()
    second = pipeline.run(partitions={written: [0, 1]})
    assert ranges(second) == {0: (10, 10), 1: (4, 10)}
    assert reasons(second)[1] == "new partition → log start, 4 lost"
    assert [p.lost for p in second.partitions] == [0, 4]


def test_F4_G8_a_new_topic_starts_at_its_log_start_whatever_the_mode(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ask = {"topic_pattern": f"{written}.*", **LATEST}
    pipeline.run()
    site.hands.create_topic(f"{written}-2")
    site.hands.produce(tp(f"{written}-2"), [at(0)] * 3)
    second = pipeline.plan()
    assert [(p.start_offset, p.end_offset, p.start_reason) for p in second.partitions] == [
        (10, 10, "checkpoint"), (10, 10, "checkpoint"), (0, 3, "new topic → log start"),
    ]  # fmt: skip


@pytest.mark.parametrize("filtered", [True, False])
def test_F5_a_topic_that_is_no_longer_subscribed_to(
    filtered: bool, site: Site, pipeline: Pipeline, written: str
) -> None:
    other = f"{written}-other"
    site.hands.create_topic(other)
    site.hands.produce(tp(other), [at(0)] * 3)
    pipeline.run(topics=[written, other], max_records_per_partition=2)

    second = pipeline.run(filter_restored_partitions=filtered)
    planned = {p.topic_partition: p.start_offset for p in second.partitions}
    assert planned == {tp(written, 0): 2, tp(written, 1): 2} | ({} if filtered else {tp(other): 2})

    again = pipeline.plan(topics=[written, other])
    assert {p.topic_partition: p.start_offset for p in again.partitions}[tp(other)] == (2 if filtered else 3)


def test_F6_a_partition_list_that_is_short_for_a_moment_drops_nothing(
    memory_site: Site, store: WorkStore, group: str, orders: str
) -> None:
    """FLINK-6006 and FLINK-7195. Only in memory: a broker lists all of its partitions."""

    class Short(Wrapped):
        def describe(self, subscription: Subscription) -> ClusterDescription:
            description: ClusterDescription = self.real.describe(subscription)
            del description.topics[orders].leaders[1]  # type: ignore[attr-defined]
            return description

    memory_site.hands.create_topic(orders, 2)
    for number in (0, 1):
        memory_site.hands.produce(tp(orders, number), [at(0)] * 10)
    pipeline = Pipeline(memory_site.cluster, store, group, {"topics": [orders], **EARLIEST})
    pipeline.run(max_records_per_partition=6)
    short = pipeline.plan(Short(memory_site.cluster))  # type: ignore[arg-type]
    pipeline.commit(short)
    assert ranges(short) == {0: (6, 10)}
    assert ranges(pipeline.plan()) == {0: (10, 10), 1: (6, 10)}


def test_F7_C7_what_was_deleted_below_the_position_is_lost_and_counted(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.run(max_records_per_partition=2)
    site.hands.delete_records(tp(written, 1), 5)
    with pytest.raises(DataLoss, match=r"start offset 2 .* is below log start offset 5 .3 offsets are gone"):
        pipeline.plan()
    second = pipeline.plan(on_data_loss="advance")
    assert ranges(second) == {0: (2, 10), 1: (5, 10)}
    assert [(p.lost, p.continuity) for p in second.partitions] == [(0, "contiguous"), (3, "gap")]


def test_F8_the_first_plan_already_leaves_real_offsets(site: Site, pipeline: Pipeline, written: str) -> None:
    first = pipeline.plan(**LATEST)
    kept = pipeline.checkpoint(first)
    assert kept is not None
    assert {t.partition: k.offset for t, k in kept.offsets.items()} == {0: 10, 1: 10}


def test_F9_an_empty_checkpoint_is_one(site: Site, pipeline: Pipeline, store: WorkStore, written: str) -> None:
    cluster_id = pipeline.plan(checkpoint_id="another").cluster_id
    empty = Checkpoint(0, None, "billing", cluster_id, pipeline.group, None, None, "latest-offset", "", {}, {})
    assert CheckpointChain(store, cluster_id, "billing").append(empty)
    assert ranges(pipeline.plan(**LATEST)) == {0: (0, 10), 1: (0, 10)}


def test_F10_another_number_of_splits_reads_each_partition_once(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.run(splits=4, max_records_per_partition=3)
    second = pipeline.plan(splits=3, split_by="flink")
    assert sorted(p.topic_partition for split in split_plan(second) for p in split) == [tp(written, 0), tp(written, 1)]
    assert ranges(second) == {0: (3, 10), 1: (3, 10)}


# ── what others do to the group and the topic ─────────────────────────────────────────────────────────────────────────


def test_a_group_that_somebody_moved_is_refused_unless_told_which_counts(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    pipeline.run(max_records_per_partition=6)
    site.hands.commit_as_somebody_else(group, of(written, [1], 3))
    with pytest.raises(GroupMoved, match=r"at 6 .* now the group is at 3"):
        pipeline.plan()
    assert ranges(pipeline.plan(on_group_moved="adopt-group")) == {0: (6, 10), 1: (3, 10)}
    assert ranges(pipeline.run(on_group_moved="keep-checkpoint")) == {0: (6, 10), 1: (6, 10)}
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 10}


def test_D11_E6_a_topic_that_was_made_again(site: Site, pipeline: Pipeline, written: str) -> None:
    """The broker drops the group's commits with the topic; the checkpoint remembers its id."""
    pipeline.run()
    site.hands.recreate_topic(written)
    site.hands.produce(tp(written), [at(30)] * 4)
    without = Pipeline(site.cluster, pipeline.store, pipeline.group, {"topics": [written], **GROUP}, None, 10)
    assert reasons(without.plan()) == ["no commit → earliest", "no commit → earliest"]
    with pytest.raises(TopicRecreated, match=written):
        pipeline.plan()
    second = pipeline.run(on_recreated="earliest")
    assert ranges(second) == {0: (0, 4), 1: (0, 0)}
    assert reasons(second) == ["topic re-created → log start"] * 2
    assert [p.continuity for p in second.partitions] == ["re-created", "re-created"]
    assert ranges(pipeline.plan()) == {0: (4, 4), 1: (0, 0)}, "and from then on it is the topic"


def test_D12_expired_commits_reset_nothing(memory_site: Site, store: WorkStore, group: str, orders: str) -> None:
    """Only in memory: a broker's shortest retention is a minute."""
    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0)] * 10)
    pipeline = Pipeline(memory_site.cluster, store, group, {"topics": [orders], **GROUP, "auto_offset_reset": "none"})
    memory_site.hands.commit_as_somebody_else(group, of(orders, [0], 2))
    pipeline.run(max_records=3)
    memory_site.hands.expire(group)  # type: ignore[attr-defined]
    second = pipeline.run()
    assert ranges(second) == {0: (5, 10)}
    assert [w for w in second.warnings if "offsets.retention.minutes" in w]
    assert pipeline.committed(tp(orders)) == {0: 10}


def test_D15_a_commit_of_a_partition_that_is_not_there_is_not_asked_for(
    memory_site: Site, store: WorkStore, group: str, orders: str
) -> None:
    """Only in memory: a broker takes no commit for a partition that it does not have."""
    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0)] * 10)
    memory_site.hands.commit_as_somebody_else(group, of(orders, [0, 9], 5))
    pipeline = Pipeline(memory_site.cluster, store, group, {"topics": [orders], **GROUP})
    assert ranges(pipeline.plan()) == {0: (5, 10)}


def test_G5_a_topic_that_a_pattern_does_not_see_any_more(site: Site, pipeline: Pipeline, written: str) -> None:
    """Deleted, or not to be described any more: the two look the same."""
    pipeline.ask = {"topic_pattern": f"{written}.*", **EARLIEST}
    site.hands.create_topic(f"{written}-2")
    site.hands.produce(tp(f"{written}-2"), [at(0)])
    pipeline.run()
    site.hands.delete_topic(f"{written}-2")
    with pytest.raises(TopicVanished, match=f"{written}-2"):
        pipeline.plan()
    second = pipeline.run(on_topic_vanished="ignore")
    assert second.vanished == (f"{written}-2",)
    kept = pipeline.checkpoint(second)
    assert kept is not None
    assert kept.offsets[tp(f"{written}-2")].offset == 1, "its offsets are kept in either case"
    third = pipeline.run(on_topic_vanished="ignore", filter_restored_partitions=False)
    assert third.vanished == (f"{written}-2",), "what is ignored is not asked for as a restored partition either"


# ── restart ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_restart_applies_the_startup_mode_once_and_may_move_the_group_back(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.run()
    pipeline.ask["restart"] = "2024-01-01"
    assert ranges(pipeline.run(max_records_per_partition=4)) == {0: (0, 4), 1: (0, 4)}
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 4, 1: 4}
    assert ranges(pipeline.run()) == {0: (4, 10), 1: (4, 10)}


def test_a_restart_whose_run_failed_still_moves_the_group_back(site: Site, pipeline: Pipeline, written: str) -> None:
    """The word is recorded with the starts; the run after it reads from them and must be able to commit."""
    pipeline.run()
    pipeline.ask |= {"restart": "2024-01-01", "max_records_per_partition": 4}
    assert ranges(pipeline.plan()) == {0: (0, 4), 1: (0, 4)}
    assert ranges(pipeline.run()) == {0: (0, 4), 1: (0, 4)}
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 4, 1: 4}


def test_restart_applies_the_startup_mode_though_the_work_store_was_lost(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    """Without a checkpoint this package's own commits are the position; restart is asked for all the same."""
    pipeline.run()
    pipeline.checkpoint_id = "renamed"
    assert ranges(pipeline.plan(restart="2024-01-01", max_records_per_partition=4)) == {0: (0, 4), 1: (0, 4)}


def test_restart_with_latest_skips_what_was_not_read_and_no_more(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.run(max_records_per_partition=6)
    site.hands.produce(tp(written), [at(20)] * 5)
    second = pipeline.run(**LATEST, restart="once")
    assert [(p.start_offset, p.skipped, p.lost) for p in second.partitions] == [(15, 9, 0), (10, 4, 0)]
    third = pipeline.plan(**LATEST, restart="twice")
    assert [(p.start_offset, p.skipped, p.lost) for p in third.partitions] == [(15, 0, 0), (10, 0, 0)]


def test_without_restart_no_plan_ends_below_the_group(site: Site, pipeline: Pipeline, written: str, group: str) -> None:
    site.hands.commit_as_somebody_else(group, of(written, [0, 1], 8))
    with pytest.raises(PlanBelowGroup, match="ends at 5, below the group's offset 8"):
        pipeline.plan(max_records_per_partition=5)
