"""Rules D and F end to end: where a pipeline goes on that has run before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, GroupMoved, NothingToDiscover, TopicRecreated, TopicVanished
from airflow_kafka_offsets.kafka_values import Actor, ClusterDescription, TopicPartition
from airflow_kafka_offsets.log.entries import Committed, Planned
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.request.subscription import Subscription
from airflow_kafka_offsets.stores.local import LocalStore
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, Wrapped, of, ranges, reasons
from tests.conformance.situations import EARLIEST, LATEST, NOW, at, since, specific

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
def pipeline(site: Site, store: LocalStore, group: str, orders: str) -> Pipeline:
    return Pipeline(site.cluster, store, orders, group, dict(EARLIEST))


# ── the position wins ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode["startup_mode"])
def test_F1_F2_the_position_beats_every_mode_and_is_the_next_offset_to_read(
    mode: dict[str, Any], site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well(max_records_per_partition=6)
    pipeline.parameters = {
        name: {written: {"0": 5}} if name == "specific_offsets" else value for name, value in mode.items()
    }
    second = pipeline.next().plan
    assert ranges(second) == {0: (6, 10), 1: (6, 10)}
    assert reasons(second) == ["position", "position"]
    assert [p.continuity for p in second.partitions] == ["contiguous", "contiguous"]
    assert bool([w for w in second.warnings if "not applied" in w and "restart" in w]) == (mode is not EARLIEST)


def test_F1_what_the_first_run_decided_stays_though_it_failed(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.parameters = dict(LATEST)
    assert ranges(pipeline.next().plan) == {0: (10, 10), 1: (10, 10)}
    site.hands.produce(tp(written), [at(20)] * 3)
    assert ranges(pipeline.ends_well().plan) == {0: (10, 10), 1: (10, 10)}, "the second run does its batch again"
    assert ranges(pipeline.next().plan) == {0: (10, 13), 1: (10, 10)}


def test_F11_I6_a_run_that_failed_moves_nothing(site: Site, pipeline: Pipeline, written: str) -> None:
    first = pipeline.next()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    assert pipeline.newest.log.committed is None
    assert pipeline.next().plan == first.plan


def test_F3_G8_a_new_partition_starts_at_its_log_start_whatever_the_mode(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    site.hands.delete_records(tp(written, 1), 4)
    pipeline.parameters = {"partitions": {written: [0]}, **LATEST}
    pipeline.ends_well()
    second = pipeline.next(partitions={written: [0, 1]}).plan
    assert ranges(second) == {0: (10, 10), 1: (4, 10)}
    assert reasons(second)[1] == "new partition → log start, 4 lost"
    assert [(p.lost, p.continuity) for p in second.partitions] == [(0, "contiguous"), (4, "new")]


def test_F4_G8_a_new_topic_starts_at_its_log_start_whatever_the_mode(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.parameters = {"topic_pattern": f"{written}.*", **LATEST}
    pipeline.ends_well()
    site.hands.create_topic(f"{written}-2")
    site.hands.produce(tp(f"{written}-2"), [at(0)] * 3)
    second = pipeline.next().plan
    assert [(p.start_offset, p.end_offset, p.start_reason, p.lost) for p in second.partitions] == [
        (10, 10, "position", 0), (10, 10, "position", 0), (0, 3, "new topic → log start", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "since_ms", "expected"),
    [
        ("earliest", at(7), (4, 10, "new partition → log start, 4 lost", 4, 0)),
        ("latest", at(7), (10, 10, "new partition → end", 0, 6)),
        ("timestamp", at(7), (7, 10, "new partition → timestamp 2024-01-01T10:00:07Z", 0, 3)),
        ("timestamp", at(2), (4, 10, "new partition → timestamp 2024-01-01T10:00:02Z, 4 lost", 4, 0)),
    ],
)
def test_F15_a_new_partition_starts_where_the_policy_says(
    answer: str, since_ms: int, expected: tuple[int, int, str, int, int], site: Site, pipeline: Pipeline, written: str
) -> None:
    site.hands.delete_records(tp(written, 1), 4)
    pipeline.parameters = {"partitions": {written: [0]}, **since(since_ms), "new_partition": answer}
    pipeline.ends_well()
    second = pipeline.ends_well(partitions={written: [0, 1]}).plan.partitions[1]
    assert (second.start_offset, second.end_offset, second.start_reason, second.lost, second.skipped) == expected
    assert pipeline.at() == {0: 10, 1: 10}
    site.hands.produce(tp(written, 1), [at(20)])
    third = pipeline.next(partitions={written: [0, 1]}).plan
    assert ranges(third)[1] == (10, 11), "from then on it is a partition like the others"


def test_F15_latest_is_decided_once_also_for_a_partition_that_was_never_written(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    """What comes after the run that has seen it is not skipped by the next one."""
    pipeline.parameters = {**EARLIEST, "new_partition": "latest"}
    pipeline.ends_well()
    site.hands.add_partitions(written, 1)
    assert ranges(pipeline.ends_well().plan) == {0: (10, 10), 1: (10, 10), 2: (0, 0)}
    site.hands.produce(tp(written, 2), [at(20)] * 3)
    assert ranges(pipeline.ends_well().plan)[2] == (0, 3)


def test_F15_a_new_start_stays_though_its_batch_is_planned_anew(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.parameters = {**EARLIEST, "new_partition": "latest"}
    pipeline.ends_well(partitions={written: [0]})
    assert ranges(pipeline.next().plan) == {0: (10, 10), 1: (10, 10)}
    site.hands.produce(tp(written, 1), [at(20)] * 3)
    assert ranges(pipeline.ends_well(re_plan=True).plan) == {0: (10, 10), 1: (10, 13)}


def test_F15_a_topic_that_is_made_again_is_no_new_one(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.parameters = {**EARLIEST, "new_partition": "latest", "topic_recreated": "earliest"}
    pipeline.ends_well()
    site.hands.recreate_topic(written)
    site.hands.produce(tp(written), [at(30)] * 4)
    assert ranges(pipeline.ends_well().plan) == {0: (0, 4), 1: (0, 0)}


def test_F15_nor_is_a_topic_of_another_cluster(memory_site: Site, store: LocalStore, group: str, orders: str) -> None:
    """Only in memory: ``cluster_changed`` says where its partitions start."""
    other = type(memory_site.cluster)(cluster_id="other")  # type: ignore[call-arg]
    for cluster in (memory_site.cluster, other):
        cluster.create_topic(orders)  # type: ignore[attr-defined]
        cluster.produce(tp(orders), [at(0)] * 5)  # type: ignore[attr-defined]
    pipeline = Pipeline(memory_site.cluster, store, orders, group, {**EARLIEST, "new_partition": "latest"})
    pipeline.ends_well()
    pipeline.cluster = other
    assert ranges(pipeline.next(cluster_changed="earliest").plan) == {0: (0, 5)}


@pytest.mark.parametrize("filtered", [True, False])
def test_F5_a_topic_that_is_no_longer_subscribed_to(
    filtered: bool, site: Site, pipeline: Pipeline, written: str
) -> None:
    """Left out of the plan and said; its offset is kept, and read on from when it is subscribed to again."""
    other = f"{written}-other"
    site.hands.create_topic(other)
    site.hands.produce(tp(other), [at(0)] * 3)
    pipeline.ends_well(topics=[written, other], max_records_per_partition=2)

    second = pipeline.ends_well(filter_restored_partitions=filtered).plan
    planned = {p.topic_partition: p.start_offset for p in second.partitions}
    assert planned == {tp(written, 0): 2, tp(written, 1): 2} | ({} if filtered else {tp(other): 2})
    assert bool([w for w in second.warnings if other in w and "they are saved" in w]) == filtered

    left = 2 if filtered else 3
    assert pipeline.position.offsets[tp(other)].offset == left, "kept, or read on"
    assert pipeline.position.topic_ids[other] is not None
    again = pipeline.next(topics=[written, other], filter_restored_partitions=filtered)
    if filtered:
        assert {p.topic_partition: (p.start_offset, p.end_offset) for p in again.plan.partitions}[tp(other)] == (2, 3)
    else:
        assert again.assignment.batch is None, "nothing is left of either"


def test_F5_G1_a_topic_that_is_read_on_and_does_not_exist_any_more(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    other = f"{written}-other"
    site.hands.create_topic(other)
    pipeline.ends_well(topics=[written, other])
    site.hands.delete_topic(other)
    with pytest.raises(NothingToDiscover, match=r"filter_restored_partitions=False reads them on\. Set it to True"):
        pipeline.next(filter_restored_partitions=False)
    site.hands.produce(tp(written), [at(20)])
    assert ranges(pipeline.next().plan) == {0: (10, 11), 1: (10, 10)}


def test_F6_a_partition_list_that_is_short_for_a_moment_drops_nothing(
    memory_site: Site, store: LocalStore, group: str, orders: str
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
    pipeline = Pipeline(memory_site.cluster, store, orders, group, dict(EARLIEST))
    pipeline.ends_well(max_records_per_partition=6)
    whole, pipeline.cluster = pipeline.cluster, Short(memory_site.cluster)
    assert ranges(pipeline.ends_well().plan) == {0: (6, 10)}
    assert pipeline.at() == {0: 10, 1: 6}
    pipeline.cluster = whole
    assert ranges(pipeline.next().plan) == {0: (10, 10), 1: (6, 10)}


def test_F7_C7_what_was_deleted_below_the_position_is_lost_and_counted(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well(max_records_per_partition=2)
    site.hands.delete_records(tp(written, 1), 5)
    with pytest.raises(DataLoss, match=r"start offset 2 .* is below log start offset 5 .3 offsets are gone") as refused:
        pipeline.next()
    assert len(refused.value.partitions) == 1
    second = pipeline.next(data_loss="advance").plan
    assert ranges(second) == {0: (2, 10), 1: (5, 10)}
    assert [(p.lost, p.continuity) for p in second.partitions] == [(0, "contiguous"), (3, "gap")]


def test_F8_the_first_plan_already_leaves_real_offsets(site: Site, pipeline: Pipeline, written: str) -> None:
    """Not "latest" as a marker, to be looked up once more by who does a failed run's batch, or plans it anew."""
    pipeline.parameters = dict(LATEST)
    first = pipeline.next()
    assert [(p.position, p.start_offset) for p in first.plan.partitions] == [(10, 10), (10, 10)]
    site.hands.produce(tp(written), [at(20)] * 3)
    assert pipeline.next().plan == first.plan
    anew = pipeline.next(re_plan=True)
    assert (anew.batch_key, ranges(anew.plan)) == (first.batch_key, {0: (10, 13), 1: (10, 10)})
    assert [p.skipped for p in first.plan.partitions] == [10, 10]
    assert [(p.position, p.skipped) for p in anew.plan.partitions] == [(10, 10), (10, 10)]
    anew.commit(require_report=False)
    assert pipeline.at() == {0: 13, 1: 10}


