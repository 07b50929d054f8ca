# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The result of resolve: the arguments of one Spark job, and what the commit needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from airflow_kafka_offsets.errors import InvalidRequest, counted, shown
from airflow_kafka_offsets.json_columns import as_json, read_as
from airflow_kafka_offsets.kafka_values import RunKey, by_topic, values_by_topic
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import PlanBody
from airflow_kafka_offsets.times import iso


@dataclass(frozen=True, slots=True)
class NoBatch:
    """There is nothing to do; the tasks after resolve are skipped."""

    summary: str


@dataclass(frozen=True, slots=True)
class PlanReference:
    """The XCom ``plan``: which plan this run gave to Spark.

    :ivar starts_job: whether a Spark job has to run.
    :ivar is_rewrite: the batch is committed, and this run rewrites it.
    :ivar is_left: the batch is committed and its records are gone: the job only looks whether its rows are there.
    :ivar is_retry: an earlier try planned it, without a clear since: its rows count.
    :ivar job: the digest of the job object; ``None``: the job is the user's own.
    :ivar window: ``[start, end)`` in epoch milliseconds; others may be written at the same time. ``None``: in sequence.
    :ivar identity: the number of the identity that it was planned under.
    """

    pipeline: str
    checkpoint_location: str
    batch: int
    entry: int
    plan_id: str
    key: str
    run: RunKey
    starts_job: bool
    is_rewrite: bool = False
    is_left: bool = False
    is_retry: bool = False
    job: str | None = None
    kafka_config_id: str = "kafka_default"
    offsets: int = 0
    partitions: int = 0
    window: tuple[int, int] | None = None
    identity: int = 1

    @property
    def name(self) -> str:
        """Of the pipeline, without the shard."""
        return self.pipeline.partition("/")[0]

    @property
    def partition(self) -> str:
        """The batch as a partition of an asset: its window's start in UTC, as Airflow writes it, or its key."""
        if self.window is None:
            return self.key
        return datetime.fromtimestamp(self.window[0] / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = as_json(self)
        return found

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """:raises InvalidRequest: it is not what resolve pushed."""
        try:
            reference: Self = read_as(cls, data)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise InvalidRequest(
                (f'plan is {shown(data)[:80]}; give the XCom of the resolve task: plan=resolve.output["plan"].',)
            ) from None
        return reference


@dataclass(frozen=True, slots=True)
class ResolvedBatch:
    """The batch of this run.

    :ivar starts_job: whether a Spark job has to run.
    :ivar is_left: the batch is committed and its records are gone: the job only looks whether its rows are there.
    :ivar note: a sentence for people.
    """

    log: PipelineLog
    batch: Batch
    body: PlanBody
    run: RunKey
    starts_job: bool
    is_left: bool = False
    is_retry: bool = False
    note: str = ""

    @property
    def key(self) -> str:
        return self.batch.plan.key

    @property
    def summary(self) -> str:
        """The batch in one sentence, for people."""
        plan = self.batch.plan
        given_up = "".join(f", {count:,} {kind}" for kind, count in self.body.given_up.items() if count)
        window = f", window {iso(plan.window[0])} to {iso(plan.window[1])}" if plan.window else ""
        return f"{self.batch}{window}: {self.reads}{given_up}.{self.note}"

    @property
    def reads(self) -> str:
        partitions = sum(r.end > r.start for r in self.body.ranges.values())
        return f"{counted(self.body.offsets, 'offset')} of {counted(partitions, 'partition')}"

    def given(self, *, job: str | None = None, kafka_config_id: str = "kafka_default") -> PlanReference:
        plan = self.batch.plan
        return PlanReference(
            pipeline=plan.pipeline,
            checkpoint_location=self.log.store.uri,
            batch=self.batch.number,
            entry=self.batch.plan_entry,
            plan_id=plan.plan_id,
            key=plan.key,
            run=self.run,
            starts_job=self.starts_job,
            is_rewrite=self.batch.is_committed,
            is_left=self.is_left,
            is_retry=self.is_retry,
            job=job,
            kafka_config_id=kafka_config_id,
            offsets=plan.offsets,
            partitions=plan.partitions,
            window=plan.window,
            identity=plan.identity,
        )

    def arguments(self, bootstrap_servers: str, job: str | None = None) -> list[str]:
        """The ``application_args`` of one Spark job.

        :param job: the digest of its job object.
        """
        root = self.log.store.driver_uri.rstrip("/")
        words = ["--plan", f"{root}/{self.log.folder(self.batch.number)}/{self.batch.plan_entry}.json"]
        words += ["--bootstrap-servers", bootstrap_servers]
        if job is not None:
            words += ["--job", f"{root}/{self.log.root}/jobs/{job}.json"]
        return words if self.starts_job and not self.is_left else [*words, "--nothing-to-do"]

    def offset_options(self) -> Mapping[str, str]:
        """``assign``, ``starting_offsets`` and ``ending_offsets`` as JSON, for jobs that do not use this package.

        Empty for a batch with skips inside: a plain job would read them.
        """
        if self.body.skips:
            return {}
        ranges = self.body.ranges
        return {
            "assign": json.dumps(by_topic(ranges)),
            "starting_offsets": json.dumps(values_by_topic({tp: r.start for tp, r in ranges.items()})),
            "ending_offsets": json.dumps(values_by_topic({tp: r.end for tp, r in ranges.items()})),
        }
