"""Rules D, F and G end to end: where a pipeline resumes that has run before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets.engine.marks import mark_of
from airflow_kafka_offsets.errors import ClusterUnavailable, DataLoss, GroupMoved, NothingToDiscover
from airflow_kafka_offsets.kafka_values import ClusterDescription, Subscription, TopicPartition
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets, Timestamp
from tests.cluster.memory import InMemoryCluster
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, Wrapped, of
from tests.conformance.situations import Range, at

EARLIEST, LATEST = {"start": "earliest"}, {"start": "latest"}
STARTS = {
    "earliest": "earliest",
    "latest": "latest",
    "group": GroupOffsets(otherwise="earliest"),
    "time": Timestamp(at(8)),
    "offsets": SpecificOffsets({"orders": {"0": 5}}),
}


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
def pipeline(site: Site, group: str, orders: str) -> Pipeline:
    return Pipeline(site.cluster, orders, group, dict(EARLIEST))


# ── the position wins ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("start", STARTS)
def test_F1_F2_the_position_beats_every_start_and_is_the_next_offset_to_read(
    start: str, site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well(max_records=12)
    assert pipeline.next(start=STARTS[start]).planned == {0: Range(6, 10), 1: Range(6, 10)}


def test_F1_F8_what_the_first_run_decided_stays_though_it_failed(site: Site, pipeline: Pipeline, written: str) -> None:
    """Real offsets are recorded, not "latest" as a marker that a second look would resolve to later records."""
    pipeline.parameters = {**LATEST, "topics": {written: [0]}}
    pipeline.ends_well()
    site.hands.produce(tp(written), [at(20)] * 3)
    first = pipeline.next()
    assert first.ranges == {0: (10, 13)}
    site.hands.produce(tp(written), [at(20)] * 3)
    assert pipeline.ends_well().ranges == {0: (10, 13)}, "the second run does the first one's batch"
    assert pipeline.next().ranges == {0: (13, 16)}


def test_F11_I6_a_run_that_failed_moves_nothing(site: Site, pipeline: Pipeline, written: str) -> None:
    first = pipeline.next()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    assert pipeline.at == {}
    second = pipeline.next()
    assert (second.body, second.work.key) == (first.body, first.work.key)


def test_F3_G8_a_new_partition_starts_at_its_log_start_whatever_the_start(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    site.hands.delete_records(tp(written, 1), 4)
    pipeline.parameters = {"topics": {written: [0]}, **LATEST}
    pipeline.ends_well()
    assert pipeline.next(topics={written: [0, 1]}).ranges == {0: (10, 10), 1: (4, 10)}


def test_F3_a_partition_that_was_never_written_is_recorded_when_it_is_found(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.parameters = dict(LATEST)
    pipeline.ends_well()
    site.hands.add_partitions(written, 1)
    assert pipeline.ends_well().ranges == {0: (10, 10), 1: (10, 10), 2: (0, 0)}
    site.hands.produce(tp(written, 2), [at(20)] * 3)
    site.hands.delete_records(tp(written, 2), 2)
    with pytest.raises(DataLoss, match="2 offsets lost"):
        pipeline.next()


def test_F4_G8_a_new_topic_starts_at_its_log_start_whatever_the_start(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.parameters = {"topics": f"^{written}.*", **LATEST}
    pipeline.ends_well()
    site.hands.create_topic(f"{written}-2")
    site.hands.produce(tp(f"{written}-2"), [at(0)] * 3)
    assert pipeline.next().by_topic == {
        tp(written, 0): (10, 10), tp(written, 1): (10, 10), tp(f"{written}-2"): (0, 3),
    }  # fmt: skip


@pytest.mark.parametrize("filtered", [True, False])
def test_F5_a_topic_that_is_no_longer_subscribed_to(
    filtered: bool, site: Site, pipeline: Pipeline, written: str
) -> None:
    """Left out of the batch; its offset is kept, and read on from when it is subscribed to again."""
    other = f"{written}-other"
    site.hands.create_topic(other)
    site.hands.produce(tp(other), [at(0)] * 3)
    pipeline.ends_well(topics=[written, other], max_records=6)
    second = pipeline.ends_well(filter_restored_partitions=filtered)
    expected = {tp(written, 0): (2, 10), tp(written, 1): (2, 10)}
    assert second.by_topic == expected | ({} if filtered else {tp(other): (2, 3)})
    assert pipeline.position[tp(other)] == (2 if filtered else 3), "kept, or read on"
    again = pipeline.next(topics=[written, other], filter_restored_partitions=filtered)
    assert again.by_topic.get(tp(other)) == ((2, 3) if filtered else None), "where it was, or nothing is left"


def test_F5_a_topic_that_no_longer_exists_stops_no_run(site: Site, pipeline: Pipeline, written: str) -> None:
    other = f"{written}-other"
    site.hands.create_topic(other)
    pipeline.ends_well(topics=[written, other])
    site.hands.delete_topic(other)
    site.hands.produce(tp(written), [at(20)])
    assert pipeline.next(filter_restored_partitions=False).ranges == {0: (10, 11), 1: (10, 10)}


def test_F6_a_partition_list_that_is_short_for_a_moment_drops_nothing(
    memory_site: Site, group: str, orders: str
) -> None:
    """FLINK-6006 and FLINK-7195. Only in memory: a broker lists all of its partitions."""

    class Short(Wrapped):
        def describe(self, subscription: Subscription) -> ClusterDescription:
            description: ClusterDescription = self.real.describe(subscription)
            description.topics[orders].leaders.pop(1, None)  # type: ignore[attr-defined]
            return description

    memory_site.hands.create_topic(orders, 2)
    for number in (0, 1):
        memory_site.hands.produce(tp(orders, number), [at(0)] * 10)
    pipeline = Pipeline(memory_site.cluster, orders, group, dict(EARLIEST))
    pipeline.ends_well(max_records=12)
    whole, pipeline.cluster = pipeline.cluster, Short(memory_site.cluster)
    assert pipeline.ends_well().ranges == {0: (6, 10)}
    assert pipeline.at == {0: 10, 1: 6}
    pipeline.cluster = whole
    assert pipeline.next().ranges == {0: (10, 10), 1: (6, 10)}


def test_F7_C7_what_was_deleted_below_the_position_is_lost_and_counted(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well(max_records=4)
    site.hands.delete_records(tp(written, 1), 5)
    with pytest.raises(DataLoss, match=r"start offset 2 .* log start offset 5 .3 offsets lost") as refused:
        pipeline.next()
    assert len(refused.value.partitions) == 1
    assert pipeline.next(on_data_loss="advance").planned == {0: Range(2, 10), 1: Range(5, 10, lost=3)}


# ── what others do to the group and the topic ─────────────────────────────────────────────────────────────────────────


def test_D11_E6_a_re_created_topic_is_data_loss_by_its_id(site: Site, pipeline: Pipeline, written: str) -> None:
    """The broker drops the group's commits with the topic; the position remembers its id."""
    pipeline.ends_well()
    site.hands.recreate_topic(written)
    site.hands.produce(tp(written), [at(30)] * 14)
    fresh = Pipeline(site.cluster, written, pipeline.group, {"start": GroupOffsets(otherwise="earliest")})
    assert fresh.next().ranges == {0: (0, 14), 1: (0, 0)}, "to another pipeline there is no commit"
    with pytest.raises(DataLoss, match=written) as refused:
        pipeline.next()
    assert len(refused.value.partitions) == 2
    second = pipeline.ends_well(on_data_loss="advance")
    assert second.planned == {0: Range(0, 14), 1: Range(0, 0)}, "all that was known of the old topic had been read"
    site.hands.produce(tp(written), [at(40)])
    assert pipeline.next().ranges == {0: (14, 15), 1: (0, 0)}, "and from then on it is the topic"