def test_F9_an_empty_position_is_one(site: Site, pipeline: Pipeline, written: str) -> None:
    """Of a first run that found nothing to subscribe to, in some version to come."""
    plan = pipeline.next(pipeline_id="another", commit_mode="checkpoint-only").plan
    empty = Position(plan.found.cluster_id, {}, {}, "latest-offset")
    batch = pipeline.log.begin(1, Planned(plan))
    assert batch is not None
    assert batch.append(Committed(Actor(None), NOW, plan.plan_id, position=empty))
    assert ranges(pipeline.next(**LATEST).plan) == {0: (0, 10), 1: (0, 10)}


def test_F10_another_number_of_splits_reads_each_partition_once(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.ends_well(splits=4, max_records_per_partition=3)
    second = pipeline.next(splits=3, split_by="flink").plan
    assert second.split_count == len(second.splits) == 3
    assert sorted(p.topic_partition for split in second.splits for p in split) == [tp(written, 0), tp(written, 1)]
    assert ranges(second) == {0: (3, 10), 1: (3, 10)}


# ── what others do to the group and the topic ─────────────────────────────────────────────────────────────────────────


def test_D11_E6_a_topic_that_was_made_again(site: Site, pipeline: Pipeline, written: str) -> None:
    """The broker drops the group's commits with the topic; the position remembers its id."""
    pipeline.ends_well()
    site.hands.recreate_topic(written)
    site.hands.produce(tp(written), [at(30)] * 4)
    assert reasons(pipeline.first(**GROUP)) == ["no commit → earliest", "no commit → earliest"]
    with pytest.raises(TopicRecreated, match=written):
        pipeline.next()
    second = pipeline.ends_well(topic_recreated="earliest").plan
    assert ranges(second) == {0: (0, 4), 1: (0, 0)}
    assert reasons(second) == ["topic re-created → log start"] * 2
    assert [p.continuity for p in second.partitions] == ["re-created", "re-created"]
    site.hands.produce(tp(written), [at(40)])
    assert ranges(pipeline.next().plan) == {0: (4, 5), 1: (0, 0)}, "and from then on it is the topic"


def test_E6_F3_what_a_topic_had_before_it_was_made_again_with_fewer_partitions_is_no_position(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well()
    site.hands.recreate_topic(written, 1)
    pipeline.ends_well(topic_recreated="earliest")
    assert pipeline.at() == {0: 0}
    site.hands.add_partitions(written, 1)
    site.hands.produce(tp(written, 1), [at(0)] * 20)
    assert ranges(pipeline.next().plan) == {0: (0, 0), 1: (0, 20)}


def test_D12_expired_commits_reset_nothing(memory_site: Site, store: LocalStore, group: str, orders: str) -> None:
    """Only in memory: a broker's shortest retention is a minute."""
    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0)] * 10)
    pipeline = Pipeline(memory_site.cluster, store, orders, group, {**GROUP, "auto_offset_reset": "none"})
    memory_site.hands.commit_as_somebody_else(group, of(orders, [0], 2))
    pipeline.ends_well(max_records=3)
    memory_site.hands.expire(group)
    second = pipeline.ends_well().plan
    assert ranges(second) == {0: (5, 10)}
    assert pipeline.committed(tp(orders)) == {0: 10}


