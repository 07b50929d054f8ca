"""All errors that this package raises on purpose, grouped by who can act.

::

    KafkaOffsetsError                     exit status
    ├── RequestError                      2   the DAG's author: the request itself is wrong
    │   └── InvalidRequest                    one or more problems, all of them at once
    ├── RefusedError                      1   the data's or the group's owner
    │   ├── DataLoss                          records that the plan would have to read are gone
    │   ├── NoCommittedOffset                 a commit is needed, there is none, and nobody says what that means
    │   ├── NoRecordAtTime                    no record is as late as a start or an end by time, and that is to fail
    │   ├── EndBeforeStart                    an end that the plan cannot have: below its start, or beyond the log
    │   ├── RetentionTooClose                 retention comes sooner to unread records than the request allows
    │   ├── NothingToDiscover                 no topic, partition or record matches
    │   ├── TopicVanished                     a pattern does not match a topic any more that the pipeline has read
    │   ├── TopicRecreated                    a topic has another id than the one that the position is of
    │   ├── ClusterChanged                    another cluster answers than the one that the position is of
    │   ├── NoPosition                        a pipeline has no position yet
    │   ├── ResetRefused                      a position cannot be set now, or not without a further word
    │   ├── GroupMoved                        somebody else wrote offsets to the group
    │   ├── GroupActive                       the group has live members
    │   ├── AnotherPipeline                   the group belongs to another pipeline
    │   ├── AnotherAirflow                    another Airflow works on this pipeline
    │   ├── WorkStoreLost                     Airflow knows earlier runs, and the work store does not
    │   ├── StoreBehindGroup                  the group knows a later batch than the work store
    │   ├── OverlappingRun                    another run is at work on the batch
    │   ├── BatchClosed                       a committed batch cannot be planned anew, nor one that is not the newest
    │   ├── BatchGone                         a run's batch was cleaned away, or passed by
    │   ├── WindowOverlaps                    another window of the pipeline has records of this one
    │   ├── WindowIncomplete                  records may still arrive inside of a window that must be complete
    │   ├── OutputTaken                       the output belongs to another pipeline
    │   ├── UnknownOutput                     the output holds batches that the log does not know
    │   ├── PlanReplaced                      a job or a commit of a plan that its batch does not have any more
    │   ├── LateAttempt                       a Spark job has written after another one took its place
    │   ├── FormerDriverRuns                  the Spark driver of a plan that was replaced still runs
    │   ├── ReadNotVerified                   the reports do not show that the batch was read
    │   ├── BadRecords                        more records are bad than the limit allows
    │   └── AuditFailed                       records are missing, or there twice, by nobody's decision
    └── UnavailableError                  3   the cluster's operator; `.retriable`: another try may succeed
        ├── ClusterUnavailable                unreachable, deadline passed, an error per partition
        │   └── NotAuthorized                 the cluster answers, and an ACL is missing
        ├── StoreUnavailable                  the work store cannot be read or written
        │   └── StoreDamaged                  an object of it is not what was written
        └── RegistryUnavailable               the schema registry does not give the schemas

Each is a dataclass of facts that composes its message once, names every bad partition (sorted), survives pickling
(Airflow sends exceptions between processes) and never holds a client's configuration. Each that is raised has a code:
``str()`` begins with it and ends with the page that explains it: a Markdown file in ``errors/``. The hundreds are the
branches: 0 the request, 1 topics and records, 2 the group, 3 the log of batches, 4 reads, 5 what does not answer. A
code is never given to another class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from shlex import quote
from typing import Any, ClassVar

DOCS_URL: str | None = None
"""Where the pages are on the web, without a final slash; ``None`` as long as they are only in the repository.

``make address URL=https://…`` sets it, and with it README's links and the package's metadata.
"""

ADDRESS = "the connection"
"""What leads to a cluster."""
CONNECTION = "the Kafka connection"
"""Where a client's settings are."""
CLIENT_SETTINGS = f"bootstrap.servers, security.protocol and the credentials in {CONNECTION}"
"""What to look at where nobody answers."""

_names: ContextVar[Callable[[str], str]] = ContextVar("_names", default=str)


def named(name: str) -> str:
    """A parameter, or one of the three above, as whoever reads the message has written it: in a DAG by its own name."""
    return _names.get()(name)


@contextmanager
def names(as_written: Mapping[str, str]) -> Iterator[None]:
    """In the block, messages name these things so: the command line's by their options, a connection's by its settings.

    What it does not have is named as around the block.
    """
    around = _names.get()
    token = _names.set(lambda name: as_written.get(name) or around(name))
    try:
        yield
    finally:
        _names.reset(token)