def test_E6_F3_offsets_of_a_topic_re_created_with_fewer_partitions_are_no_position(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well()
    site.hands.recreate_topic(written, 1)
    pipeline.ends_well(on_data_loss="advance")
    site.hands.add_partitions(written, 1)
    site.hands.produce(tp(written, 1), [at(0)] * 20)
    assert pipeline.next(on_data_loss="advance").ranges == {0: (0, 0), 1: (0, 20)}


def test_D12_expired_commits_reset_nothing(memory_site: Site, group: str, orders: str) -> None:
    """Only in memory: a broker's shortest retention is a minute."""
    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0)] * 10)
    pipeline = Pipeline(memory_site.cluster, orders, group)
    memory_site.hands.commit_as_somebody_else(group, of(orders, [0], 2))
    pipeline.ends_well(max_records=3)
    memory_site.hands.expire(group)
    assert pipeline.ends_well().ranges == {0: (5, 10)}
    assert pipeline.committed(tp(orders)) == {0: 10}


def test_D15_a_commit_of_a_partition_that_is_not_there_is_not_asked_for(
    memory_site: Site, group: str, orders: str
) -> None:
    """Only in memory: a broker takes no commit for a partition that it does not have."""
    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0)] * 10)
    memory_site.hands.commit_as_somebody_else(group, of(orders, [0, 9], 5))
    pipeline = Pipeline(memory_site.cluster, orders, group)
    assert pipeline.ends_well().ranges == {0: (5, 10)}
    left = memory_site.cluster.committed(group, [tp(orders, 9)])[tp(orders, 9)]
    assert (left.offset, mark_of(left.metadata)) == (5, None), "nor written"


