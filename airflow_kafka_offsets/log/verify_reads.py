"""Attempts and reports → verified, or a table of what is missing.

A split is verified by its single highest attempt that wrote: that one has to have reported exactly the plan's ranges.
An attempt that has begun and not reported may have written half; two with the highest number may both have. One that
reported *nothing written* takes nothing from a finished split.

A report proves a range in one of four ways. ``rows``: the output was read back, and has as many rows as offsets, each
offset once (Spark counts the different ones). ``compared``: on a compacted or transactional topic some offsets have no
record; there the output was read back and has just the offsets that a scan of the range under ``failOnDataLoss`` found.
``scan``: that scan came to its end, and nobody has looked at the output. ``merged``: so did it, and the output has one
row for each key, and takes nothing back.

A split that must be empty has to be read back: a scan of no records shows nothing of the rows that an attempt before
may have left, and another split may have them now. It has not where nobody wrote before, and where the whole batch was
given up: what is left then is in no other batch, and an output that cannot be read back would stay unfinished for ever.
Nor has a split that was ``merged``: the rows of an attempt before are those of real records, and stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, get_args

from airflow_kafka_offsets.errors import ReadNotVerified, named
from airflow_kafka_offsets.json_columns import as_json, read_as, reading, require_version
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.plan import Plan, PlannedPartition, VerifiedSplit

VERSION = 1
Proof = Literal["scan", "merged", "compared", "rows"]  # the weakest first
PROVED: Mapping[Proof, str] = {
    "scan": "scanned, not read back",
    "merged": "scanned and merged by key, which leaves no row for each record to read back",
    "compared": "read back, and compared with a scan",
    "rows": "read back",
}


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """One partition's report: how many rows were written, of how many offsets, and the first and last offset.

    :ivar row_count: with those that were set aside and left out, which are no difference between two reads.
    """

    row_count: int
    offset_count: int
    first_offset: int
    last_offset: int
    set_aside: int = field(default=0, compare=False)
    left_out: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.offset_count <= self.row_count:
            raise ValueError(f"{self.row_count} rows cannot have {self.offset_count} different offsets")
        if min(self.set_aside, self.left_out) < 0 or self.set_aside + self.left_out > self.row_count:
            raise ValueError(f"{self.set_aside} set aside and {self.left_out} left out are no part of {self.row_count}")


COUNTED = ("row_count", "offset_count", "first_offset", "last_offset")


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What one attempt at a split wrote.

    :ivar wrote: ``False``: it stopped before it wrote anything.
    :ivar looked: whether its driver has seen, after it had read, that no topic was made anew. One without a Kafka
        client that it could ask (Spark Connect) has not.
    :ivar rows: the digest of the row definition; ``None`` where records were written as they are.
    :ivar columns: of each output that a sink of this package wrote, its columns and Spark's name for their types.
    """

    plan_id: str
    split: int
    attempt: int
    proof: Proof
    partitions: Mapping[TopicPartition, PartitionRead]
    output: str | None = None
    wrote: bool = True
    looked: bool = True
    rows: str | None = None
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)

    def to_dict(self) -> dict[str, Any]:
        found = as_json(self)
        return {"version": VERSION, "topics": found.pop("partitions"), **found}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReadReport:
        """:raises ValueError: not a report of a version that is known."""
        with reading("a read report"):
            require_version(data, VERSION, "read report")
            found: ReadReport = read_as(cls, {**data, "wrote": data["wrote"], "partitions": data["topics"]})
        return found


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a split: its number, and its report once it has made one."""

    number: int
    report: ReadReport | None = None

    @property
    def may_have_written(self) -> bool:
        return self.report is None or self.report.wrote


def unverified(
    plan: Plan, attempts: Mapping[int, Sequence[Attempt]], newer_than: Mapping[int, int] | None = None
) -> list[str]:
    """A line for everything that speaks against the reads of ``plan``; empty where all of them are verified.

    :param attempts: of each split that may hold rows; one that nobody began is absent.
    :param newer_than: of each split the attempt that is not enough, because the batch is done again.
    """
    problems = problems_of_splits(plan, attempts, newer_than)
    return [f"split {split}: {problem}" for split, found in problems.items() for problem in found]


def problems_of_splits(
    plan: Plan, attempts: Mapping[int, Sequence[Attempt]], newer_than: Mapping[int, int] | None = None
) -> dict[int, list[str]]:
    """Of each split that may hold rows, also if it must be empty, what speaks against its reads."""
    least = newer_than or {}
    return {
        split: _problems_of_split(plan, split, attempts.get(split, ()), least.get(split, 0))
        for split in sorted(plan.splits_with_rows())
    }


def verified_splits(plan: Plan, attempts: Mapping[int, Sequence[Attempt]]) -> dict[int, VerifiedSplit]:
    """The splits with records that need not be read again: what each was read by."""
    problems = problems_of_splits(plan, attempts)
    highest = {
        split: attempts[split][0].number for split, lines in problems.items() if not lines and plan.splits[split]
    }
    return {split: VerifiedSplit(_plan_that_counts(plan, split, number), number) for split, number in highest.items()}


def attempts_that_looked(
    plan: Plan, attempts: Mapping[int, Sequence[Attempt]], made_anew: Collection[str]
) -> dict[int, list[Attempt]]:
    """The attempts without those reports that may be of another topic of the same name.

    :param made_anew: the topics that are other ones now.
    """

    def trusted(split: int, attempt: Attempt) -> Attempt:
        topics = {p.topic_partition.topic for p in plan.splits[split]}
        blind = attempt.report is not None and not attempt.report.looked and not topics.isdisjoint(made_anew)
        return Attempt(attempt.number) if blind else attempt

    return {split: [trusted(split, attempt) for attempt in found] for split, found in attempts.items()}


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of the records that are no rows of the output, by the verified reports of a batch.

    :ivar definitions: of each row definition that a split was written with, the splits; ``None`` where the records were
        written as they are.
    :ivar topics: of each topic, how many records are rows, were set aside, and were left out.
    :ivar columns: of each output, as far as the drivers have told, its columns and their types.
    :ivar attempts: how many there were up to the one of each split that counts, of all splits together.
    """

    set_aside: int = 0
    left_out: int = 0
    definitions: Mapping[str | None, tuple[int, ...]] = field(default_factory=dict)
    topics: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    attempts: int = 0

    def __str__(self) -> str:
        """Without a full stop; empty where all records are rows of the output."""
        counts = ((self.set_aside, "set aside as bad"), (self.left_out, "left out"))
        return ", ".join(f"{count:,} {what}" for count, what in counts if count)


