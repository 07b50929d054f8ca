"""What was seen of a pipeline, its topics and its group; and the questions that a decision may ask.

A situation is frozen, and holds the answers to the questions that were asked so far. What was not asked is absent,
never empty. ``decide`` takes what it lacks by :meth:`Situation.need`; the first thing that is missing ends it, the
engine asks, and it decides once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

from airflow_kafka_offsets.batch.no_airflow import NoAirflow
from airflow_kafka_offsets.broker.protocol import Cluster, EndOffset
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    IsolationLevel,
    RunKey,
    TopicPartition,
    TopicSettings,
)
from airflow_kafka_offsets.log.pipeline_log import BatchOfRun, PipelineLog, StoredBatch
from airflow_kafka_offsets.log.verify_reads import Attempt
from airflow_kafka_offsets.plan.backlog import Backlog
from airflow_kafka_offsets.plan.commit_metadata import Held
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.position import SavedOffset
from airflow_kafka_offsets.plan.ranges import Known, Logs
from airflow_kafka_offsets.plan.records_now import RecordsNow
from airflow_kafka_offsets.plan.window_claims import TimeClaim
from airflow_kafka_offsets.request.parse_request import PlanRequest

A = TypeVar("A", covariant=True)
T = TypeVar("T")
X = TypeVar("X")
P = ParamSpec("P")

# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LogNow:
    """:ivar newest: the newest batch; :ivar own: which batch this run took before."""

    newest: StoredBatch | None
    own: BatchOfRun | None


@dataclass(frozen=True, slots=True)
class GroupNow:
    """:ivar held: what the group holds; ``None`` where this plan does not need it.

    :ivar warnings: what the plan should say of it.
    """

    held: Held | None
    warnings: tuple[str, ...] = ()


At = EndOffset | Known | SavedOffset
"""An offset, and the newest leader epoch of when it was taken from the log."""


# ── questions; ``look_ups`` answers them ──────────────────────────────────────────────────────────────────────────────


class Question(Generic[A]):
    """What can be asked; its answer is an ``A``. Each is a value: two that are equal are one question."""

    __slots__ = ()


@dataclass(frozen=True)
class About(Question[A], Generic[X, A]):
    """A question about one thing."""

    thing: X


class NewestBatch(About[RunKey | None, LogNow]):
    """The log's newest batch, and what this run took before."""


@dataclass(frozen=True)
class Ask(Question[A]):
    """What a method of the log, the cluster or Airflow answers, with nothing beside it."""

    whose: Literal["pipeline", "cluster", "around"]
    method: str
    args: tuple[Any, ...]
    more: Mapping[str, Any]


class TopicsThatExist(About[tuple[str, ...], ClusterDescription | None]):
    """Those of some topics that exist; ``None``: nothing at all is found."""


class WindowsBeside(About[TimeClaim, tuple[StoredBatch | None, StoredBatch | None, int | None]]):
    """The window that ends where this one begins, the first one that begins where this one ends or later, and when the
    last one ends that does so before; ``None``: there is none.
    """


class HasBegun(About[StoredBatch, bool]):
    """Whether a Spark job has begun to read any split of any plan of the batch."""


class Reports(About[StoredBatch, dict[int, list[Attempt]]]):
    """Of each split the attempts that decide whether it is verified."""


@dataclass(frozen=True, slots=True)
class HighestAttempts(Question[dict[int, int]]):
    """Of each split the number of its highest attempt so far."""

    batch: StoredBatch
    splits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecordsOf(Question[RecordsNow]):
    """Whether the records of a plan are still in Kafka.

    :ivar may_hold: partitions without a leader are named, and not asked for, and those whose leader does not answer
        until the deadline are named; else the answer waits for a leader.
    """

    plan: Plan
    may_hold: bool = False


@dataclass(frozen=True, slots=True)
class OffsetsOfGroup(Question[GroupNow]):
    """What the group holds on these partitions, as the plan needs it."""

    request: PlanRequest
    partitions: tuple[TopicPartition, ...]


class MorePartitions(About[tuple[TopicPartition, ...], ClusterDescription]):
    """Partitions that the subscription does not match."""


@dataclass(frozen=True, slots=True)
class RangeLookUps(Question[Logs]):
    """All that the rules need of the partitions' logs, asked in the order of B6 and B12.

    :ivar start_times: of each partition whose start is a time; ``end_times``: whose end is one.
    :ivar future_ms: a record of this time or later is of the future; ``None`` where no time is looked up.
    :ivar known_ends: offsets that the logs had: one that ends below its own is asked once more, by a new client.
    :ivar may_hold: the partitions that may be without an answer, if their leader gives none until the deadline.
    """

    partitions: tuple[TopicPartition, ...]
    isolation_level: IsolationLevel
    start_times: Mapping[TopicPartition, int]
    end_times: Mapping[TopicPartition, int]
    future_ms: int | None = None
    known_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    may_hold: frozenset[TopicPartition] = frozenset()


class Cuts(About[Mapping[TopicPartition, At], dict[TopicPartition, int]]):
    """The first offset from which on a log is another one now; absent where it is not."""


class SettingsOf(About[tuple[str, ...], dict[str, TopicSettings]]):
    """Of each topic whose clock its records have, and how long they stay."""


@dataclass(frozen=True, slots=True)
class BacklogOf(Question[Backlog]):
    """What the caps leave to later runs.

    :ivar carried: how many offsets of each partition; ``ends``: where this plan ends there.
    :ivar settings: of the topics; absent where this client may not know.
    :ivar pace_ms: how far apart runs are; ``None`` where that is not known.
    """

    request: PlanRequest
    ends: Mapping[TopicPartition, int]
    carried: Mapping[TopicPartition, int]
    settings: Mapping[str, TopicSettings]
    pace_ms: int | None


class Lacking(Exception):
    """Ends a decision that lacks an answer: the engine asks, and it is decided again."""

    def __init__(self, question: Question[Any]) -> None:
        super().__init__(question)
        self.question = question


@dataclass(frozen=True, slots=True)
class Situation:
    """The answers so far, to what a decision has asked in the order that the rules need.

    :ivar pipeline: the name of the pipeline; ``store``: what people call its work store.
    """

    pipeline: str
    store: str
    answers: Sequence[tuple[Question[Any], Any]] = ()

    def need(self, question: Question[T]) -> T:
        """The answer.

        :raises Lacking: it was not asked yet.
        """
        for asked, answer in self.answers:
            if asked == question:
                found: T = answer
                return found
        raise Lacking(question)

    def log(self, method: Callable[Concatenate[PipelineLog, P], T], *args: P.args, **more: P.kwargs) -> T:
        """What the log answers: ``s.log(PipelineLog.read, folder)``."""
        return self.need(Ask[T]("pipeline", method.__name__, args, more))

    def cluster(self, method: Callable[Concatenate[Cluster, P], T], *args: P.args, **more: P.kwargs) -> T:
        """What the cluster answers."""
        return self.need(Ask[T]("cluster", method.__name__, args, more))

    def airflow(self, method: Callable[Concatenate[NoAirflow, P], T], *args: P.args, **more: P.kwargs) -> T:
        """What the Airflow around answers."""
        return self.need(Ask[T]("around", method.__name__, args, more))

    def with_answer(self, question: Question[T], answer: T) -> Situation:
        return replace(self, answers=(*self.answers, (question, answer)))