def test_D15_a_commit_of_a_partition_that_is_not_there_is_not_asked_for(
    memory_site: Site, store: LocalStore, group: str, orders: str
) -> None:
    """Only in memory: a broker takes no commit for a partition that it does not have."""
    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0)] * 10)
    memory_site.hands.commit_as_somebody_else(group, of(orders, [0, 9], 5))
    pipeline = Pipeline(memory_site.cluster, store, orders, group, dict(GROUP))
    assert ranges(pipeline.ends_well().plan) == {0: (5, 10)}
    left = memory_site.cluster.committed(group, [tp(orders, 9)])[tp(orders, 9)]
    assert (left.offset, CommitMetadata.of(left)) == (5, None), "nor written"


def test_G5_a_topic_that_a_pattern_does_not_see_any_more(site: Site, pipeline: Pipeline, written: str) -> None:
    """Deleted, or not to be described any more: the two look the same."""
    pipeline.parameters = {"topic_pattern": f"{written}.*", **EARLIEST}
    site.hands.create_topic(f"{written}-2")
    site.hands.produce(tp(f"{written}-2"), [at(0)])
    pipeline.ends_well()
    site.hands.delete_topic(f"{written}-2")
    site.hands.produce(tp(written), [at(20)])
    with pytest.raises(TopicVanished, match=f"{written}-2"):
        pipeline.next()
    second = pipeline.ends_well(topic_vanished="drop").plan
    assert second.found.vanished == (f"{written}-2",)
    assert pipeline.position.offsets[tp(f"{written}-2")].offset == 1, "its offsets are kept in either case"
    site.hands.produce(tp(written), [at(20)])
    third = pipeline.next(topic_vanished="drop", filter_restored_partitions=False).plan
    assert third.found.vanished == (f"{written}-2",), "what is ignored is not asked for as a restored partition either"


