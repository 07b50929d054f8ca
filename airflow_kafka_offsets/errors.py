# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""All errors that this package raises on purpose, grouped by who can act.

::

    KafkaOffsetsError                     exit status
    ├── RequestError                      2   the DAG's author
    │   └── InvalidRequest                    one or more parameters are wrong; all problems at once
    ├── RefusedError                      1   the owner of the data or of the group; nothing was written
    │   ├── PartitionsRefused                 one line per partition, one remedy
    │   │   ├── DataLoss                      records that the batch needs no longer exist in Kafka
    │   │   ├── NothingToDiscover             no topic or partition matches
    │   │   ├── EndBeforeStart                an end lies below the start, or beyond the log
    │   │   ├── NoCommittedOffset             the group has no committed offset where one is needed
    │   │   ├── ActRefused                    a reset or a skip would read records again or lose them
    │   │   └── ReadNotVerified               the report does not show that the batch was written
    │   ├── PipelineDiffers                   request, cluster, group or output differs from the identity
    │   │   ├── ClusterChanged                another cluster answers
    │   │   ├── OutputChanged                 another output
    │   │   ├── GroupMoved                    the group holds offsets that this pipeline did not write
    │   │   ├── OtherPipeline                 another kind, number of shards or, by window, subscription
    │   │   ├── CheckpointLost                earlier batches are known, and there is no log
    │   │   └── CheckpointBehind              later batches are known than the log has: it is an older copy
    │   ├── Refusal                           three sentences, written where it is raised
    │   │   ├── WindowRefused                 the window overlaps others, or has not ended
    │   │   ├── ActStale                      the identity that an act replaces is not the current one
    │   │   ├── DryRun                        what the run would do; nothing was written
    │   │   └── PlanReplaced                  a job or a commit has a plan that was replaced
    │   ├── GroupActive                       the group has live members
    │   └── OverlappingRun                    another run that is running owns the batch; retriable
    └── UnavailableError                  3   the operator of the cluster or of the store; `.retriable`
        ├── ClusterUnavailable                unreachable, deadline passed, or an error of a partition
        │   └── NotAuthorized                 the cluster answers, and an ACL is missing
        ├── StoreUnavailable                  the checkpoint location cannot be read or written
        │   └── StoreDamaged                  an object is torn, altered or of an unknown version
        └── RegistryUnavailable               the schema registry does not give the schemas

Each is a dataclass of facts, survives pickling (Airflow sends exceptions between processes) and never holds a client's
configuration. Each class that is raised has a code and a page, ``errors/<code>.md``. The hundreds of a code: 0 the
request, 1 topics and records, 2 the group, 3 the log of batches, 4 reads, 5 what does not answer.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


def clean_text(text: object) -> str:
    """Text from outside on one line, for logs and terminals: control characters are shown as escapes (``\\x1b``)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def clean_lines(text: object) -> str:
    """The same of each line."""
    return "\n".join(map(clean_text, str(text).split("\n")))


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 4, 120, 120

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= 128 else f"a number of {x.bit_length():,} bits"


_SHORT = _Short()


def shown(value: object) -> str:
    """A value for a message: as Python writes it, cut short, without control characters."""
    return clean_text(_SHORT.repr(value))


def listed(lines: Iterable[str], limit: int = 20) -> str:
    """The first ``limit`` lines, one below the other, and how many more there are."""
    rows = list(lines)
    more = [f"… and {len(rows) - limit:,} more"] if len(rows) > limit else []
    return "\n".join([*rows[:limit], *more])


def counted(number: int, noun: str) -> str:
    """``1 record``, ``12,000 records``, ``2 batches``."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{plural * (number != 1)}"


@dataclass(eq=False)
class KafkaOffsetsError(Exception):
    """The root of the tree.

    :cvar code: of each class that is raised; the classes that only group others have none.
    :cvar exit_status: what the command line returns.
    :ivar retriable: whether another try of the same task may succeed.
    """

    code: ClassVar[str] = ""
    exit_status: ClassVar[int] = 1
    retriable = False

    def __init_subclass__(cls, code: str = "") -> None:
        cls.code = code

    @property
    def message(self) -> str:
        """The sentences without code and page."""
        return ""

    def __str__(self) -> str:
        if not self.code:
            return self.message
        return f"{self.code} {type(self).__name__}: {self.message}\nPage: kafka-offsets explain {self.code}"

    def __reduce__(self) -> tuple[type[KafkaOffsetsError], tuple[object, ...]]:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))


class RequestError(KafkaOffsetsError):
    """The request is wrong; a retry cannot help."""

    exit_status = 2


