"""Everything that this package raises on purpose, split by who can act.

::

    KafkaOffsetsError                     exit status
    ├── RequestError                      2   the DAG's author: the request itself is wrong
    │   └── InvalidRequest                    one or more problems, all of them at once
    ├── RefusedError                      1   the data's or the group's owner
    │   ├── DataLoss                          records that the plan would have to read are gone
    │   ├── NoCommittedOffset                 a commit is needed, there is none, and the reset is "none"
    │   ├── NoPosition                        a pipeline, or a partition of it, has no position that could be moved
    │   ├── GroupMoved                        the group is not where the pipeline's checkpoint saw it
    │   ├── TopicVanished                     a pattern does not match a topic any more that the checkpoint holds
    │   ├── TopicRecreated                    a topic has another id than the one that offsets were kept for
    │   ├── EndBeforeStart                    an end that the plan cannot have: below its start, or beyond the log
    │   ├── PlanBelowGroup                    the plan ends below what the group has committed
    │   ├── GroupActive                       the group has live members
    │   ├── CommitConflict                    the group is not where the plan found it
    │   ├── ReadNotVerified                   the reports do not show that the plan was read
    │   ├── LateAttempt                       a Spark job has written after another one took its place
    │   ├── WindowIncomplete                  records may still arrive inside of a window that must be complete
    │   ├── WindowRepeated                    another run of the pipeline has records of this window
    │   ├── PlanSuperseded                    another run has read the records of a plan that is to be read again
    │   ├── OverlappingRun                    another run of the pipeline has planned and is not over
    │   ├── PlanReplaced                      a job or a commit of a plan that its run does not have any more
    │   ├── PlanCommitted                     a run that has committed cannot be planned anew
    │   ├── PlanLost                          a run that has committed, and whose plan is gone
    │   └── NothingToDiscover                 no topic, or no partition, matches
    └── UnavailableError                  3   the cluster's operator; `.retriable` tells whether time may heal it
        ├── ClusterUnavailable                unreachable, deadline passed, an error per partition
        │   ├── NotAuthorized                 the cluster answers, and an ACL is missing
        │   └── CommitUnsettled               the answer to a commit leaves open whether it arrived
        └── StoreUnavailable                  the work store cannot be read or written

Each is a dataclass of facts that composes its message once, names every bad partition (sorted), survives pickling
(Airflow sends exceptions between processes) and never holds a client's configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

_SHOWN = 20  # of 10,000 partitions with one cause, a message shows the first few and the count


def listed(lines: Iterable[str], shown: int = _SHOWN) -> str:
    """The lines, sorted as given, one below the other; past ``shown`` only how many more there are."""
    rows = list(lines)
    more = [f"… and {len(rows) - shown} more"] if len(rows) > shown else []
    return "\n".join([*rows[:shown], *more])


@dataclass(eq=False)
class KafkaOffsetsError(Exception):
    """The root of the tree; ``exit_status`` is what the command line returns."""

    exit_status = 1
    retriable = False

    def __reduce__(self) -> tuple[type[KafkaOffsetsError], tuple[object, ...]]:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))


class RequestError(KafkaOffsetsError):
    """The request is wrong; asking again with the same words cannot help."""

    exit_status = 2


@dataclass(eq=False)
class InvalidRequest(RequestError):
    """One or more parameters are wrong; ``problems`` has all of them, each a sentence that names the remedy."""

    problems: Sequence[str]

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return f"{len(self.problems)} problems with the request:\n" + "\n".join(f"- {p}" for p in self.problems)


class RefusedError(KafkaOffsetsError):
    """Going on would lose records, or commit unread ones; nothing was written."""


@dataclass(eq=False)
class PartitionsRefused(RefusedError):
    """A refusal with one line per partition, and one remedy.

    :ivar partitions: sentences such as ``orders[3]: start offset 120 is below log start offset 480``, sorted.
    :ivar remedy: what to do now.
    """

    partitions: Sequence[str]
    remedy: str

    def __str__(self) -> str:
        return f"{listed(self.partitions)}\n{self.remedy}"


class DataLoss(PartitionsRefused):
    """Offsets that the plan would have to read are gone (retention, DeleteRecords, truncation)."""


class NoCommittedOffset(PartitionsRefused):
    """The group has no committed offset where one is needed (Kafka's NoOffsetForPartitionException)."""


class NoPosition(PartitionsRefused):
    """A pipeline has no checkpoint, or its checkpoint lacks a partition: there is nothing to show or to move."""


class GroupMoved(PartitionsRefused):
    """The group is not where this pipeline's checkpoint saw it: somebody reset it, or a consumer used it."""


class TopicVanished(PartitionsRefused):
    """A pattern no longer matches a topic that the checkpoint holds: deleted, or no longer authorised."""


class TopicRecreated(PartitionsRefused):
    """A topic's id is not the one that its offsets were kept for: the same name, another log."""


class EndBeforeStart(PartitionsRefused):
    """A requested end lies below the start, or beyond the end of the log."""


class PlanBelowGroup(PartitionsRefused):
    """The plan ends below the group's committed offset and no policy was named that may move it back."""


class CommitConflict(PartitionsRefused):
    """The group's offset is neither where the plan found it nor where it ends; nothing was committed."""


class ReadNotVerified(PartitionsRefused):
    """The read reports do not show that exactly this plan was read; nothing was committed."""


class WindowIncomplete(PartitionsRefused):
    """A window that has to be complete ends past the newest record of some partition, so it may still grow."""


class NothingToDiscover(PartitionsRefused):
    """No topic or partition matches; a sensor waits for it, an operator says so."""


@dataclass(eq=False)
class LateAttempt(RefusedError):
    """A Spark job that was given up for lost has written into an output that is another attempt's by now.

    :ivar what: the attempt that is late.
    :ivar by: what has taken its place.
    :ivar output: where both write.
    """

    what: str
    by: str
    output: str

    def __str__(self) -> str:
        return (
            f"{self.what} comes too late: {self.by} has taken its place, and {self.output} may hold records of both. "
            "No report was made, and that output does not count as verified any more.\n"
            "Clear the Spark task of the run: it writes the output anew."
        )


@dataclass(eq=False)
class GroupActive(RefusedError):
    """The group has live members, which would overwrite a commit or be overwritten by it.

    :ivar members: one line a member: client id and host.
    """

    group_id: str
    state: str
    members: Sequence[str]

    def __str__(self) -> str:
        who = listed(self.members) if self.members else "(the broker does not list its members)"
        return (
            f"Group {self.group_id!r} is {self.state} with live members, so its offsets cannot be set:\n{who}\n"
            "Stop that consumer, or give this pipeline a group_id of its own, then clear this task."
        )


@dataclass(eq=False)
class PlanSuperseded(RefusedError):
    """The pipeline has gone on since this plan was made: its records are in another run's output.

    :ivar by: the run that has gone on from where the plan starts; with ``unblocked``, the plan that has.
    :ivar outputs: what splits of this plan have begun to write.
    :ivar unblocked: nobody has read the records: ``kafka-offsets unblock`` has stepped over some of them.
    """

    run: str
    plan_id: str
    by: str
    outputs: Sequence[str]
    unblocked: bool = False

    def __str__(self) -> str:
        written = f"\nThis plan's splits have begun to write:\n{listed(self.outputs)}" if self.outputs else ""
        if self.unblocked:
            return (
                f"Plan {self.plan_id} of run {self.run} is superseded: kafka-offsets unblock (plan {self.by}) has "
                f"moved the position since it was made.{written}\n"
                'Clear this run with re_plan, in its conf {"kafka_offsets": {"re_plan": true}}, to read on from there; '
                "or leave it: the next run does."
            )
        return (
            f"Plan {self.plan_id} of run {self.run} is superseded: run {self.by} has gone on from where it starts, so "
            f"its records are in that run's output, and reading them again would put them into two.{written}\n"
            "Mark this run as failed or successful and leave it. To skip such runs by themselves, set "
            'on_superseded="skip"; to read records once more on purpose, use a window plan.'
        )


@dataclass(eq=False)
class OverlappingRun(RefusedError):
    """Another run of this pipeline has planned, has not committed, and lives: where this one starts is not known yet.

    :ivar who: who was refused, such as ``run dag/run/task``.
    :ivar by: the run whose turn it is.
    :ivar one_run: whether both are tasks of one run.
    """

    who: str
    by: str
    one_run: bool = False

    retriable = True

    def __str__(self) -> str:
        if self.one_run:
            return (
                f"Two resolve tasks of one run have one checkpoint_id: {self.by} asked to plan before {self.who}, and "
                "has not committed. Nothing was planned or written by this one.\n"
                "Two tasks that read different topics need a checkpoint_id each."
            )
        return (
            f"Run {self.by} of this pipeline is not over: it asked to plan before {self.who}, and has not committed. "
            "Where the next one starts is not known before that; nothing was planned or written.\n"
            "Wait for it: give the task retries, or the DAG max_active_runs=1. If that run is stuck, mark it failed; "
            "a run that is over holds nobody up."
        )


@dataclass(eq=False)
class WindowRepeated(RefusedError):
    """Another run of the same pipeline has records of this window, so they would be in two outputs.

    :ivar rivals: one line a run: who, and which window it has.
    """

    run: str
    window: str
    checkpoint_id: str
    rivals: Sequence[str]

    def __str__(self) -> str:
        return (
            f"The {self.window} of run {self.run} overlaps what other runs of checkpoint_id {self.checkpoint_id!r} "
            f"have:\n{listed(self.rivals)}\n"
            "Nothing was planned. To write that window again, clear the run that has it: it overwrites its own output. "
            "To read the records for another purpose, give this task a checkpoint_id of its own, and another output."
        )


@dataclass(eq=False)
class PlanReplaced(RefusedError):
    """A run's task works by a plan that the run does not have any more: a job that waited for long, or a worker."""

    run: str
    plan_id: str
    by: str

    def __str__(self) -> str:
        return (
            f"Plan {self.plan_id} of run {self.run} was replaced by plan {self.by}, which overwrites its output. "
            "Nothing was read or committed by the old one.\n"
            "Clear the run's resolve task, so that Spark and commit run with the run's plan."
        )


@dataclass(eq=False)
class PlanCommitted(RefusedError):
    """A run that has committed its plan was asked to plan anew."""

    run: str
    plan_id: str

    def __str__(self) -> str:
        return (
            f"Run {self.run} has committed plan {self.plan_id}: with another plan its output would lose the records "
            "that were committed as read.\nClear it without re_plan to write the same records again."
        )


@dataclass(eq=False)
class PlanLost(RefusedError):
    """This run has committed (there is a receipt), and its plan is not in the work store any more."""

    run: str
    plan_id: str

    def __str__(self) -> str:
        return (
            f"Run {self.run} has committed plan {self.plan_id}, but that plan is no longer in the work store, so it "
            "cannot be replayed, and planning anew would read other records into the same output.\n"
            "Restore the plan object, or read the records with a window plan in a run of its own."
        )


@dataclass(eq=False)
class UnavailableError(KafkaOffsetsError):
    """Something that had to be asked did not answer.

    :ivar what: what was tried, and where.
    :ivar reason: what the other side, or the client library, says.
    :ivar remedy: what to look at.
    """

    what: str
    reason: str
    remedy: str
    retriable: bool = False

    exit_status = 3

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}\n{self.remedy}"


class ClusterUnavailable(UnavailableError):
    """The cluster could not be asked: unreachable, an error per partition, or no answer within the deadline."""


class NotAuthorized(ClusterUnavailable):
    """The cluster answers, and does not let this client do that; names the right that is missing."""


class CommitUnsettled(ClusterUnavailable):
    """The answer to a commit was an error that leaves open whether it arrived. To compare once more finds out."""


class StoreUnavailable(UnavailableError):
    """The work store could not be read or written."""
