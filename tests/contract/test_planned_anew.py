"""Runs that are planned anew, while commits and jobs of their older plans are still under way. Over both clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets import frozen_plans
from airflow_kafka_offsets.errors import (
    InvalidRequest,
    PartitionsRefused,
    PlanCommitted,
    PlanLost,
    PlanReplaced,
    PlanSuperseded,
    ReadNotVerified,
)
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.output import Attempt, table_options
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.unblock import parse_unblock
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.reads import begin_read, begin_read_unless_replaced
from airflow_kafka_offsets.stores.runs import find_plan, find_plan_by_id, stored_plan_number
from airflow_kafka_offsets.unblocking import unblock
from tests.cluster.commits import Interrupted
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import CHECKPOINT, Pipeline, ranges
from tests.contract.test_windows import HOUR, T, hours
from tests.contract.troubles import Meanwhile, forget_plan, land, planned_anew, produce, read


def late_job(pipeline: Pipeline, plan: OffsetPlan, split: int) -> None:
    """As read_plan: on record, then refused. Nothing is read or written."""
    with pytest.raises(PlanReplaced):
        begin_read_unless_replaced(pipeline.store, plan, split, None)


def test_a_late_job_that_was_refused_does_not_bar_a_committed_run_for_ever(pipeline: Pipeline) -> None:
    old = pipeline.plan("one", splits=3)
    new = pipeline.plan("one", splits=1, re_plan=True)
    read(pipeline, new)
    pipeline.commit(new)
    late_job(pipeline, old, 2)
    again = pipeline.plan("one", splits=1)  # the run is cleared, to write its output again
    read(pipeline, again)
    pipeline.commit(again)


def test_a_commit_of_an_older_plan_that_lands_during_a_second_re_plan_keeps_its_plan(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    old, _ = planned_anew(cluster, pipeline)  # killed before it has looked for the commit; then retried
    produce(cluster, pipeline)
    looking = replace(pipeline, cluster=Meanwhile(pipeline.cluster, "describe", lambda: land(pipeline, old)))
    with pytest.raises(PlanCommitted, match=old.plan_id):
        looking.plan("one", re_plan=True)
    assert pipeline.plan("one").plan_id == old.plan_id


def test_a_plan_that_is_put_back_is_read_again_if_any_other_plan_had_begun(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    old, second = planned_anew(cluster, pipeline)
    begin_read(pipeline.store, second, 0, None)
    produce(cluster, pipeline)
    third = pipeline.plan("one", re_plan=True)
    assert len({old.plan_id, second.plan_id, third.plan_id}) == 3
    land(pipeline, old)
    again = pipeline.plan("one")
    assert again.plan_id == old.plan_id
    with pytest.raises(ReadNotVerified):
        pipeline.commit(again)


def test_a_job_that_begins_while_its_plan_is_replaced_by_the_committed_one_is_seen(
    cluster: AnyCluster, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, second = planned_anew(cluster, pipeline)
    land(pipeline, old)
    real = frozen_plans.replace_plan

    def begin_first(store: WorkStore, *args: Any) -> Any:
        begin_read_unless_replaced(store, second, 0, None)  # it may go on: it is still the run's plan
        return real(store, *args)

    with monkeypatch.context() as patch:
        patch.setattr(frozen_plans, "replace_plan", begin_first)
        again = pipeline.plan("one")
    assert again.plan_id == old.plan_id
    with pytest.raises(ReadNotVerified):
        pipeline.commit(again)


def test_a_window_that_was_planned_anew_and_read_is_not_put_back_by_a_late_mirror(
    cluster: AnyCluster, store: WorkStore, orders: str, group: str
) -> None:
    pipeline = Pipeline(cluster.reader, store, orders, group, {})
    cluster.produce(orders, timestamps_ms=[T, T + HOUR // 2])
    cluster.commit_as_somebody(group, {TopicPartition(orders, n): 0 for n in range(3)})
    old = pipeline.plan("run", **hours(0, 1))
    pipeline.read(old)
    cluster.produce(orders, timestamps_ms=[T + HOUR // 2])  # late
    cluster.produce(orders, timestamps_ms=[T + HOUR])
    made: list[OffsetPlan] = []

    def re_plan() -> None:
        made.append(pipeline.plan("run", re_plan=True, **hours(0, 1)))

    cluster_then = Interrupted(cluster.reader, before_commit=re_plan)
    replace(pipeline, cluster=cluster_then).commit(old, commit_mode="on-success")
    (new,) = made
    pipeline.read(new)
    pipeline.commit(new, commit_mode="on-success")  # green
    pipeline.plan("next", **hours(1, 2))
    assert ranges(new)[0] == (0, 3)
    assert ranges(pipeline.plan("run", **hours(0, 1)))[0] == (0, 3), (
        "cleared, the run drops records 2..3 from its output"
    )


def test_a_plan_is_found_by_its_id_as_the_run_has_it_now(cluster: AnyCluster, pipeline: Pipeline) -> None:
    few = {"partitions": {pipeline.topic: [0, 1]}, "topics": None}
    pipeline.run("first")
    cluster.produce(pipeline.topic, 2, 0)
    cluster.produce(pipeline.topic, 2, 2)
    old = pipeline.plan("one", **few)
    to = {pipeline.topic: {"2": 5}}  # another partition: the plan's parent is not the newest any more
    unblock(parse_unblock(to, checkpoint_id=CHECKPOINT), pipeline.store, pipeline.cluster)
    new = pipeline.plan("one", re_plan=True, **few)
    assert (new.plan_id, new.parent != old.parent) == (old.plan_id, True)
    found = find_plan_by_id(pipeline.store, new.plan_id)
    assert found is not None
    assert found.parent == new.parent
    pipeline.read(new)
    pipeline.commit(found)  # kafka-offsets commit --plan-id


def test_a_mirrored_window_is_no_position_for_adopt_group(cluster: AnyCluster, pipeline: Pipeline) -> None:
    for n in range(3):
        cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, n): 0})
    live = pipeline.plan("live")  # its checkpoint 0 is at 0; the run fails
    assert ranges(live) == [(0, 4)] * 3
    window = pipeline.plan(
        "window",
        checkpoint_id="windows",
        startup_mode="timestamp",
        startup_timestamp=0,
        bounded_mode="timestamp",
        bounded_timestamp=1_795_168_800_001,
    )
    pipeline.read(window)
    assert pipeline.commit(window, commit_mode="on-success").written
    assert ranges(pipeline.plan("next", on_group_moved="adopt-group")) == [(0, 4)] * 3


def test_a_restart_word_that_may_skip_records_after_a_rename_says_so(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.parameters = {"startup_mode": "latest-offset", "restart": "w"}
    pipeline.run("one")
    produce(cluster, pipeline)
    pipeline.run("two")
    produce(cluster, pipeline)
    renamed = pipeline.plan("three", checkpoint_id="renamed")
    assert ranges(renamed) == [(8, 8)] * 3
    assert "read once more, or skipped" in renamed.warnings[0]


def test_a_plan_that_is_put_back_and_cannot_be_read_any_more_does_not_claim_that_its_output_is_whole(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    old, second = planned_anew(cluster, pipeline)
    begin_read(pipeline.store, second, 0, "lake/run=one/split=0")
    land(pipeline, old)
    for n in range(3):
        cluster.delete_records(pipeline.topic, 3, n)
    with pytest.raises(PartitionsRefused) as refusal:
        pipeline.plan("one")
    assert "leave it as it is" not in str(refusal.value)


def test_a_run_with_a_very_long_name_that_lost_its_plan_is_not_planned_anew(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    name = "日" * 700
    lost = pipeline.plan(name)
    pipeline.read(lost)
    land(pipeline, lost)
    forget_plan(pipeline, lost)
    produce(cluster, pipeline)
    with pytest.raises(PlanLost):
        pipeline.plan(name)


def test_a_late_job_that_was_refused_is_no_output(pipeline: Pipeline) -> None:
    old = pipeline.plan("one", splits=3)
    pipeline.plan("one", splits=1, re_plan=True)
    late_job(pipeline, old, 2)
    pipeline.run("two")
    with pytest.raises(PlanSuperseded) as refusal:
        pipeline.plan("one")
    assert refusal.value.outputs == [], "on_superseded='skip' does not skip, and asks to remove what nobody wrote"


def test_a_retry_does_not_read_the_whole_chain(cluster: AnyCluster, pipeline: Pipeline) -> None:
    for number in range(15):
        pipeline.run(f"r{number}")
    produce(cluster, pipeline)
    pipeline.plan("last")
    reads: list[str] = []

    class Counting(WorkStore):
        def read(self, name: str) -> Any:
            reads.append(name)
            return super().read(name)

    replace(pipeline, store=Counting(pipeline.store.root, pipeline.store.uri)).plan("last")
    assert sum("/checkpoint." in name for name in reads) < 10, reads


def test_a_re_plan_that_is_refused_puts_the_committed_plan_back(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """With re_plan=True in the DAG every clear is one."""
    old, _ = planned_anew(cluster, pipeline)
    land(pipeline, old)
    with pytest.raises(PlanCommitted):
        pipeline.plan("one", re_plan=True)
    assert old.run is not None
    kept = find_plan(pipeline.store, old.run)
    assert kept is not None
    assert kept.plan.plan_id == old.plan_id


def test_a_plan_that_is_put_back_is_not_appended_a_second_time(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Delta, mode append: "a second write of the plan is skipped", by its version."""

    def version() -> str:
        stored = find_plan(pipeline.store, RunKey("dag", "one", "resolve"))
        assert stored is not None
        attempt = Attempt(stored.plan, 0, stored_plan_number(stored.name), 1)
        return table_options(attempt, "delta", "append")["txnVersion"]

    pipeline.plan("one")
    assert version() == "1"
    old, _ = planned_anew(cluster, pipeline)  # the old one's rows are in the table
    land(pipeline, old)
    assert pipeline.plan("one").plan_id == old.plan_id
    with pytest.raises(InvalidRequest, match="append"):
        version()
