"""One unfinished batch at a time, and a batch is frozen (docs/log.md, rules 1 and 2). Over both clusters."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, ReadNotVerified, StoreDamaged, TopicRecreated
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.plan import number_of
from airflow_kafka_offsets.request.times import iso
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.objects import create_object
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline, RecordsGone, entries
from tests.contract.troubles import EventfulStore, Killed, Meanwhile, die, produce

ALL_FOUR = {number: [0, 1, 2, 3] for number in range(3)}
ALL_SIX = {number: [0, 1, 2, 3, 4, 5] for number in range(3)}

# ── one after the other ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_runs_read_every_record_once_and_the_group_follows_each(
    cluster: AnyCluster, store: LocalStore, orders: str, group: str
) -> None:
    pipeline = Pipeline(cluster.reader, store, orders, group)
    for number in range(1, 5):
        for partition in range(3):
            cluster.produce(orders, number + partition, partition)
        run = pipeline.run(f"run-{number}")
        assert run.number == number
        assert pipeline.held() == pipeline.at() == dict(enumerate(end for _, end in run.ranges))
    written = {number: sum(number + count for count in range(1, 5)) for number in range(3)}
    assert pipeline.lake.offsets() == {number: list(range(count)) for number, count in written.items()}


def test_a_batch_goes_on_from_the_one_before_and_has_a_key_of_its_own(in_memory: Pipeline, memory: AnyCluster) -> None:
    first = in_memory.run("one")
    produce(memory, in_memory)
    second = in_memory.run("two")
    assert re.fullmatch(r"000000000[12]-\d{8}T\d{6}-[a-z0-9]{4}", first.batch_key)
    assert (first.plan.batch.after, second.plan.batch.after) == (None, first.batch_key)  # type: ignore[union-attr]
    assert in_memory.lake.keys == [first.batch_key, second.batch_key]


def test_two_logs_of_one_moment_have_no_key_in_common(in_memory: Pipeline, tmp_path: Any) -> None:
    """Their outputs may meet where a store was lost: the four characters tell them apart."""
    keys = set()
    for number in range(20):
        store = LocalStore(tmp_path / str(number))
        keys.add(replace(in_memory, store=store, group=f"g{number}").resolve("one").batch_key)
    assert len(keys) == 20


# ── what another run left ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_failed_run_left_is_done_by_the_next_with_its_offsets(cluster: AnyCluster, pipeline: Pipeline) -> None:
    failed = pipeline.resolve("failed")
    produce(cluster, pipeline)

    following = pipeline.resolve("next")

    assert (following.number, following.batch_key, following.plan) == (1, failed.batch_key, failed.plan)
    since = iso(failed.plan.resolved_at_ms // 60_000 * 60_000)
    assert (
        following.sentence == f"does batch 1 again: run dag/failed/resolve, which took it at {since}, did not commit it"
    )
    assert following.assignment.waiting == 6, "what has come since is the next run's"
    following.done()
    assert pipeline.run("third").ranges == [(4, 6)] * 3
    assert pipeline.lake.offsets() == ALL_SIX


def test_a_run_that_fails_after_its_write_leaves_nothing_beside_the_next_ones_rows(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """A check in ``before_commit`` fails: 12 records are in the output, and the next run replaces them."""
    pipeline.resolve("failed").spark()
    assert pipeline.lake.offsets() == ALL_FOUR
    produce(cluster, pipeline)

    pipeline.run("next")

    assert pipeline.lake.offsets() == ALL_FOUR, "each record is there once"
    pipeline.run("third")
    assert pipeline.lake.offsets() == ALL_SIX


def test_two_runs_that_fail_in_a_row_leave_one_batch(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = pipeline.resolve("one").spark()
    second = pipeline.resolve("two").spark()
    third = pipeline.run("three")
    assert first.batch_key == second.batch_key == third.batch_key
    assert pipeline.lake.offsets() == ALL_FOUR
    assert entries(third.batch) == ["plan", "taken", "taken", "commit"]


def test_a_first_run_with_latest_that_fails_loses_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """What the startup mode decided for it is on record: the next one does not look for the end anew."""
    pipeline.parameters = {"startup_mode": "latest-offset"}
    assert pipeline.resolve("failed").ranges == [(4, 4)] * 3
    produce(cluster, pipeline)
    assert pipeline.run("next").ranges == [(4, 4)] * 3
    assert pipeline.run("third").ranges == [(4, 6)] * 3


def test_of_two_runs_that_plan_in_the_same_moment_one_makes_the_batch(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """The slower one finds the number taken, looks again, and does what is unfinished."""
    made = []
    slow = replace(
        pipeline,
        cluster=Meanwhile(pipeline.cluster, "end_offsets", lambda: made.append(pipeline.resolve("fast"))),
    )
    run = slow.resolve("slow")
    assert run.plan == made[0].plan
    assert entries(run.batch) == ["plan", "taken"]
    assert pipeline.newest.log.plan.batch == run.plan.batch


# ── nothing new ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_nothing_is_new_there_is_no_batch_and_the_group_is_renewed(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    cluster.hands.expire(pipeline.group)
    run = pipeline.resolve("two")
    assert (run.assignment.batch, run.splits, run.sentence) == (
        None,
        (),
        "has nothing to do: nothing has come since batch 1",
    )
    assert set(run.commit().written.values()) == {(None, 4)}
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}
    assert set(run.commit().written.values()) == {(4, 4)}, "the same once more, which renews its expiry"
    assert pipeline.newest.log.plan.batch == pipeline.log.batch(1).log.plan.batch  # type: ignore[union-attr]


def test_a_run_that_found_nothing_to_do_has_nothing_to_do_when_it_is_cleared(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """Else a cleared old run would plan before a live one."""
    pipeline.run("one")
    pipeline.run("empty")
    produce(cluster, pipeline)
    assert pipeline.resolve("empty").assignment.batch is None
    assert pipeline.resolve("next").number == 2


def first_start(cluster: AnyCluster, pipeline: Pipeline) -> dict[str, Any]:
    pipeline.store = LocalStore(pipeline.store.root / "another")  # type: ignore[attr-defined]
    pipeline.group += "-another"
    return {"startup_mode": "latest-offset"}


def restart(cluster: AnyCluster, pipeline: Pipeline) -> dict[str, Any]:
    return {"startup_mode": "latest-offset", "restart": "today"}


def adopted(cluster: AnyCluster, pipeline: Pipeline) -> dict[str, Any]:
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 1): 2})
    for partition in range(3):
        cluster.delete_records(pipeline.topic, 4, partition)
    return {"group_moved": "adopt-group", "data_loss": "advance"}


def recreated(cluster: AnyCluster, pipeline: Pipeline) -> dict[str, Any]:
    cluster.recreate_topic(pipeline.topic)
    return {"topic_recreated": "earliest"}


def lost(cluster: AnyCluster, pipeline: Pipeline) -> dict[str, Any]:
    """Deleted before they were read: the position has to pass over them, or each run would lose them again."""
    produce(cluster, pipeline)
    for partition in range(3):
        cluster.delete_records(pipeline.topic, 6, partition)
    return {"data_loss": "advance"}


@pytest.mark.parametrize("there", [first_start, restart, adopted, recreated, lost], ids=lambda f: f.__name__)
def test_a_batch_without_records_is_made_where_there_is_something_to_record(
    cluster: AnyCluster, pipeline: Pipeline, there: Any
) -> None:
    pipeline.run("one")
    parameters = there(cluster, pipeline)
    run = pipeline.resolve("two", **parameters)
    assert (run.plan.empty, run.splits) == (True, ())
    run.commit()
    assert pipeline.newest.log.plan.batch == run.plan.batch
    assert pipeline.held() == pipeline.at()
    assert pipeline.resolve("three", **parameters).assignment.batch is None, "and it is recorded once"


@pytest.mark.also_on_a_broker
def test_a_topic_that_was_made_anew_is_recorded_though_both_were_never_written(
    cluster: AnyCluster, store: LocalStore, orders: str, group: str
) -> None:
    """Each offset is the same: else the next run would be refused once more."""
    pipeline = Pipeline(cluster.reader, store, orders, group)
    pipeline.run("one")
    cluster.recreate_topic(orders)
    with pytest.raises(TopicRecreated):
        pipeline.resolve("two")
    assert pipeline.run("two", topic_recreated="earliest").number == 2
    assert pipeline.resolve("three").assignment.batch is None


def test_a_partition_that_is_new_and_was_never_written_is_nothing_to_record(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    cluster.hands.add_partitions(pipeline.topic, 1)
    assert pipeline.resolve("two").assignment.batch is None
    cluster.produce(pipeline.topic, 3, partition=3)
    assert pipeline.run("three").ranges == [(4, 4)] * 3 + [(0, 3)]


# ── frozen ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_retry_has_the_same_plan_whatever_has_come(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.resolve("one")
    produce(cluster, pipeline)
    again = pipeline.resolve("one", max_records=1, splits=3)
    assert again.plan == run.plan
    assert again.sentence == "does batch 1, which it took before and has not committed"
    assert entries(run.batch) == ["plan"], "it has the batch already"


@pytest.mark.parametrize("before", ["the group is signed", "its batch is written down", "its output is claimed"])
def test_a_resolve_task_that_dies_after_its_plan_is_on_record_has_it_at_the_retry(
    cluster: AnyCluster, pipeline: Pipeline, before: str
) -> None:
    if before == "the group is signed":
        dying = replace(pipeline, cluster=Meanwhile(pipeline.cluster, "describe_group", die))
    else:
        part = "/runs/" if before == "its batch is written down" else "outputs/"
        dying = replace(pipeline, store=EventfulStore(pipeline.store, part, die))
    with pytest.raises(Killed):
        dying.resolve("one", output_name="A")
    produce(cluster, pipeline)
    assert pipeline.run("one").ranges == [(0, 4)] * 3
    assert pipeline.resolve("two").number == 2


def test_a_cleared_run_does_its_own_batch_again_into_the_same_place(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = pipeline.run("one")
    produce(cluster, pipeline)
    pipeline.run("two")

    again = pipeline.resolve("one")

    assert (again.plan, again.sentence) == (
        first.plan,
        "does batch 1 once more: it committed it before, and was started again",
    )
    assert again.splits == first.splits
    again.done()
    assert pipeline.lake.offsets() == ALL_SIX
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}, "and the group is not set back"
    assert pipeline.resolve("three").assignment.batch is None


def test_a_cleared_run_whose_batch_another_one_has_committed_leaves_it(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.resolve("failed").spark()
    produce(cluster, pipeline)
    pipeline.run("next")
    rows = dict(pipeline.lake.rows)

    cleared = pipeline.resolve("failed")

    assert cleared.splits == ()
    assert cleared.sentence == "leaves batch 1 as it is: it was done by run dag/next/resolve"
    assert not cleared.commit().by_this
    assert pipeline.lake.rows == rows
    assert pipeline.resolve("third").number == 2


def test_what_is_left_is_verified(pipeline: Pipeline) -> None:
    """A driver of the failed run has begun once more since: its output may be half written."""
    failed = pipeline.resolve("failed")
    pipeline.run("next")
    failed.job().begin()
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported"):
        pipeline.resolve("failed").commit()


def test_what_is_left_and_not_whole_is_done_again_by_the_word_that_the_refusal_names(pipeline: Pipeline) -> None:
    failed = pipeline.resolve("failed")
    pipeline.run("next")
    failed.job().begin()
    left = pipeline.resolve("failed")
    with pytest.raises(ReadNotVerified, match=r'started no Spark job .* \{"kafka_offsets": \{"redo": true\}\}'):
        left.commit()
    pipeline.resolve("failed", redo=True).done()
    assert pipeline.lake.offsets() == ALL_FOUR


def test_a_batch_that_was_to_be_done_again_and_whose_records_go_meanwhile_is_left_as_it_is(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    assert pipeline.resolve("one").splits
    rows = dict(pipeline.lake.rows)
    for partition in range(3):
        cluster.delete_records(pipeline.topic, 4, partition)
    again = pipeline.resolve("one")
    assert again.splits == ()
    assert not again.commit().by_this
    assert pipeline.lake.rows == rows


def test_with_redo_it_is_done_all_the_same(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.resolve("failed")
    following = pipeline.run("next")
    again = pipeline.resolve("failed", redo=True)
    assert again.sentence == "does batch 1 once more: run dag/next/resolve has committed it, and redo asks for it"
    assert (again.plan, again.splits) == (following.plan, following.splits)
    again.done()
    assert pipeline.lake.offsets() == ALL_FOUR


def test_redo_without_a_batch_of_its_own_is_what_the_run_would_do_anyway(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    assert pipeline.resolve("two", redo=True).number == 2


# ── records that are gone ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("data_loss", ["fail", "advance"])
def test_a_committed_batch_whose_records_are_gone_is_left_as_it_is(
    cluster: AnyCluster, pipeline: Pipeline, data_loss: str
) -> None:
    run = pipeline.run("one")
    cluster.delete_records(pipeline.topic, 3)
    cleared = pipeline.resolve("one", data_loss=data_loss)
    assert (cleared.splits, cleared.plan) == ((), run.plan)
    assert cleared.sentence == "leaves batch 1 as it is: it is committed, and its records are gone from Kafka"
    cleared.commit()
    assert pipeline.lake.offsets() == ALL_FOUR
    assert entries(run.batch) == ["plan", "commit"], "nobody waits for reads that nobody makes"


def test_with_redo_that_is_refused(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    cluster.delete_records(pipeline.topic, 3)
    with pytest.raises(
        DataLoss, match=r"batch 1 is committed, and its output stays as it is\. Leave out redo"
    ) as refused:
        pipeline.resolve("one", redo=True)
    assert refused.value.partitions == [
        f"{pipeline.topic}[0]: start offset 0 is below log start offset 3 (3 offsets are gone)"
    ]


def test_only_the_spark_task_of_a_committed_run_is_cleared_and_its_records_are_gone(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """The job finds that out before it begins: the output stays whole, and so does its proof."""
    run = pipeline.run("one")
    cluster.delete_records(pipeline.topic, 3)
    with pytest.raises(RecordsGone):
        run.job().begin()
    assert pipeline.lake.offsets() == ALL_FOUR
    run.commit()


def test_only_the_spark_task_of_a_run_that_was_passed_by_is_cleared(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """It writes where the next run has written, the same records."""
    failed = pipeline.resolve("failed").spark()
    produce(cluster, pipeline)
    pipeline.run("next")
    failed.spark()
    pipeline.run("third")
    assert pipeline.lake.offsets() == ALL_SIX


def test_an_entry_of_a_newer_version_is_refused_by_name(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one")
    name = f"{run.batch.folder}/2.json"
    create_object(in_memory.store, name, {"version": 2, "entry": "taken"})
    with pytest.raises(StoreDamaged, match=re.escape(name)) as refused:
        in_memory.resolve("one")
    assert "version 2 is not known" in str(refused.value)


def test_an_entry_that_is_missing_is_named(in_memory: Pipeline) -> None:
    """A lifecycle rule of the bucket has removed it."""
    run = in_memory.run("one")
    in_memory.store.delete(f"{run.batch.folder}/1.json")
    with pytest.raises(StoreDamaged, match=re.escape(f"{run.batch.folder}/1.json")):
        in_memory.resolve("two")


def test_numbers_rise_by_one(in_memory: Pipeline, memory: AnyCluster) -> None:
    for number in range(1, 4):
        produce(memory, in_memory, 1)
        assert number_of(in_memory.run(f"run-{number}").batch_key) == number