_SHOWN = 20  # of 10,000 partitions with one cause, a message shows the first few and the count


def docs_page(name: str) -> str:
    """Where a person finds a page of the docs."""
    return f"docs/{name}.md" if DOCS_URL is None else f"{DOCS_URL}/{name.removesuffix('README')}"


def where_explained(code: str) -> str:
    """Where a person finds the page of a code."""
    explain = f"kafka-offsets explain {code}"  # who has installed a wheel has no folder docs
    return explain if DOCS_URL is None else f"{docs_page(f'errors/{code}')} ({explain})"


def listed(lines: Iterable[str], shown: int = _SHOWN) -> str:
    """The lines, sorted as given, one below the other; past ``shown`` only how many more there are."""
    rows = list(lines)
    more = [f"… and {len(rows) - shown} more"] if len(rows) > shown else []
    return "\n".join([*rows[:shown], *more])


def counted(number: int, what: str, verb: str = "") -> str:
    """``1 record``, ``12,000 records``; with a verb as of one, such as ``has``, ``12,000 records have``."""
    of_many = {"is": "are", "has": "have"}.get(verb, verb.removesuffix("s"))
    return " ".join(filter(None, (f"{number:,} {what}{'s' * (number != 1)}", verb if number == 1 else of_many)))


@dataclass(eq=False)
class KafkaOffsetsError(Exception):
    """The root of the tree; ``exit_status`` is what the command line returns.

    :cvar code: of each class that is raised; the others, which only group them, have none. It is never inherited.
    """

    code: ClassVar[str] = ""
    exit_status = 1
    retriable = False

    def __init_subclass__(cls, code: str = "") -> None:
        cls.code = code

    @property
    def message(self) -> str:
        """What, where and what now. Inside of another sentence this is what to use."""
        return ""

    def __str__(self) -> str:
        if not self.code:
            return self.message
        return f"{self.code} {type(self).__name__}: {self.message}\nPage: {where_explained(self.code)}"

    def __reduce__(self) -> tuple[type[KafkaOffsetsError], tuple[object, ...]]:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))


class RequestError(KafkaOffsetsError):
    """The request is wrong; asking again with the same words cannot help."""

    exit_status = 2


