"""Plan + what the Spark jobs reported → verified, or a table of what is missing.

A report counts what one split wrote, per partition. Where the counts fill the range there is no doubt (``counts``).
On a compacted or transactional topic they cannot; there a full scan under ``failOnDataLoss`` that came to its end is
the proof (``scan``), and the counts only have to fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.offsets.assign import split_plan
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition

Proof = Literal["counts", "scan"]


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """Of one partition: how many records, and the offsets of the first and the last."""

    record_count: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What one split wrote. ``attempt`` is the number of the ``begun`` object that it belongs to."""

    plan_id: str
    split: int
    attempt: int
    proof: Proof
    partitions: Mapping[TopicPartition, PartitionRead]
    output: str | None = None

    def to_dict(self) -> dict[str, Any]:
        topics: dict[str, dict[str, list[int]]] = {}
        for tp in sorted(self.partitions):
            read = self.partitions[tp]
            columns = topics.setdefault(
                tp.topic, {"partition": [], "record_count": [], "first_offset": [], "last_offset": []}
            )
            columns["partition"].append(tp.partition)
            columns["record_count"].append(read.record_count)
            columns["first_offset"].append(read.first_offset)
            columns["last_offset"].append(read.last_offset)
        return {
            "version": 1,
            "plan_id": self.plan_id,
            "split": self.split,
            "attempt": self.attempt,
            "proof": self.proof,
            "output": self.output,
            "topics": topics,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReadReport:
        """:raises ValueError: not a report of a version that is known."""
        if data.get("version") != 1:
            raise ValueError(f"read report version {data.get('version')!r} is not known")
        partitions = {
            TopicPartition(topic, number): PartitionRead(count, first, last)
            for topic, columns in data["topics"].items()
            for number, count, first, last in zip(
                columns["partition"],
                columns["record_count"],
                columns["first_offset"],
                columns["last_offset"],
                strict=True,
            )
        }
        return cls(data["plan_id"], data["split"], data["attempt"], data["proof"], partitions, data["output"])


@dataclass(frozen=True, slots=True)
class SplitAttempt:
    """The newest attempt at a split: its number, and its report once its sink has succeeded."""

    attempt: int
    report: ReadReport | None


def verify_reads(plan: OffsetPlan, attempts: Mapping[int, SplitAttempt]) -> None:
    """Return if the latest attempt at each split with records has reported exactly the plan's ranges.

    :param attempts: by split number; a split that never began is absent.
    :raises ReadNotVerified: one line for everything that is missing or too much.
    """
    lines: list[str] = []
    for number, partitions in enumerate(split_plan(plan)):
        if partitions or number in attempts or plan.starts_all_splits:
            lines += _problems_of_split(plan, number, partitions, attempts.get(number))
    if lines:
        raise ReadNotVerified(
            lines,
            f"Plan {plan.plan_id} is not shown to have been read, so nothing was committed. Clear the Spark task: it "
            "overwrites its output and reports again. (require_report=False is for jobs that make no report.)",
        )


def _problems_of_split(
    plan: OffsetPlan, number: int, partitions: list[PlannedPartition], attempt: SplitAttempt | None
) -> list[str]:
    if attempt is None:
        return [f"split {number}: no Spark job has begun to read it"]
    if attempt.report is None:
        return [f"split {number}: attempt {attempt.attempt} began and has not reported; its output may be half written"]
    report = attempt.report
    if report.plan_id != plan.plan_id:
        return [f"split {number}: the report is of plan {report.plan_id}"]
    if (report.split, report.attempt) != (number, attempt.attempt):
        return [f"split {number}: the report is of split {report.split}, attempt {report.attempt}"]
    expected = {p.topic_partition: p for p in partitions}
    lines = [
        f"split {number}, {tp}: {report.partitions[tp].record_count} records are reported, and it is not in this split"
        for tp in sorted(report.partitions.keys() - expected.keys())
    ]
    for tp, planned in expected.items():
        problem = _problem(planned, report.partitions.get(tp), report.proof)
        if problem:
            lines.append(f"split {number}, {tp} [{planned.start_offset}, {planned.end_offset}): {problem}")
    return lines


def _problem(planned: PlannedPartition, read: PartitionRead | None, proof: Proof) -> str | None:
    size = planned.range.size
    if read is None or read.record_count == 0:
        return None if proof == "scan" else f"short: 0 of {size} records"
    if read.first_offset < planned.start_offset or read.last_offset >= planned.end_offset:
        return f"beyond: offsets {read.first_offset} to {read.last_offset} are reported"
    if read.record_count > size:
        return f"twice: {read.record_count} records are reported for {size} offsets"
    if proof == "counts" and read.record_count < size:
        return (
            f"short: {read.record_count} of {size} records. (On a compacted or transactional topic, report from the "
            "persisted frame: counts cannot prove a read there.)"
        )
    return None