@dataclass(eq=False)
class InvalidRequest(RequestError, code="AKO-001"):
    """One or more parameters are wrong; ``problems`` has all of them, each a sentence that names the parameter."""

    problems: Sequence[str]

    @property
    def message(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return f"{len(self.problems)} problems with the request:\n" + "\n".join(f"- {p}" for p in self.problems)


class RefusedError(KafkaOffsetsError):
    """Continuing would lose records, read them twice, or overwrite another writer's offsets."""


@dataclass(eq=False)
class PartitionsRefused(RefusedError):
    """A refusal with one line per partition.

    :ivar partitions: sentences such as ``orders-3: start offset 120 is below log start offset 480``, sorted.
    :ivar remedy: what to do, with one line to copy.
    """

    partitions: Sequence[str]
    remedy: str

    @property
    def message(self) -> str:
        return f"{listed(self.partitions)}\n{self.remedy}"


class DataLoss(PartitionsRefused, code="AKO-101"):
    """Records that the batch needs are gone: retention, DeleteRecords, a truncated log or a re-created topic."""


class NothingToDiscover(PartitionsRefused, code="AKO-102"):
    """No topic or partition matches the subscription."""


class EndBeforeStart(PartitionsRefused, code="AKO-103"):
    """A requested end lies below the start, or beyond the end of the log."""


class NoCommittedOffset(PartitionsRefused, code="AKO-201"):
    """The group has no committed offset where one is needed (Kafka's NoOffsetForPartitionException)."""


class ActRefused(PartitionsRefused, code="AKO-303"):
    """What the run's conf says cannot be done: values do not match, or records would be read again."""


class ReadNotVerified(PartitionsRefused, code="AKO-401"):
    """The report does not show that exactly this batch was read and written."""


@dataclass(eq=False)
class Refusal(RefusedError):
    """A refusal in three sentences.

    :ivar what: what was refused, and where.
    :ivar cause: the reason, with both values.
    :ivar remedy: what to do, with one line to copy.
    """

    what: str
    cause: str
    remedy: str

    @property
    def message(self) -> str:
        return f"{self.what} {self.cause}\n{self.remedy}"


class WindowRefused(Refusal, code="AKO-104"):
    """The window overlaps planned windows, or has not ended."""


class ActStale(Refusal, code="AKO-306"):
    """The identity that the run's conf replaces is not the current one: a double click, or another act came first."""


class DryRun(Refusal, code="AKO-307"):
    """What the run would do. Its conf has ``dry_run``, so it wrote nothing and fails."""


class PlanReplaced(Refusal, code="AKO-402"):
    """A job or a commit has a plan that was replaced."""


@dataclass(eq=False)
class PipelineDiffers(RefusedError):
    """The request, cluster, group or output differs from the pipeline's identity. A person decides, by a run's conf.

    :ivar pipeline: its name, and what is refused.
    :ivar differences: a sentence each, with both values.
    :ivar remedy: what to do, with the conf to copy.
    """

    pipeline: str
    differences: Sequence[str]
    remedy: str

    @property
    def message(self) -> str:
        return f"{self.pipeline}\n{listed(self.differences)}\n{self.remedy}"


class ClusterChanged(PipelineDiffers, code="AKO-105"):
    """The connection leads to another cluster than the identity's."""


class GroupMoved(PipelineDiffers, code="AKO-202"):
    """The group holds offsets that this pipeline did not write."""


class OtherPipeline(PipelineDiffers, code="AKO-302"):
    """Another kind, another number of shards, or by window another cluster or subscription: another pipeline."""


class CheckpointLost(PipelineDiffers, code="AKO-304"):
    """Earlier batches of the pipeline are known, and the checkpoint location has none."""


class CheckpointBehind(PipelineDiffers, code="AKO-305"):
    """A later batch is known than the log has: the checkpoint location is an older copy."""


class OutputChanged(PipelineDiffers, code="AKO-403"):
    """The request writes another output than the identity's."""


@dataclass(eq=False)
class GroupActive(RefusedError, code="AKO-203"):
    """The group has live members, which would overwrite a commit or be overwritten by it.

    :ivar members: one line per member: client id and host.
    """

    group_id: str
    state: str
    members: Sequence[str]
    retriable = True

    @property
    def message(self) -> str:
        members = listed(map(clean_text, self.members)) if self.members else "(the broker does not list its members)"
        return (
            f"Group {self.group_id!r} is {self.state} with live members, so its offsets cannot be set:\n{members}\n"
            "Stop that consumer; the next try of this task then writes them. A consumer that crashed is a member until "
            "its session is over (session.timeout.ms, 45 s by default). If the consumer has to stay, set group_id to "
            "another group."
        )


@dataclass(eq=False)
class OverlappingRun(RefusedError, code="AKO-301"):
    """Another run that is running owns the batch.

    :ivar owner: the run, in words.
    :ivar batch: the batch, in words.
    """

    owner: str
    batch: str
    retriable = True

    @property
    def message(self) -> str:
        return (
            f"{self.batch} belongs to run {self.owner}, which is running or waits for a retry. Nothing was planned.\n"
            "Wait for that run, or mark it failed if it is stuck; the next try then takes the batch over."
        )


@dataclass(eq=False)
class UnavailableError(KafkaOffsetsError):
    """A service did not answer.

    :ivar what: what was tried, and where.
    :ivar reason: in the words of the service or the client library.
    :ivar remedy: what to check.
    :ivar unanswered: partitions without an answer, and why, where the cluster answered for others.
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
    """The cluster did not answer: unreachable, an error of a partition, or no answer within the deadline."""


class NotAuthorized(ClusterUnavailable, code="AKO-502"):
    """The cluster denied the request: an ACL is missing; names the right."""


class StoreUnavailable(UnavailableError, code="AKO-503"):
    """The checkpoint location could not be read or written."""


class StoreDamaged(StoreUnavailable, code="AKO-504"):
    """An object of the checkpoint location is torn, altered, missing or of an unknown version; it is named."""


class RegistryUnavailable(UnavailableError, code="AKO-505"):
    """The schema registry does not give the schemas: no answer, a missing right, or no schema."""