@dataclass(eq=False)
class InvalidRequest(RequestError, code="AKO-001"):
    """One or more parameters are wrong; ``problems`` has all of them, each a sentence that names the remedy."""

    problems: Sequence[str]

    @property
    def message(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return f"{len(self.problems)} problems with the request:\n" + "\n".join(f"- {p}" for p in self.problems)


def refuse(problems: Sequence[str]) -> None:
    """:raises InvalidRequest: with all of them, where there are any."""
    if problems:
        raise InvalidRequest(tuple(problems))


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

    @property
    def message(self) -> str:
        return f"{listed(self.partitions)}\n{self.remedy}"


class DataLoss(PartitionsRefused, code="AKO-103"):
    """Offsets that the plan would have to read are gone (retention, DeleteRecords, truncation), or in no window."""


class NoCommittedOffset(PartitionsRefused, code="AKO-201"):
    """The group has no committed offset where one is needed (Kafka's NoOffsetForPartitionException)."""


class NoPosition(PartitionsRefused, code="AKO-301"):
    """A pipeline has no position yet, or its position lacks a partition."""


class ResetRefused(PartitionsRefused, code="AKO-311"):
    """A person sets a position while a batch is unfinished, or back over records without saying that this is meant."""


class GroupMoved(PartitionsRefused, code="AKO-202"):
    """The group holds what this pipeline did not write: somebody reset it, or a consumer used it."""


class TopicRecreated(PartitionsRefused, code="AKO-101"):
    """A topic has another id than the one that the offsets belong to: the same name, another log."""


class AuditFailed(PartitionsRefused, code="AKO-406"):
    """An audit finds records that are missing, or there twice, and nobody has decided so."""


class ReadNotVerified(PartitionsRefused, code="AKO-401"):
    """The read reports do not show that exactly this batch was read; nothing was committed."""


class TopicVanished(PartitionsRefused, code="AKO-102"):
    """A pattern no longer matches a topic that the pipeline has read: it was deleted, or may not be seen."""


class EndBeforeStart(PartitionsRefused, code="AKO-106"):
    """A requested end lies below the start, or beyond the end of the log."""


class WindowIncomplete(PartitionsRefused, code="AKO-107"):
    """A window that has to be complete ends past the newest record of some partition, so it may still grow."""


class NoRecordAtTime(PartitionsRefused, code="AKO-108"):
    """A partition has no record at or after a time, and the policy ``no_match`` is ``fail``."""


class RetentionTooClose(PartitionsRefused, code="AKO-109"):
    """Retention may delete unread records within ``min_retention_margin``, and the policy is to fail then."""


class NothingToDiscover(PartitionsRefused, code="AKO-105"):
    """No topic or partition matches: a sensor waits for it, an operator says so. Or a person looks for no record."""


@dataclass(eq=False)
class GroupActive(RefusedError, code="AKO-203"):
    """The group has live members, which would overwrite a commit or be overwritten by it.

    :ivar members: one line a member: client id and host.
    :ivar pipeline: whose run was refused, where that is known.
    """

    group_id: str
    state: str
    members: Sequence[str]
    pipeline: str | None = None

    @property
    def found(self) -> str:
        who = listed(self.members) if self.members else "(the broker does not list its members)"
        return f"Group {self.group_id!r} is {self.state} with live members, so its offsets cannot be set:\n{who}"

    @property
    def message(self) -> str:
        name = f"={self.pipeline!r}" if self.pipeline else " to the name that `kafka-offsets pipelines` shows now"
        return (
            f"{self.found}\n"
            "Stop that consumer, then clear this task. One that is gone already (crashed; or static, and stopped) is a "
            "member until its session is over: session.timeout.ms, 45 s by default, then retry. Or leave it the group: "
            f"give the resolve task a group_id that nothing else uses and, in the same change, pipeline_id{name}, "
            "without which it would be a new pipeline that begins where startup_mode says; then clear that task."
        )


@dataclass(eq=False)
class ClusterChanged(RefusedError, code="AKO-104"):
    """The connection leads to another cluster than the pipeline's position is of."""

    pipeline: str
    was: str
    now: str

    @property
    def message(self) -> str:
        return (
            f"Pipeline {self.pipeline!r} has read cluster {self.was}, and {named(ADDRESS)} leads to cluster {self.now}."
            " Offsets of one cluster mean nothing in another.\n"
            f"Correct {named(ADDRESS)}. If the cluster was replaced: "
            'policies={"cluster_changed": "earliest"} reads the new one from its log starts; "adopt-group" '
            "goes on from the group's offsets there, which mirroring tools translate."
        )


@dataclass(eq=False)
class AnotherPipeline(RefusedError, code="AKO-204"):
    """The group's offsets name another pipeline; usually this one under an earlier name.

    :ivar writers: one line a partition: where, and whose metadata.
    """

    pipeline: str
    group_id: str
    writers: Sequence[str]
    other: str

    @property
    def message(self) -> str:
        return (
            f"Pipeline {self.pipeline!r} has no batch yet, and group {self.group_id!r} follows another pipeline:\n"
            f"{listed(self.writers)}\n"
            f"If the DAG was renamed, give the resolve task pipeline_id={self.other!r}. If these are two pipelines, "
            "give this one a group_id of its own."
        )


@dataclass(eq=False)
class AnotherAirflow(RefusedError, code="AKO-304"):
    """Another Airflow writes this pipeline's log or group: staging and production on one bucket, or a move."""

    pipeline: str
    mine: str
    other: str
    where: str

    @property
    def message(self) -> str:
        return (
            f"Pipeline {self.pipeline!r} belongs to Airflow {self.other} ({self.where}); this is Airflow "
            f"{self.mine}. Two would do each other's batches. Nothing was planned.\n"
            "Give this Airflow a work store and a group_id of its own. If it takes the other's place: "
            'policies={"another_airflow": "take-over"}, once. ([kafka_offsets] instance names an Airflow; default: its '
            "base URL.)"
        )


@dataclass(eq=False)
class WorkStoreLost(RefusedError, code="AKO-302"):
    """Airflow knows that this task has succeeded before, and neither work store nor group know of a batch."""

    pipeline: str
    store: str
    task: str

    @property
    def message(self) -> str:
        return (
            f"Pipeline {self.pipeline!r} has no batch in work store {self.store}, but task {self.task} has succeeded "
            "before. Its position is lost: to apply the startup mode again would skip records, or read them twice.\n"
            "If pipeline_id, group_id or work_store was changed, set it back; to go on with another group, give "
            "pipeline_id the old name. Else restore the work store; or trigger a run "
            'with the conf {"kafka_offsets": {"restart": true}}, which applies the startup mode once more.'
        )


@dataclass(eq=False)
class StoreBehindGroup(RefusedError, code="AKO-303"):
    """The group's offsets name a later batch than the log has: the work store is an older copy."""

    pipeline: str
    store: str
    newest: int
    in_group: int

    @property
    def message(self) -> str:
        return (
            f"The newest committed batch of pipeline {self.pipeline!r} in work store {self.store} is number "
            f"{self.newest}, and the group's offsets name batch {self.in_group}: the work store is an older copy.\n"
            'Restore the newest copy. If there is none: policies={"group_moved": "adopt-group"} goes on from the '
            "group, so "
            'nothing is read twice; "keep-checkpoint" goes on from the work store, and reads again what the lost '
            "batches read."
        )


@dataclass(eq=False)
class OverlappingRun(RefusedError, code="AKO-305"):
    """Another run that is running has the batch; nothing was planned or written.

    :ivar holder: who has it, in words; ``dag_id`` and ``run_id``: of its DAG run.
    :ivar batch: which batch it is.
    :ivar next_entry: the name of the object in the work store that the next change of the batch's log creates.
    """

    holder: str
    batch: str
    dag_id: str
    run_id: str
    next_entry: str

    retriable = True

    @property
    def message(self) -> str:
        return (
            f"{self.batch} is being done by {self.holder}, which is running. Nothing was planned or written.\n"
            "It ends when that run ends: wait for it, or mark it failed if it is stuck; the next try then takes over."
        )


@dataclass(eq=False)
class BatchClosed(RefusedError, code="AKO-306"):
    """A person's word names a batch that it cannot change."""

    word: str
    batch: str
    why: str

    @property
    def message(self) -> str:
        return (
            f"{self.word} cannot change {self.batch}: {self.why}.\n"
            "Only the newest batch of a log, as long as nobody has committed it, can be planned anew or skipped; a "
            "window can be planned anew at any time. To write a committed batch again, clear its run."
        )


@dataclass(eq=False)
class BatchGone(RefusedError, code="AKO-307"):
    """A run's own batch is not there to be done again.

    :ivar why: what became of it.
    :ivar output: where its rows are, as far as that is known.
    """

    run: str
    batch: str
    why: str
    output: str | None = None

    @property
    def message(self) -> str:
        where = f" Its rows are in {self.output}." if self.output else ""
        return (
            f"Run {self.run} did {self.batch}, which {self.why}.{where} It was left as it is.\n"
            "Mark this run as successful. To read the records once more, use a window (both bounds as times) with an "
            "output of its own."
        )


@dataclass(eq=False)
class WindowOverlaps(RefusedError, code="AKO-308"):
    """Another window of the same pipeline has records of this one, so they would be in two outputs.

    :ivar others: one line for each window in the way.
    :ivar withdrawn: whether this window was given up again, so that it blocks nobody.
    """

    window: str
    pipeline: str
    others: Sequence[str]
    withdrawn: bool

    @property
    def message(self) -> str:
        own = (
            "This window was withdrawn and blocks nobody."
            if self.withdrawn
            else "A Spark job has begun to write this window, so it stays: if it is the one to go, kafka-offsets skip "
            "--window empties it."
        )
        return (
            f"The {self.window} overlaps other windows of pipeline {self.pipeline!r}:\n{listed(self.others)}\n{own}\n"
            "To write one of those again, clear its run: the same window goes to the same place. To do without it, "
            "kafka-offsets skip --window. For a second purpose, use a pipeline_id and an output of its own. Two runs "
            "that planned in the same moment may both be refused: try again."
        )


@dataclass(eq=False)
class OutputTaken(RefusedError, code="AKO-309"):
    """The output belongs to another pipeline, or of the other kind of batches of this one."""

    output: str
    owner: str
    asker: str

    @property
    def message(self) -> str:
        return (
            f"Output {self.output} belongs to {self.owner}, and {self.asker} would write there too: its readers "
            "would find records twice.\n"
            "Give each an output of its own, and name it in the DAG. If this is the owner under a new name (the DAG "
            "was renamed), give it the owner's name as its pipeline_id: then it goes on where that ended. If the owner "
            "is no longer used: "
            f"kafka-offsets release-output --output-name {quote(self.output)} --execute."
        )


@dataclass(eq=False)
class UnknownOutput(RefusedError, code="AKO-310"):
    """The output holds batches that the log does not know: a lost log wrote them, and this one would repeat them.

    :ivar keys: of those batches.
    """

    output: str
    batch: str
    keys: Sequence[str]

    @property
    def message(self) -> str:
        return (
            f"Output {self.output} holds batches that {self.batch} does not know of, and whose records it may repeat:\n"
            f"{listed(self.keys)}\n"
            "Nothing was written. They come from a log that is lost, older or cleaned, or from another pipeline. "
            "If that is this one under an older name: give it that name as its pipeline_id. Else remove these batches "
            "from the output (kafka_batch=<key>), or give this pipeline another output."
        )


@dataclass(eq=False)
class PlanReplaced(RefusedError, code="AKO-402"):
    """A job or a commit works by a plan that its batch does not have any more: it was late, or was taken for dead."""

    batch: str
    plan_id: str
    by: str

    @property
    def message(self) -> str:
        by = f"replaced by plan {self.by}, which overwrites its output" if self.by else "cleaned away"
        return (
            f"Plan {self.plan_id} of {self.batch} was {by}. Nothing was read or committed by the old one.\n"
            "Clear the run's resolve task, so that Spark and commit run with the batch's plan."
        )


@dataclass(eq=False)
class LateAttempt(RefusedError, code="AKO-403"):
    """A Spark job finds that another one has taken its place at the same split.

    :ivar what: the attempt that is late.
    :ivar wrote: whether it may have written already.
    """

    what: str
    by: str
    output: str
    wrote: bool

    @property
    def message(self) -> str:
        if not self.wrote:
            return f"{self.what} stops before it writes: {self.by} has taken its place.\nThere is nothing to do."
        return (
            f"{self.what} comes too late: {self.by} has taken its place, and {self.output} may hold rows of both. No "
            "report was made, and that split does not count as verified any more.\n"
            "Clear the run from its Spark task on: Spark writes the split anew."
        )


@dataclass(eq=False)
class BadRecords(RefusedError, code="AKO-405"):
    """More records of a batch do not decode, or fail an expectation, than the limit allows.

    :ivar what: the batch, or one split of it.
    :ivar count: how many are bad; :ivar allowed: how many may be, by ``limit``.
    :ivar examples: the first of them: ``orders[3]: offset 4711: the value is not JSON …``.
    """

    what: str
    count: int
    allowed: int
    limit: str
    examples: tuple[str, ...] = ()
    left: str = "Nothing is committed, and its output stays as it is."

    @property
    def message(self) -> str:
        first = "".join(f"\n{example}" for example in self.examples)
        return (
            f"{self.count} records of {self.what} are bad, and the limit {self.limit} allows {self.allowed}. "
            f"{self.left}{first}\n"
            "Correct the schema or the expectation, and clear the run from its resolve task on. Or set them aside: "
            'bad_records={"format": "parquet", "path": "/lake/bad_orders", "limit": "1%"}.'
        )


@dataclass(eq=False)
class FormerDriverRuns(RefusedError, code="AKO-404"):
    """The Spark driver of a run's former plan may still write, so the driver of the plan now is not started."""

    driver: str
    state: str

    retriable = True

    @property
    def message(self) -> str:
        return (
            f"Driver {self.driver} of this run's former plan is {self.state}, and would overwrite what the driver of "
            "the plan now would write. No driver was started.\n"
            "Let the retries wait until it has ended, or kill it."
        )


@dataclass(eq=False)
class UnavailableError(KafkaOffsetsError):
    """Something that had to be asked did not answer.

    :ivar what: what was tried, and where.
    :ivar reason: what the other side, or the client library, says.
    :ivar remedy: what to look at.
    :ivar unanswered: the partitions that have no answer although the cluster does answer and names their leaders, and
        why; empty where that is not known.
    """

    what: str
    reason: str
    remedy: str
    retriable: bool = False
    unanswered: Mapping[Any, str] = field(default_factory=dict)

    exit_status = 3

    @property
    def message(self) -> str:
        return f"{self.what}: {self.reason}\n{self.remedy}"


class ClusterUnavailable(UnavailableError, code="AKO-501"):
    """The cluster could not be asked: unreachable, an error per partition, or no answer within the deadline."""


class NotAuthorized(ClusterUnavailable, code="AKO-502"):
    """The cluster answers, and does not let this client do that; names the right that is missing."""


class StoreUnavailable(UnavailableError, code="AKO-504"):
    """The work store could not be read or written."""


class StoreDamaged(StoreUnavailable, code="AKO-505"):
    """An object of the work store is torn, altered, missing or of an unknown version; it is named."""


class RegistryUnavailable(UnavailableError, code="AKO-506"):
    """The schema registry does not give the schemas: no answer, a right that is missing, or a text that is none."""