@pytest.mark.parametrize("has_run", [False, True], ids=["first run", "later run"])
@pytest.mark.parametrize(
    ("ask", "missing"),
    [
        pytest.param(lambda t: {"topics": [t, f"{t}-a", f"{t}-b"]}, ["{}-a ", "{}-b "], id="G1"),
        pytest.param(lambda t: {"topic_pattern": f"{t}-.*"}, ["{}-.*"], id="G3"),
        pytest.param(lambda t: {"partitions": {t: [0, 4, 9]}}, ["{}[4]", "{}[9]"], id="G7"),
    ],
)
def test_a_run_is_refused_what_does_not_exist_and_leaves_no_batch(
    ask: Callable[[str], dict[str, Any]], missing: list[str], has_run: bool, pipeline: Pipeline, written: str
) -> None:
    """A run, and not only a look at what it would do; what is missing is not left out of its plan in silence."""
    if has_run:
        pipeline.ends_well(max_records_per_partition=6)
    before = pipeline.log.newest()
    with pytest.raises(NothingToDiscover) as refused:
        pipeline.next(**ask(written))
    assert all(name.format(written) in str(refused.value) for name in missing), str(refused.value)
    assert pipeline.log.newest() == before


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
    site: Site, pipeline: Pipeline, store: LocalStore, group: str, written: str
) -> None:
    """The group is looked at before the log; the other way round its mark would be of a batch that the log lacks."""
    pipeline.ends_well(max_records_per_partition=2)
    cluster = Overtaken(site.cluster, lambda: pipeline.ends_well(max_records_per_partition=2))
    slow = Pipeline(cluster, store, written, group, dict(EARLIEST), runs=10)
    assert ranges(slow.next().plan) == {0: (4, 10), 1: (4, 10)}