def test_G5_a_topic_that_a_pattern_does_not_see_any_more_is_refused_until_its_end_is_accepted(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    """Deleted, or not to be described any more: the two look the same."""
    pipeline.parameters = {"topics": f"^{written}.*", **EARLIEST}
    site.hands.create_topic(f"{written}-2")
    site.hands.produce(tp(f"{written}-2"), [at(0)])
    pipeline.ends_well()
    site.hands.delete_topic(f"{written}-2")
    site.hands.produce(tp(written), [at(20)])
    with pytest.raises(DataLoss, match=f"{written}-2-0: the topic was deleted"):
        pipeline.next()
    both = {tp(written, 0): (10, 11), tp(written, 1): (10, 10)}
    assert pipeline.ends_well(on_data_loss="advance").by_topic == both
    assert tp(f"{written}-2") not in pipeline.position


@pytest.mark.parametrize("has_run", [False, True], ids=["first run", "later run"])
@pytest.mark.parametrize(
    ("topics", "missing"),
    [
        pytest.param(lambda t: [t, f"{t}-a", f"{t}-b"], ["{}-a", "{}-b"], id="G1"),
        pytest.param(lambda t: f"^{t}-.*", ["{}-.*"], id="G3"),
        pytest.param(lambda t: {t: [0, 4, 9]}, ["{}-4", "{}-9"], id="G7"),
    ],
)
def test_a_run_is_refused_what_does_not_exist_and_leaves_no_batch(
    topics: Callable[[str], Any], missing: list[str], has_run: bool, pipeline: Pipeline, written: str
) -> None:
    if has_run:
        pipeline.ends_well(max_records=12)
    before = pipeline.log.newest()
    with pytest.raises(NothingToDiscover) as refused:
        pipeline.next(topics=topics(written))
    assert all(name.format(written) in str(refused.value) for name in missing), str(refused.value)
    assert pipeline.log.newest() == before


def test_G11_asking_for_a_topic_does_not_create_it(pipeline: Pipeline, orders: str) -> None:
    for _ in range(2):
        with pytest.raises(NothingToDiscover, match=orders):
            pipeline.next()


def test_F13_a_partition_that_is_excluded_keeps_its_position(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.ends_well(max_records=8)
    assert pipeline.ends_well(exclude=[f"{written}-1"]).ranges == {0: (4, 10)}
    assert pipeline.at == {0: 10, 1: 4}
    assert pipeline.next().ranges == {0: (10, 10), 1: (4, 10)}


def test_L7_F13_a_partition_without_a_leader_is_excluded_and_the_others_go_on(group: str) -> None:
    """Only in memory: one broker never loses its leadership. A first run needs the start of every partition."""
    cluster = InMemoryCluster()
    cluster.create_topic("orders", 2)
    pipeline = Pipeline(cluster, "orders", group, dict(EARLIEST))
    cluster.elect(tp("orders", 1), None)
    with pytest.raises(ClusterUnavailable, match=r"orders-1.*no leader"):
        pipeline.next(exclude=["orders-1"])
    cluster.elect(tp("orders", 1), 1)
    pipeline.ends_well()
    cluster.elect(tp("orders", 1), None)
    cluster.produce(tp("orders"), [at(0)] * 3)
    assert pipeline.ends_well(exclude=["orders-1"]).ranges == {0: (0, 3)}


# ── the group beside the log ──────────────────────────────────────────────────────────────────────────────────────────


class Overtaken(Wrapped):
    """A cluster whose group another run commits to before it is first read."""

    def __init__(self, real: Any, meanwhile: Callable[[], object]) -> None:
        super().__init__(real)
        self.meanwhile: list[Callable[[], object]] = [meanwhile]

    def committed(self, *asked: Any, **how: Any) -> Any:
        if self.meanwhile:
            self.meanwhile.pop()()
        return self.real.committed(*asked, **how)


def test_a_commit_that_is_made_while_a_run_looks_is_no_sign_of_an_older_log(
    site: Site, pipeline: Pipeline, group: str, written: str
) -> None:
    """The group is looked at before the log; the other way round its mark would be of a batch that the log lacks."""
    pipeline.ends_well(max_records=4)
    cluster = Overtaken(site.cluster, lambda: pipeline.ends_well(max_records=4))
    slow = Pipeline(cluster, written, group, dict(EARLIEST), store=pipeline.store, runs=10)
    assert slow.next().ranges == {0: (4, 10), 1: (4, 10)}


def test_a_group_at_the_end_of_an_unfinished_batch_was_moved_by_another_client(
    site: Site, pipeline: Pipeline, group: str, written: str
) -> None:
    """The position is where that batch begins, until it is committed."""
    pipeline.ends_well(max_records=4)
    pipeline.next()
    site.hands.commit_as_somebody_else(group, of(written, (0, 1), 10))
    with pytest.raises(GroupMoved) as refused:
        pipeline.next()
    assert all("10" in line and "position" in line and "2" in line for line in refused.value.differences)


@pytest.mark.parametrize("end", ["latest", Timestamp(at(5))], ids=["in sequence", "by window"])
def test_B6_B12_the_questions_are_asked_in_the_order_that_the_rules_need(
    end: Any, memory_site: Site, orders: str
) -> None:
    """What is produced meanwhile then lies past an end that is known, and is the next run's."""
    asked: list[str] = []

    class Asked(Wrapped):
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return super().__getattr__(name)

    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0), at(9)])
    Pipeline(Asked(memory_site.cluster), orders, None, {"start": Timestamp(at(0)), "end": end}).next()
    questions = ["log_start_offsets", "end_offsets", "offsets_for_times"]
    assert [name for name in dict.fromkeys(asked) if name in questions] == questions


def test_B6_a_record_that_is_produced_between_the_look_ups_is_the_next_runs(
    memory_site: Site, group: str, orders: str
) -> None:
    class Growing(Wrapped):
        def offsets_for_times(self, *asked: Any, **how: Any) -> Any:
            self.real.produce(tp(orders), [at(60)])
            return self.real.offsets_for_times(*asked, **how)

    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0)])
    pipeline = Pipeline(Growing(memory_site.cluster), orders, group, {"start": Timestamp(at(30))})
    assert pipeline.ends_well().ranges == {0: (1, 1)}
    assert pipeline.next().ranges == {0: (1, 2)}


def test_records_deleted_where_a_batch_reads_nothing_stop_no_run(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.ends_well()
    site.hands.produce(tp(written, 0), [at(20)] * 3)
    unfinished = pipeline.next()
    assert unfinished.ranges == {0: (10, 13), 1: (10, 10)}
    site.hands.produce(tp(written, 1), [at(20)] * 3)
    site.hands.delete_records(tp(written, 1), 12)
    assert pipeline.next().body == unfinished.body
