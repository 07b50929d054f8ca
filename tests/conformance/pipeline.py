"""A scheduled pipeline on a cluster: each run makes its plan and commits it, or fails in between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.request.parse_request import PlanRequest, RunContext, request_for
from tests.asked import request_parameters
from tests.conformance.situations import NOW
from tests.contract import pipeline as contract
from tests.contract.pipeline import Run
from tests.engine import preview


@dataclass
class Pipeline(contract.Pipeline):
    """A pipeline whose runs are numbered. ``parameters`` are the operator's; a run may add to them.

    :ivar group: ``None``: there is none.
    """

    group: str | None  # type: ignore[assignment]
    pipeline_id: str = "billing"
    now_ms: int = NOW
    runs: int = field(default=0, kw_only=True)

    def first(self, **more: Any) -> Draft:
        """What a first run would read: there is no position, and nothing is written."""
        return preview(self.request(**more), self.cluster, None)

    def next(self, **more: Any) -> Run:
        """The resolve task of a new run."""
        self.runs += 1
        return self.resolve(f"run-{self.runs}", **more)

    def ends_well(self, **more: Any) -> Run:
        """A new run, all of it; what its Spark jobs do is not looked at."""
        run = self.next(**more)
        run.commit(require_report=False)
        return run

    def request(self, *, run_type: str | None = None, **parameters: Any) -> PlanRequest:
        given = {"group_id": self.group, "pipeline_id": self.pipeline_id, **self.parameters, **parameters}
        if not {"topics", "topic_pattern", "partitions"} & given.keys():
            given["topics"] = [self.topic]
        return request_for({}, request_parameters(**given), RunContext(self.now_ms, run_type=run_type or self.run_type))

    def committed(self, *partitions: TopicPartition) -> dict[int, int]:
        """What the group holds of them, by partition number."""
        assert self.group is not None
        found = self.cluster.committed(self.group, list(partitions))
        return {tp.partition: commit.offset for tp, commit in found.items()}


def ranges(plan: Plan) -> dict[int, tuple[int, int]]:
    return {p.topic_partition.partition: (p.start_offset, p.end_offset) for p in plan.partitions}


def reasons(plan: Plan) -> list[str]:
    return [p.start_reason for p in plan.partitions]


class Wrapped:
    """A cluster of which a test answers some questions itself, by a method; ``self.real`` answers the rest."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def of(topic: str, numbers: Iterable[int], offset: int) -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition(topic, number): CommittedOffset(offset) for number in numbers}
