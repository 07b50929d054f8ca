"""What happens to runs: crashes, clears, and commits and jobs that come late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.offsets.assign import split_plan, started_splits
from airflow_kafka_offsets.offsets.commits import mark_of
from airflow_kafka_offsets.offsets.model import CommittedOffset
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.verify import PartitionRead, ReadReport
from airflow_kafka_offsets.stores.reads import begin_read, store_report
from airflow_kafka_offsets.stores.runs import find_plan
from tests.cluster.commits import commit
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline


class Killed(BaseException):
    """The process is gone: nothing of it may catch this."""


def die(*_: object, **__: object) -> None:
    raise Killed


def produce(cluster: AnyCluster, pipeline: Pipeline) -> None:
    for partition in range(3):
        cluster.produce(pipeline.topic, 2, partition)


def clear(pipeline: Pipeline, plan: OffsetPlan, **parameters: Any) -> None:
    """All three tasks of a run."""
    assert plan.run is not None
    assert pipeline.plan(plan.run.run_id, **parameters).plan_id == plan.plan_id
    pipeline.read(plan)
    pipeline.commit(plan)


def planned_anew(cluster: AnyCluster, pipeline: Pipeline) -> tuple[OffsetPlan, OffsetPlan]:
    """Run ``one``, planned and read, then planned anew with what has come since; its older plan and its newer."""
    old = pipeline.plan("one")
    pipeline.read(old)
    produce(cluster, pipeline)
    return old, pipeline.plan("one", re_plan=True)


def read(pipeline: Pipeline, plan: OffsetPlan) -> None:
    """Every split that is started."""
    for split in started_splits(plan):
        attempt = begin_read(pipeline.store, plan, split, None)
        reads = {
            p.topic_partition: PartitionRead(p.range.size, p.start_offset, p.end_offset - 1)
            for p in split_plan(plan)[split]
        }
        store_report(pipeline.store, ReadReport(plan.plan_id, split, attempt, "counts", reads))


def forget_plan(pipeline: Pipeline, plan: OffsetPlan) -> None:
    assert plan.run is not None
    stored = find_plan(pipeline.store, plan.run)
    assert stored is not None
    pipeline.store.remove(stored.name)


@dataclass
class Meanwhile:
    """A cluster where something happens, once, when ``name`` is asked."""

    cluster: Any
    name: str
    happens: Callable[[], Any] | None

    def __getattr__(self, name: str) -> Any:
        if name == self.name and self.happens:
            happens, self.happens = self.happens, None
            happens()
        return getattr(self.cluster, name)


def land(pipeline: Pipeline, plan: OffsetPlan) -> None:
    """The commit of ``plan`` arrives, and its worker dies before the checkpoint."""
    mark = mark_of(plan).encode()
    commit(
        pipeline.cluster,
        pipeline.group,
        {p.topic_partition: CommittedOffset(p.end_offset, None, mark) for p in plan.partitions},
    )
