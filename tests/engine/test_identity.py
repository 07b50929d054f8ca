"""What differs from the identity is refused, and the printed conf ends exactly that: once, whatever is retried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.engine.dry_run import resolve_and_compare
from airflow_kafka_offsets.engine.history import pipelines
from airflow_kafka_offsets.engine.identity import Decided
from airflow_kafka_offsets.engine.work import NoBatch, PlanReference, ResolvedBatch
from airflow_kafka_offsets.errors import (
    ActRefused,
    ActStale,
    CheckpointBehind,
    CheckpointLost,
    ClusterChanged,
    DataLoss,
    GroupMoved,
    InvalidRequest,
    KafkaOffsetsError,
    OtherPipeline,
    OutputChanged,
    OverlappingRun,
    PlanReplaced,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.log.identity import IdentityBody, Start
from airflow_kafka_offsets.offsets import SpecificOffsets
from airflow_kafka_offsets.request import RunContext, parse_request
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import (
    HOUR,
    TOPIC,
    Pipeline,
    committed,
    conf_of,
    printed_confs,
    produce,
    ranges_of,
    tp,
)


def copy_of(store: Any) -> MemoryStore:
    copy = MemoryStore()
    copy.objects.update(store.objects)
    return copy


def refused(pipeline: Pipeline, **changed: Any) -> KafkaOffsetsError:
    with pytest.raises(KafkaOffsetsError) as error:
        pipeline.resolve(**changed)
    return error.value


# ── each difference ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_moved_group_is_refused_until_it_is_acknowledged(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    error = refused(pipeline)
    assert isinstance(error, GroupMoved)
    assert "group 'lake' holds 3, the position is 10" in str(error)
    work = pipeline.whole_run("b", conf=printed_confs(error)[0])
    assert (ranges_of(work)[0], committed(cluster)[0]) == ((10, 15), 15)


def test_the_groups_offsets_can_be_taken_instead(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    work = pipeline.whole_run("b", conf=printed_confs(refused(pipeline))[1])
    assert ranges_of(work)[0] == (3, 10)
    assert [d[1:4] for d in work.body.decisions] == [(3, 10, "again")]


def test_another_cluster_is_refused_and_a_migrated_one_acknowledged(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.cluster_id = "another"
    cluster.recreate_topic(TOPIC)  # with other ids
    produce(cluster, 0, 12)
    error = refused(pipeline)
    assert isinstance(error, ClusterChanged)
    assert "It has read cluster memory, and the connection leads to cluster another." in str(error)
    assert ranges_of(pipeline.whole_run("b", conf=printed_confs(error)[0]))[0] == (10, 12)


def test_a_new_cluster_can_be_read_from_its_beginning(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.cluster_id = "another"
    assert ranges_of(pipeline.whole_run("b", conf=printed_confs(refused(pipeline))[1]))[0] == (0, 10)


@pytest.mark.parametrize("begun", [False, True])
def test_an_output_that_moves_on_purpose_is_acknowledged(
    cluster: InMemoryCluster, pipeline: Pipeline, begun: bool
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    if begun:
        pipeline.drive(pipeline.work("old"))
    pipeline.output = "delta:/lake/moved"
    error = refused(pipeline)
    assert isinstance(error, OutputChanged)
    work = pipeline.work("b", conf=printed_confs(error)[0])
    pipeline.drive(work)
    assert (pipeline.commit(work).output, ranges_of(work)[0], work.batch.plan.expects) == (
        "delta:/lake/moved",
        (10, 15),
        None,
    )
    pipeline.output = "delta:/lake/orders"
    assert isinstance(refused(pipeline), OutputChanged)


def test_an_act_that_comes_between_spark_and_the_commit_stops_the_commit(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work("a")
    pipeline.drive(work)
    pipeline.output = "delta:/lake/moved"
    pipeline.resolve("b", conf=printed_confs(refused(pipeline))[0])
    with pytest.raises(PlanReplaced):
        pipeline.commit(work)


def test_an_act_for_the_output_accepts_no_other_cluster(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    pipeline.output = "delta:/lake/moved"
    conf = printed_confs(refused(pipeline))[0]
    cluster.cluster_id = "staging"
    error = refused(pipeline, run="b", conf=conf)
    assert isinstance(error, ActRefused)
    assert pipeline.log.identity().number == 1
    assert printed_confs(error)[0]["acknowledge"] == {"output": "delta:/lake/moved", "cluster": "staging"}


def test_a_vanished_topic_of_a_pattern_is_data_loss(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.parameters["topics"] = "^orders.*"
    cluster.create_topic("orders-7")
    cluster.produce(tp(0, "orders-7"), [cluster.now_ms] * 10)
    pipeline.whole_run(max_records=4)
    cluster.delete_topic("orders-7")
    error = refused(pipeline)
    assert isinstance(error, DataLoss)
    assert "orders-7-0: the topic was deleted; unread records from offset 4 on are gone" in str(error)
    work = pipeline.whole_run("b", conf=printed_confs(error)[0])
    assert [d[:4] for d in pipeline.log.body(pipeline.log.newest()).decisions] == [(tp(0, "orders-7"), 4, 10, "lost")]
    assert isinstance(work, NoBatch)
    assert isinstance(pipeline.resolve("c"), NoBatch)


def test_a_listed_topic_that_ended_is_no_longer_missed(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.parameters["topics"] = [TOPIC, "payments"]
    cluster.create_topic("payments")
    pipeline.whole_run()
    cluster.delete_topic("payments")
    pipeline.run_printed(refused(pipeline), "b")
    produce(cluster, 0, 3)
    assert ranges_of(pipeline.whole_run("c"))[0] == (0, 3)


@pytest.mark.parametrize("group", ["lake", None])
def test_a_lost_log_is_begun_again_behind_the_batches_that_are_known(
    cluster: InMemoryCluster, pipeline: Pipeline, group: str | None
) -> None:
    pipeline.parameters["group_id"] = group
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.store = MemoryStore()
    error = refused(pipeline)
    assert isinstance(error, CheckpointLost)
    assert isinstance(refused(pipeline, run="x", conf=conf_of(0, reset={"start": "earliest"})), CheckpointLost)
    work = pipeline.resolve("b", conf=printed_confs(error)[0])
    start = 10 if group else 0  # without a group nobody knows where it was: its rows are to be deleted
    if isinstance(work, ResolvedBatch):
        assert ranges_of(work)[0] == (start, 10)
    assert pipeline.log.identity().bases == (0, 1)
    assert pipeline.log.newest().plan.key.startswith("0000000002-")


def test_a_renamed_pipeline_with_the_same_group_is_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.remembers, pipeline.airflow.planned = False, None
    error = refused(pipeline, pipeline_id="renamed")
    assert isinstance(error, CheckpointLost)
    work = pipeline.resolve("b", conf=printed_confs(error)[0], pipeline_id="renamed")
    assert isinstance(work, NoBatch)  # it resumes where the group is
    produce(cluster, 0, 2)
    assert ranges_of(pipeline.whole_run(pipeline_id="renamed"))[0] == (10, 12)


@pytest.mark.parametrize("group", ["lake", None])
def test_an_older_copy_of_the_log_is_refused_with_a_group_and_without(
    cluster: InMemoryCluster, pipeline: Pipeline, group: str | None
) -> None:
    pipeline.parameters["group_id"] = group
    produce(cluster, 0, 4)
    pipeline.whole_run()
    copy = copy_of(pipeline.store)
    produce(cluster, 0, 10)
    lost = pipeline.whole_run()
    pipeline.store = copy
    error = refused(pipeline)
    assert isinstance(error, CheckpointBehind)
    assert lost.key in str(error)
    work = pipeline.work("b", conf=printed_confs(error)[0])
    assert ranges_of(work)[0] == (4, 14)
    assert work.key > lost.key  # what is left of the lost batch sorts before it


def test_the_other_kind_of_pipeline_is_another_pipeline(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    with pytest.raises(OtherPipeline, match="another pipeline_id"):
        pipeline.resolve(want=pipeline.window(cluster.now_ms - HOUR, cluster.now_ms))


def test_another_number_of_shards_is_another_pipeline_that_starts_at_the_positions_of_all(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    for partition in range(3):
        produce(cluster, partition, 4 + partition)
    pipeline.parameters["group_id"], pipeline.remembers = None, False
    for i in range(2):
        pipeline.whole_run(shard=(i, 2))
    error = refused(pipeline)
    assert isinstance(error, OtherPipeline)
    assert 'start=SpecificOffsets({"orders": {"0": 4, "1": 5, "2": 6}})' in str(error)
    produce(cluster, 0, 1)
    start = SpecificOffsets('{"orders": {"0": 4, "1": 5, "2": 6}}')
    assert ranges_of(pipeline.whole_run(pipeline_id="new", start=start)) == {0: (4, 5), 1: (5, 5), 2: (6, 6)}


def test_lost_records_are_given_up_of_just_the_partitions_that_lost_them(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    produce(cluster, 1, 10)
    pipeline.whole_run()
    for partition in (0, 1):
        produce(cluster, partition, 10)
    cluster.delete_records(tp(0), 15)
    error = refused(pipeline)
    [conf] = printed_confs(error)
    assert conf["reset"] == {"start": {"orders-0": 15}}
    work = pipeline.whole_run("b", conf=conf)
    assert ranges_of(work) == {0: (15, 20), 1: (10, 20), 2: (0, 0)}
    assert [d[1:4] for d in work.body.decisions] == [(10, 15, "skipped")]


def test_nothing_of_a_re_created_topic_that_was_read_is_reported_as_lost(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 2)
    work = pipeline.whole_run("b", conf=printed_confs(refused(pipeline))[0])
    assert (ranges_of(work)[0], work.batch.plan.given_up["lost"]) == ((0, 2), 0)


# ── acts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_act_is_carried_out_once_whatever_is_cleared(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    conf = conf_of(1, reset={"start": "earliest", "allow_duplicates": True})
    pipeline.whole_run("act", conf=conf)
    produce(cluster, 0, 5)
    pipeline.whole_run("later")
    again = pipeline.work("act", conf=conf)  # cleared weeks later: its own batch again, and no second reset
    assert (ranges_of(again)[0], pipeline.log.identity().number) == ((0, 10), 2)


def test_two_runs_with_one_conf_act_once(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    conf = conf_of(1, reset={"start": "earliest", "allow_duplicates": True})
    pipeline.whole_run("first", conf=conf)
    with pytest.raises(ActStale, match="the current one is 2, by run dag/first/orders") as error:
        pipeline.resolve("second", conf=conf)
    assert printed_confs(error.value) == [conf_of(2, reset=conf["reset"])]


def test_an_act_without_after_prints_the_conf_with_it(pipeline: Pipeline) -> None:
    pipeline.whole_run()
    conf = conf_of(1, reset={"start": "latest"})
    with pytest.raises(ActStale) as error:
        pipeline.resolve("b", conf={name: value for name, value in conf.items() if name != "after"})
    assert printed_confs(error.value) == [conf]


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"pipeline": "orders", "after": 1, "reset": {"start": "latest"}}, "an act without reason"),
        ({"after": 1, "reason": "x", "reset": {"start": "latest"}}, "an act without pipeline"),
        (
            {"pipeline": "orders", "acknowledged": "x"},
            "has 'acknowledged', which is no word of it; it takes pipeline, after",
        ),
        (conf_of(1, acknowledge={"cluter": "x"}), "has 'acknowledge.cluter', which is no word"),
        (conf_of(1, reset={"start": "yesterday"}), "give epoch milliseconds or ISO 8601"),
        (conf_of(1, skip=["orders-0"]), "expected orders-3:4711"),
        (conf_of(1, pipeline="payments", reset={"start": "latest"}), "names pipeline 'payments', and this DAG has"),
        ({"window": ["2026-01-01", "2026-01-02"]}, "The run's conf names a window, which goes with"),
        ("reset", "is 'reset': input should be a dictionary"),
    ],
)
def test_words_that_are_wrong_are_refused_by_every_resolve(cluster: InMemoryCluster, conf: Any, message: str) -> None:
    run = RunContext(cluster.now_ms, None, conf, pipelines={"orders", "customers"})
    for pipeline_id in ("orders", "customers"):
        with pytest.raises(InvalidRequest, match=message):
            parse_request({"topics": [TOPIC], "start": "earliest", "pipeline_id": pipeline_id}, run, {})


def test_of_two_pipelines_of_a_dag_an_act_reaches_the_one_that_it_names(cluster: InMemoryCluster) -> None:
    run = RunContext(cluster.now_ms, None, conf_of(1, reset={"start": "latest"}), pipelines={"orders", "customers"})
    asked = {"topics": [TOPIC], "start": "earliest"}
    acts = [parse_request({**asked, "pipeline_id": name}, run, {}).act for name in ("orders", "customers")]
    assert [act is not None for act in acts] == [True, False]


def test_an_act_waits_for_the_run_that_owns_the_batch(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.work("a")
    pipeline.airflow.running = {"a"}
    with pytest.raises(OverlappingRun):
        pipeline.act("b", after=1, reset={"start": "current"})
    assert pipeline.log.identity().number == 1


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        ({"start": {"orders-0": 99}}, "outside of the log"),
        ({"start": {"payments-0": 0}}, "payments-0 is not subscribed to"),
        ({"start": "earliest"}, "would be read again"),
    ],
)
def test_a_reset_that_cannot_be_is_refused(
    cluster: InMemoryCluster, pipeline: Pipeline, reset: Any, message: str
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    with pytest.raises(ActRefused, match=message):
        pipeline.act("b", after=1, reset=reset)
    assert pipeline.log.identity().number == 1


def test_a_reset_to_latest_on_an_unfinished_first_batch_records_what_it_skips(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.work("a")
    work = pipeline.act("b", after=1, reset={"start": "latest"})
    assert [d[1:4] for d in work.body.decisions] == [(0, 10, "skipped")]


@pytest.mark.parametrize(("allow_duplicates", "resumes_at"), [(False, 6), (True, 4)])
def test_a_reset_without_duplicates_moves_nothing_back_that_was_read_since(
    cluster: InMemoryCluster, pipeline: Pipeline, allow_duplicates: bool, resumes_at: int
) -> None:
    """Batch 1 is committed between the look of the act and the plan that applies it."""
    produce(cluster, 0, 10)
    pipeline.whole_run(max_records=6)
    log, identity = pipeline.log, pipeline.log.identity()
    topic_id = log.position_after(log.newest())[tp(0)].topic_id
    acted = replace(identity, number=2, starts_at=2)
    body = IdentityBody(starts={tp(0): Start(4, topic_id, 2, allow_duplicates)})
    position = Decided(acted, body).resumed(log, log.newest()).position
    assert position[tp(0)].offset == resumes_at


def test_a_start_is_applied_by_one_batch(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.whole_run("b", conf=conf_of(1, reset={"start": {"orders-0": 2}, "allow_duplicates": True}))
    produce(cluster, 0, 5)
    assert ranges_of(pipeline.whole_run("c"))[0] == (10, 15)


def test_skipped_offsets_are_left_out_of_unfinished_and_later_plans(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.begin(pipeline.work("a"))
    work = pipeline.act("b", after=1, skip=["orders-0:4", "orders-0:7-8"])
    assert [(s.start_offset, s.end_offset) for s in work.body.skips[tp(0)]] == [(4, 5), (7, 9)]
    assert (work.batch.plan.offsets, work.batch.plan.given_up["skipped"]) == (7, 3)
    pipeline.drive(work)
    pipeline.commit(work)
    with pytest.raises(ActRefused, match="outside of the log"):
        pipeline.act("c", after=2, skip=["orders-0:99"])


def test_shards_act_together(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """Mapped shards share a run: one makes the identity, the others go on."""
    pipeline.remembers = False
    for partition in range(3):
        produce(cluster, partition, 4)
    for i in range(2):
        pipeline.whole_run(shard=(i, 2))
    conf = conf_of(1, reset={"start": "earliest", "allow_duplicates": True})
    again = [pipeline.whole_run("act", conf=conf, shard=(i, 2)) for i in range(2)]
    read = {tp.partition: r[:2] for work in again for tp, r in work.body.ranges.items()}
    assert (read, pipeline.log.identity().number) == (dict.fromkeys(range(3), (0, 4)), 2)


def test_the_log_says_who_decided_what_and_why(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    pipeline.act("b", after=1, reason="bucket renamed", reset={"start": "latest"})
    identity = pipeline.log.identity()
    assert (identity.user, identity.act["reason"], str(identity.by)) == ("maria", "bucket renamed", "dag/b/orders")


def test_a_dry_run_prints_before_and_after_and_writes_nothing(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    before = dict(pipeline.store.objects)
    request = pipeline.request(conf=conf_of(1, reset={"start": {"orders-0": 4}, "allow_duplicates": True}))
    changes = resolve_and_compare(
        request, pipeline.run("b"), pipeline.log, pipeline.cluster, pipeline.airflow, dry=True
    )
    assert changes.lines == ["orders-0: 10 → 4, read again 6 (reset, identity 2)"]
    assert pipeline.store.objects == before


def test_an_older_checkpoint_location_is_one_clear_error(pipeline: Pipeline) -> None:
    pipeline.store.create("orders/batches/00000000/0000000001/1.json", b"{}")
    with pytest.raises(KafkaOffsetsError, match="there are batches, and no identity"):
        pipeline.resolve()


def test_a_cleared_run_finds_its_batch_although_airflow_has_forgotten_it(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    """``airflow db clean`` removes XComs; the log binds runs to batches."""
    produce(cluster, 0, 10)
    first = pipeline.whole_run("a")
    pipeline.airflow.planned = None
    assert pipeline.work("a").key == first.key


@pytest.mark.parametrize("plan", [None, "orders", {"pipeline": "orders"}, {"run": 3}])
def test_a_wrong_xcom_of_a_plan_is_a_named_error(plan: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"give the XCom of the resolve task: plan=resolve.output"):
        PlanReference.from_dict(plan)


def test_an_odd_folder_in_the_checkpoint_location_hides_no_pipeline(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    pipeline.whole_run()
    pipeline.store.create("lost+found/x", b"")
    pipeline.store.create("old/batches/00000000/0000000001/1.json", b"{}")
    pipeline.store.create("torn/pipeline/1.json", b"{")
    found = {one.log.pipeline_id: one.damage is not None for one in pipelines(pipeline.store)}
    assert found == {"orders": False, "old": True, "torn": True}
