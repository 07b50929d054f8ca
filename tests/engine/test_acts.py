"""A person's act: the conf of one run, carried out once; what it changes, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.engine.dry_run import resolve_and_compare
from airflow_kafka_offsets.engine.history import pipelines
from airflow_kafka_offsets.engine.identity import Decided
from airflow_kafka_offsets.engine.work import PlanReference, ResolvedBatch
from airflow_kafka_offsets.errors import (
    ActRefused,
    ActStale,
    InvalidRequest,
    KafkaOffsetsError,
    OverlappingRun,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset, RunKey, TopicList
from airflow_kafka_offsets.log.identity import IdentityBody, Start
from airflow_kafka_offsets.request import RunContext, parse_request
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import (
    TOPIC,
    Pipeline,
    conf_of,
    printed_confs,
    produce,
    ranges_of,
    tp,
)


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


@pytest.mark.parametrize(
    ("age_s", "starts"), [(50, {0: 2, 1: 0, 2: 0}), (35, {0: 4, 1: 0, 2: 0}), (5, {0: 6, 1: 3, 2: 0})]
)
def test_a_reset_to_a_time_starts_at_the_first_record_from_then_on_or_at_the_end(
    cluster: InMemoryCluster, pipeline: Pipeline, age_s: int, starts: dict[int, int]
) -> None:
    for age in (60, 40, 30):
        produce(cluster, 0, 2, age_s=age)
    produce(cluster, 1, 3, age_s=20)
    pipeline.whole_run()
    at = cluster.now_ms - age_s * 1000
    pipeline.act("b", after=1, reset={"start": at, "allow_duplicates": True})
    body = pipeline.log.identity_body(pipeline.log.identity())
    assert {key.partition: start.offset for key, start in body.starts.items()} == starts


def test_a_reset_to_the_group_leaves_partitions_alone_of_which_it_holds_nothing(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    produce(cluster, 1, 10)
    pipeline.whole_run(max_records=4)
    cluster.expire("lake")
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(9)})
    work = pipeline.act("b", after=1, reset={"start": "group"})
    assert isinstance(work, ResolvedBatch)
    body = pipeline.log.identity_body(pipeline.log.identity())
    assert {key.partition: start.offset for key, start in body.starts.items()} == {0: 9}
    assert ranges_of(work) == {0: (9, 10), 1: (2, 10), 2: (0, 0)}


def test_a_reset_back_is_refused_for_each_shard_that_has_read_on(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.parameters |= {"group_id": None}
    for partition in range(3):
        produce(cluster, partition, 5)
    pipeline.remembers = False  # each shard has a task of its own
    for shard in (0, 1):
        pipeline.whole_run(f"a{shard}", shard=(shard, 2))
    with pytest.raises(ActRefused) as refusal:
        pipeline.resolve("b", conf=conf_of(1, reset={"start": "earliest"}), shard=(0, 2))
    assert [f"orders-{n}: offsets 0 to 5 would be read again" in str(refusal.value) for n in range(3)] == [True] * 3


def test_the_conf_that_a_stale_act_prints_is_no_dry_run(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    with pytest.raises(ActStale) as stale:
        pipeline.resolve(conf=conf_of(3, reset={"start": "latest"}, dry_run=True))
    assert printed_confs(stale.value) == [conf_of(1, reset={"start": "latest"})]


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


def test_a_re_created_topic_is_said_to_be_read_from_its_start(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """Also where nothing unread of the former one was lost."""
    produce(cluster, 0, 5)
    pipeline.whole_run()
    (former,) = cluster.describe(TopicList((TOPIC,))).topic_ids.values()
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 3)
    request = pipeline.request(conf=conf_of(1, acknowledge={"topic": {TOPIC: former}}))
    changes = resolve_and_compare(request, pipeline.run("b"), pipeline.log, cluster, pipeline.airflow, dry=True)
    assert "orders-0: 5 → 0 of the re-created topic" in changes.lines


def test_a_partition_that_is_not_read_any_more_and_a_new_one_are_said_to_be(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.add_partitions(TOPIC, 1)
    produce(cluster, 1, 3)
    request = pipeline.request(exclude=["orders-2"], conf=conf_of(1, skip=["orders-1:1"]))
    changes = resolve_and_compare(
        request, pipeline.run("b"), pipeline.log, pipeline.cluster, pipeline.airflow, dry=True
    )
    assert changes.lines == [
        "orders-1: 0 → 0, skipped 1 (skip)",
        "orders-2: 0 → not read",
        "orders-3: new → 0",
    ]


@pytest.mark.parametrize("window", [None, (1_000, 2_000)])
def test_a_plan_is_the_same_behind_its_xcom(window: tuple[int, int] | None) -> None:
    plan = PlanReference(
        "orders", "file:///log", 3, 2, "p1", "0000000003-0123456789ab", RunKey("dag", "run", "task"), True,
        is_rewrite=True, job="1234", offsets=10, partitions=2, window=window,
    )  # fmt: skip
    said = json.loads(json.dumps(plan.to_dict()))
    assert PlanReference.from_dict(said) == plan
    assert (said["key"], said["run"]["run_id"], said["is_rewrite"]) == (plan.key, "run", True)


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
