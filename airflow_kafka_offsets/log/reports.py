# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a Spark driver reports of a batch, and whether that proves that the batch is in the output.

Verified: exactly one attempt has the highest number, and it has a report for the current plan whose counts match. Per
partition, rows + bad records + filtered = different offsets, and these and the gaps that a scan of Kafka showed are the
offsets planned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.json_columns import from_columns, read_as
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Attempt, Batch, Proof
from airflow_kafka_offsets.plan.body import PlanBody


class Counts(NamedTuple):
    """What a driver counted in one partition.

    :ivar offsets: how many different offsets the rows, bad records and filtered records have.
    :ivar gaps: planned offsets that have no record, as a scan of Kafka showed.
    :ivar first: the smallest offset; ``last``: the largest; ``None`` where there is none.
    """

    rows: int = 0
    bad: int = 0
    filtered: int = 0
    offsets: int = 0
    gaps: int = 0
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """
    :ivar job: the digest of the job object that the driver was given.
    :ivar snapshot: the table's snapshot or version that has the rows; ``None``: not known.
    :ivar proof: ``receipt``: the table's own commit says what was added; ``read back``: the rows were counted.
    """

    plan_id: str
    job: str | None
    output: str | None
    snapshot: str | None = None
    proof: Proof = "read back"
    counts: Mapping[TopicPartition, Counts] = field(default_factory=dict)

    def total(self, column: str) -> int:
        return sum(getattr(counts, column) for counts in self.counts.values())


_COLUMNS = dict.fromkeys(("rows", "bad", "filtered", "offsets", "gaps"), (int, False)) | dict.fromkeys(
    ("first", "last"), (int | None, False)
)


def report_from_dict(data: Mapping[str, Any]) -> Report:
    """:raises ValueError, LookupError, TypeError: it is no report."""
    counts = {tp: Counts(**row) for tp, row in from_columns(data["counts"], _COLUMNS)}
    proof = read_as(Proof, data.get("proof", "read back"))
    return Report(data["plan_id"], data["job"], data["output"], data.get("snapshot"), proof, counts)


class Verdict(NamedTuple):
    """Whether a batch is verified: by which attempt and report, or why not, one line each.

    :ivar attempt: 0 where no driver began and there is nothing to read.
    """

    attempt: int = 0
    report: Report | None = None
    problems: tuple[str, ...] = ()

    @property
    def is_verified(self) -> bool:
        return not self.problems


def verify(batch: Batch, body: PlanBody, read: Callable[[Batch, Attempt], Report]) -> Verdict:
    """Whether the batch's current plan is in the output."""
    highest = batch.highest_attempt
    top = [a for a in batch.attempts if a.number == highest]
    if not top:
        return Verdict(problems=("no Spark job has begun it",) if batch.has_records else ())
    if len(top) > 1:
        return Verdict(problems=(f"{len(top)} Spark jobs began attempt {highest} at once",))
    if not top[0].is_reported:
        return Verdict(problems=(f"attempt {highest} has not reported: its Spark job runs, has failed, or was killed",))
    report = read(batch, top[0])
    if report.plan_id != batch.plan.plan_id:
        return Verdict(problems=(f"attempt {highest} has written another plan of the batch",))
    return Verdict(highest, report, tuple(_problems(body, report)))


def _problems(body: PlanBody, report: Report) -> list[str]:
    problems = [f"{tp}: {counted(counts.rows, 'row')} of a partition that the batch does not read"
                for tp, counts in sorted(report.counts.items())
                if tp not in body.ranges and counts != Counts()]  # fmt: skip
    for tp, planned in sorted(body.ranges.items()):
        counts = report.counts.get(tp, Counts())
        records = counts.rows + counts.bad + counts.filtered
        expected = body.planned(tp)
        if counts.offsets + counts.gaps != expected:
            gaps = f" and {counted(counts.gaps, 'gap')}" if counts.gaps else ""
            problems.append(f"{tp}: {counted(counts.offsets, 'different offset')}{gaps}, expected {expected:,}")
        elif records != counts.offsets:
            problems.append(
                f"{tp}: {counted(records, 'record')} for {counted(counts.offsets, 'offset')}: some are there twice"
            )
        elif counts.first is not None and (counts.first < planned.start or (counts.last or 0) >= planned.end):
            problems.append(
                f"{tp}: offsets {counts.first} to {counts.last} are not within {planned.start} to {planned.end}"
            )
    return problems
