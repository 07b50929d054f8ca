"""What the model (``tests/model``) found, each as the plain steps that lead there. Over both clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import PlanSuperseded, ReadNotVerified
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.reads import begin_read
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import CHECKPOINT, Pipeline, ranges
from tests.contract.troubles import land


def test_a_new_topic_is_read_by_each_of_two_pipelines_on_one_group(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """What the other one has committed of it, this one has not read."""
    new = f"{pipeline.topic}-new"
    pipeline.run("one")
    cluster.create_topic(new)
    cluster.produce(new, 2)
    pipeline.run("other", topics=[new], checkpoint_id="other")
    assert ranges(pipeline.run("two", topics=[pipeline.topic, new]))[-1] == (0, 2)


@dataclass
class WhileItLooks:
    """A cluster where something happens while a commit looks at the group."""

    cluster: Any
    happens: Callable[[], Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)

    def committed(self, *arguments: Any, **how: Any) -> Any:
        self.happens()
        return self.cluster.committed(*arguments, **how)


def test_a_checkpoint_is_not_kept_over_an_output_that_is_being_written_again(pipeline: Pipeline) -> None:
    """The Spark task was cleared while its commit was looking: as before a write to the group."""
    plan = pipeline.plan("one")
    pipeline.read(plan)
    cluster = WhileItLooks(pipeline.cluster, lambda: begin_read(pipeline.store, plan, 0, None))
    with pytest.raises(ReadNotVerified, match="began and has not reported"):
        replace(pipeline, cluster=cluster).commit(plan, commit_mode="checkpoint-only")
    newest = CheckpointChain(pipeline.store, plan.cluster_id, CHECKPOINT).newest()
    assert newest is not None
    assert newest.id == plan.parent


def test_a_commit_whose_plan_is_lost_is_completed_in_the_name_of_its_own_run(pipeline: Pipeline) -> None:
    """Not of the run before it, which would be blamed for what it never read."""
    pipeline.run("before")
    old = pipeline.plan("old")
    lost = replace(pipeline.plan("lost"), partitions=old.partitions)
    lost = replace(lost, splits=lost.splits + 1)  # another plan, which no store has
    land(pipeline, lost)
    pipeline.plan("next")
    newest = CheckpointChain(pipeline.store, lost.cluster_id, CHECKPOINT).newest()
    assert newest is not None
    assert (newest.plan_id, newest.run) == (lost.plan_id, str(lost.run))
    with pytest.raises(PlanSuperseded, match="run dag/lost/resolve has gone on"):
        pipeline.plan("old")


def test_a_re_plan_to_the_same_records_goes_on_from_where_the_pipeline_is_now(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """Else its commit would be refused for ever, and name re_plan as the way out."""
    pipeline.run("first")
    empty = pipeline.plan("empty")
    cluster.produce(pipeline.topic, 2)
    plan = pipeline.plan("one")
    pipeline.commit(empty)
    again = pipeline.plan("one", re_plan=True)
    assert (again.plan_id, ranges(again)) == (plan.plan_id, ranges(plan))
    pipeline.read(again)
    pipeline.commit(again)
    assert ranges(pipeline.plan("next"))[0] == (6, 6)