ALL_ROWS = Fates()


def fates_of(attempts: Mapping[int, Sequence[Attempt]]) -> Fates:
    """:param attempts: of each split the deciding ones, as they are verified."""
    reports = {split: found[0].report for split, found in sorted(attempts.items()) if found and found[0].report}
    reads = [(tp.topic, read) for report in reports.values() for tp, read in report.partitions.items()]
    topics: dict[str, tuple[int, int, int]] = {}
    for topic, read in sorted(reads, key=lambda each: each[0]):
        rows, set_aside, left_out = topics.get(topic, (0, 0, 0))
        new_rows = read.row_count - read.set_aside - read.left_out
        topics[topic] = rows + new_rows, set_aside + read.set_aside, left_out + read.left_out
    definitions: dict[str | None, tuple[int, ...]] = {}
    for split, report in reports.items():
        definitions[report.rows] = (*definitions.get(report.rows, ()), split)
    tried = sum(report.attempt for report in reports.values())
    columns = {output: found for report in reports.values() for output, found in report.columns.items()}
    set_aside, left_out = (sum(getattr(read, name) for _, read in reads) for name in ("set_aside", "left_out"))
    return Fates(set_aside, left_out, definitions, topics, columns, tried)


def reads_of(plan: Plan, attempts: Mapping[int, Sequence[Attempt]]) -> str:
    """The digest of what a batch's reports say; a commit has it.

    :param attempts: of each split the deciding ones, as they are verified.
    """
    reports = [report for _, found in sorted(attempts.items()) for report in (one.report for one in found) if report]
    named = plan.asked.output is not None
    splits = [(one.split, one.attempt, one.plan_id, one.output if named else None) for one in reports]
    rows = [
        [*tp, *(getattr(read, name) for name in COUNTED)]
        for one in reports
        for tp, read in one.partitions.items()
        if read.row_count
    ]
    topics = {
        topic: list(map(list, zip(*(row[1:] for row in found), strict=True)))
        for topic, found in groupby(sorted(rows), itemgetter(0))
    }
    return digest_of_reads(splits, topics)


def digest_of_reads(splits: Sequence[Sequence[object]], topics: Mapping[str, Sequence[Sequence[int]]]) -> str:
    """
    :param splits: of each split its number, the attempt, its plan and its output; ascending.
    :param topics: of each topic the columns of its partitions that had records: their numbers, ascending, and
        ``COUNTED``.
    """
    return hashlib.sha256(json.dumps([splits, topics], separators=(",", ":"), sort_keys=True).encode()).hexdigest()[:32]


