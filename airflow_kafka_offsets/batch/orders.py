"""What a task or a person wants of a pipeline, and what can be decided of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_kafka_offsets.kafka_values import Actor, TopicPartition
from airflow_kafka_offsets.log.entries import Committed, History, Taken
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.verify_reads import ALL_ROWS, Fates, Proof
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.plan.position import Move, Position, Target
from airflow_kafka_offsets.plan.window_claims import Claim
from airflow_kafka_offsets.request.modes import RequireReport
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.policies import Skip
from airflow_kafka_offsets.values.row_definition import Limit


@dataclass(frozen=True, slots=True)
class RunsBatch:
    """A run's batch: the window that its request names; else, of the log, the unfinished one, its own, or a new one."""

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
    :ivar not_done: of the tasks that read, those that have not succeeded, with their states: without reports they show
        that the batch was not read.
    """

    reference: PlanReference
    me: Actor
    now_ms: int
    require_report: RequireReport = True
    limit: Limit | None = None
    not_done: tuple[str, ...] = ()


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

    :ivar person: their name, where it is known.
    :ivar window: whether ``skip`` names a window, committed or not, by its name (``<from>--<to>``) or its key.
    """

    skip: Skip
    now_ms: int
    window: bool = False
    person: str | None = None


@dataclass(frozen=True, slots=True)
class Redo:
    """A person does a committed batch again: from its ``taken`` on, what was written before does not verify it.

    The batch keeps its key, its ranges and its place, Spark replaces its rows there, and its commit stands.
    """

    batch: StoredBatch
    me: Actor
    now_ms: int


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The pipeline is the Airflow's from here on that ``me`` names. It was another one's, which is refused then."""

    me: Actor
    now_ms: int


# ── what is decided: of each order its own; carry_out executes each, messages has the sentences ───────────────────────


@dataclass(frozen=True, slots=True)
class Create:
    """Put a new batch on record.

    :ivar number: of the batch; of a window, of the first entry of its log, which is not 1 where it was cleaned away.
    :ivar after: the key of the batch that it goes on from.
    :ivar claim: what a window claims; ``None`` for a batch of the log.
    :ivar position: the position that it goes on from.
    :ivar history: of the batches before it.
    :ivar sentence: what the run does and why; goes on after "This run". A person's position has none.
    :ivar reason: of a person's position: whereto, and why.
    """

    draft: Draft
    number: int
    sentence: str
    after: str | None = None
    claim: Claim | None = None
    position: Position | None = None
    history: History = field(default_factory=History)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """Plan an unfinished batch anew in place, or a window.

    :ivar sentence: of a run, as above; a person's plan has none, and no run holds the batch then.
    """

    batch: StoredBatch
    plan: Plan
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Do:
    """Do a batch as it is: an unfinished one, or a committed one once more, into the same place.

    :ivar splits: those that Spark jobs are started for.
    :ivar taken: what is appended first: somebody else had the batch before, or newer attempts have to be told from
        those so far. ``None``: the log says already who has it.
    :ivar waiting: how many offsets have come since it was planned.
    """

    batch: StoredBatch
    splits: tuple[int, ...]
    taken: Taken | None
    sentence: str = ""
    waiting: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave a committed batch as it is.

    :ivar taken: what is appended, where the log says that somebody has it, or does it again.
    """

    batch: StoredBatch
    taken: Taken | None
    sentence: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Another run that is running has the batch."""

    batch: StoredBatch


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do.

    :ivar draft: what a batch would read; ``None`` where none was drafted.
    """

    sentence: str
    draft: Draft | None = None


Decision = Create | Replace | Do | Leave | Wait | Nothing
"""What a run does, or why it does nothing."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Let the group follow the position, after a batch's commit.

    :ivar batch: ``None``: the run had none.
    :ivar entry: the commit, which is appended first; ``None``: it is on record.
    :ivar proof: of the reads; ``None`` where no report was asked for, or nothing was to be read.
    """

    batch: StoredBatch | None = None
    entry: Committed | None = None
    proof: Proof | None = None
    fates: Fates = ALL_ROWS


@dataclass(frozen=True, slots=True)
class SetPosition:
    """Put a person's position on record, commit it, and let the group follow.

    :ivar moves: where each partition goes; ``stays``: those that the target has no offset for.
    :ivar create: the batch that says so; ``None``: every partition is there already, and only the group is renewed.
    :ivar by: whose plan it is: a person's, in the name of the Airflow that the pipeline is of.
    """

    moves: tuple[Move, ...]
    stays: tuple[TopicPartition, ...]
    create: Create | None
    by: Actor
