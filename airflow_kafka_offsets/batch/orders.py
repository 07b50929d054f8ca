"""What a task or a person wants of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_kafka_offsets.kafka_values import Actor, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.plan.position_moves import Target
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.policies import Skip
from airflow_kafka_offsets.values.row_definition import Limit

RequireReport = bool | Literal["read-back"]


@dataclass(frozen=True, slots=True)
class NextBatch:
    """A run's batch of the log: the unfinished one, its own once more, or a new one."""

    request: PlanRequest
    me: Actor


@dataclass(frozen=True, slots=True)
class Window:
    """The window that the request names."""

    request: PlanRequest
    me: Actor


@dataclass(frozen=True, slots=True)
class PlanReference:
    """What a run's resolve task handed to its Spark and commit tasks.

    :ivar folder: of the batch, below the pipeline's; ``None``: there was nothing to do.
    :ivar plan_id: of the plan that Spark was given.
    """

    folder: str | None
    plan_id: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Verify the batch's reads, commit it, and let the group follow.

    :ivar require_report: whether the read reports must show it; ``False`` for jobs that make none. ``read-back``: each
        must be of an output that was read back.
    :ivar limit: how many records may be bad, of all splits together; ``None`` where none is set aside.
    """

    reference: PlanReference
    me: Actor
    now_ms: int
    require_report: RequireReport = True
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class OfGroup:
    """The offsets of another group, which are not known before the cluster is asked."""

    group_id: str


@dataclass(frozen=True, slots=True)
class OfBatch:
    """Where the pipeline stood after a committed batch of its log: what a savepoint is to Flink."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class Reset:
    """Set the position, and let the group follow.

    :ivar topics: all partitions of these topics; :ivar partitions: these; neither: all that the position has.
    :ivar allow_duplicates: whether records may be read, and written, a second time.
    """

    target: Target | OfGroup | OfBatch
    reason: str
    me: Actor
    now_ms: int
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    allow_duplicates: bool = False


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """A person leaves out the unfinished batch, or records of it. No run holds it then: the next one does the new plan.

    :ivar window: whether ``skip`` names a window, committed or not, by its name (``<from>--<to>``) or its key.
    """

    skip: Skip
    now_ms: int
    window: bool = False


@dataclass(frozen=True, slots=True)
class Redo:
    """A person does a committed batch again: from its ``taken`` on, what was written before does not verify it.

    The batch keeps its key, its ranges and its place, Spark replaces its rows there, and its commit stands.
    """

    batch: StoredBatch
    me: Actor
    now_ms: int


Order = NextBatch | Window | Commit | Reset | LeaveOut | Redo