def require_verified(
    plan: Plan,
    attempts: Mapping[int, Sequence[Attempt]],
    newer_than: Mapping[int, int] | None = None,
    *,
    read_back: bool = False,
) -> Proof | None:
    """The weakest proof of all splits; ``None`` where none was to be started.

    :param read_back: whether each output has to have been read back.
    :raises ReadNotVerified: with a line for everything that is missing or too much.
    """
    lines = unverified(plan, attempts, newer_than)
    found = {split: attempt.report for split, (attempt, *_) in sorted(attempts.items())} if not lines else {}
    proofs = {split: report.proof for split, report in found.items() if report is not None}
    if read_back:
        lines += [f"split {split}: {PROVED[p]}" for split, p in proofs.items() if p in ("scan", "merged")]
    if lines:
        named_output = plan.asked.output
        output = f" Output {named_output} may not be whole for key {plan.batch.key}." if named_output else ""
        raise ReadNotVerified(
            lines,
            f"The reports do not show that {plan.batch} was read, so this task commits nothing.{output} "
            "Clear the run from its Spark task on: Spark writes the output anew and reports again. "
            'A run that has started no Spark job does the batch again with the conf {"kafka_offsets": {"redo": true}}. '
            f"({named('require_report=False')} is for jobs that make no report.)",
        )
    return min(proofs.values(), key=get_args(Proof).index, default=None)


def _problems_of_split(plan: Plan, number: int, attempts: Sequence[Attempt], newer_than: int) -> list[str]:
    wrote = [attempt for attempt in attempts if attempt.may_have_written]
    if not wrote:
        return ["no Spark job has begun to read it"]
    highest = max(attempt.number for attempt in wrote)
    top = [attempt for attempt in wrote if attempt.number == highest]
    if len(top) > 1:
        return [f"{len(top)} Spark jobs wrote to it at the same time (attempt {highest})"]
    report = top[0].report
    if report is None:
        return [f"attempt {highest} began and has not reported; its output may be half written"]
    expected_plan = _plan_that_counts(plan, number, highest)
    if report.plan_id != expected_plan:
        return [f"attempt {highest} read plan {report.plan_id}, not {expected_plan}"]
    if highest <= newer_than:
        return [f"it was not done again; attempt {highest} is of before"]
    if plan.asked.output is not None and report.output != plan.asked.output:
        return [f"it was written to {report.output}, and the batch's output is {plan.asked.output}"]
    expected = {p.topic_partition: p for p in plan.splits[number]}
    lines = [
        f"{tp}: {report.partitions[tp].row_count} rows are reported, and it is not in this split"
        for tp in sorted(report.partitions.keys() - expected.keys())
    ]
    if not expected and report.proof == "scan" and highest > 1 and not plan.empty:
        lines.append(
            "it must be empty, which only the output itself shows, and that was not read back. (Let "
            "the job return the frame that reads its output, also where there are no records. Where no output can be "
            "read back, the batch can be skipped, as a whole.)"
        )
    for tp, planned in expected.items():
        problem = _problem(planned, report.partitions.get(tp), report.proof)
        if problem:
            lines.append(f"{tp} [{planned.start_offset}, {planned.end_offset}): {problem}")
    return lines


def _plan_that_counts(plan: Plan, number: int, attempt: int) -> str:
    """Of a verified split the plan that it was read by; once it is done again, the plan that names it."""
    verified = plan.verified.get(number)
    return verified.plan_id if verified is not None and verified.attempt == attempt else plan.plan_id


def _problem(planned: PlannedPartition, read: PartitionRead | None, proof: Proof) -> str | None:
    size = planned.size
    if read is None or read.row_count == 0:
        return f"short: 0 of {size} records" if proof == "rows" else None
    if read.first_offset < planned.start_offset or read.last_offset >= planned.end_offset:
        return f"beyond: offsets {read.first_offset} to {read.last_offset} are reported"
    if read.row_count > read.offset_count:
        return f"twice: {read.row_count} rows for {read.offset_count} different offsets"
    if proof == "rows" and read.offset_count < size:
        return (
            f"short: {read.offset_count} of {size} offsets. (A job that leaves some out, by a filter, a "
            "join or dropDuplicates, persists the records and returns batch.scanned. On a compacted or transactional "
            "topic, persist them before they are written.)"
        )
    return None