def test_a_group_at_the_end_of_an_unfinished_batch_was_moved_by_somebody(
    site: Site, pipeline: Pipeline, group: str, written: str
) -> None:
    """The position is where that batch begins, until it is committed."""
    pipeline.ends_well(max_records_per_partition=2)
    pipeline.next()
    site.hands.commit_as_somebody_else(group, of(written, (0, 1), 10))
    with pytest.raises(GroupMoved, match="the position is 2, and the group is at 10"):
        pipeline.next()


def test_B6_B12_the_questions_are_asked_in_the_order_that_the_rules_need(
    memory_site: Site, store: LocalStore, group: str, orders: str
) -> None:
    """What is produced meanwhile then lies past an end that is known, and is the next run's."""
    asked: list[str] = []

    class Asked(Wrapped):
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return super().__getattr__(name)

    memory_site.hands.create_topic(orders)
    memory_site.hands.produce(tp(orders), [at(0), at(9)])
    until = {"bounded_mode": "timestamp", "bounded_timestamp": at(5)}
    Pipeline(Asked(memory_site.cluster), store, orders, group, {**since(at(0)), **until}).first()
    questions = ["newest_timestamps", "log_start_offsets", "end_offsets", "offsets_for_times"]
    assert list(dict.fromkeys(name for name in asked if name in questions)) == questions


def test_what_was_deleted_where_a_batch_reads_nothing_stops_nobody(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well()
    site.hands.produce(tp(written, 0), [at(20)] * 3)
    unfinished = pipeline.next().plan
    assert ranges(unfinished) == {0: (10, 13), 1: (10, 10)}
    site.hands.produce(tp(written, 1), [at(20)] * 3)
    site.hands.delete_records(tp(written, 1), 12)
    assert pipeline.next().plan == unfinished
