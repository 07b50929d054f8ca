# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The batch that a Spark job was started for: its key, its records, and whether it is still this driver's to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pyspark.sql import DataFrame, Observation, SparkSession

from airflow_kafka_offsets.spark.plan import Plan, Range

FATE = "kafka_fate"
ROW, BAD, FILTERED = "row", "bad", "filtered"
"""The fates of a record, as the column ``kafka_fate`` has them."""


class AttemptSlot(Protocol):
    """This driver's place among the attempts at the batch (:mod:`airflow_kafka_offsets.spark.attempts`)."""

    @property
    def number(self) -> int: ...

    @property
    def job(self) -> str | None: ...

    def look(self) -> None: ...

    def report(self, **members: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """One attempt at one batch.

    :ivar spark: the session of the job.
    :ivar plan: what it reads.
    :ivar records: the records, with the columns of Spark's Kafka source. The frame may be used several times.
    :ivar job: the job object that says what rows mean and where they go; ``None`` without ``--job``.
    :ivar output: the name of the output that this attempt writes; ``None`` if it has none.
    :ivar slot: this driver's place among the attempts.
    :ivar observation: of the records; ``None``: the sink observes them itself.
    :ivar read: the records of a part of the plan, with headers.
    """

    spark: SparkSession
    plan: Plan
    records: DataFrame
    job: Mapping[str, Any] | None
    output: str | None
    slot: AttemptSlot
    observation: Observation | None
    read: Callable[[Plan], DataFrame]
    former_jobs: Sequence[Mapping[str, Any]] = ()  # of earlier attempts
    tries: int = 1  # of this attempt to write
    is_committed: bool = False  # it is written again

    @property
    def pipeline(self) -> str:
        """The ``pipeline_id``, such as ``orders`` or, for a shard, ``orders/0-of-4``."""
        return self.plan.pipeline

    @property
    def name(self) -> str:
        """The pipeline's name, which shards share."""
        return self.plan.name

    @property
    def number(self) -> int:
        """The number of the batch, from 1."""
        return self.plan.number

    @property
    def key(self) -> str:
        """What rows have in the column ``kafka_batch``."""
        return self.plan.key

    @property
    def window(self) -> tuple[datetime, datetime] | None:
        """``[start, end)`` in UTC of a batch by window; else ``None``."""
        return self.plan.window_utc

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What is read, without empty ranges; none at all if the batch has no records."""
        return self.plan.read_ranges

    @property
    def skips(self) -> tuple[Range, ...]:
        """Offsets inside the ranges that a person skips; ``records`` does not have them."""
        return self.plan.skips

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.slot.number

    @property
    def sizes(self) -> dict[tuple[str, int], int]:
        """How many offsets are planned for each topic and partition, without skips."""
        sizes = {(r.topic, r.partition): 0 for r in self.ranges}
        for piece in self.plan.pieces:
            sizes[piece.topic, piece.partition] += piece.end - piece.start
        return sizes

    def look(self) -> None:
        """Return if the batch is still this driver's to write. A sink calls it right before the output changes.

        :raises LateAttempt: another attempt has begun since, or the batch was planned again or committed.
        """
        self.slot.look()

    def __str__(self) -> str:
        return f"batch {self.number} of pipeline {self.pipeline}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink has written, and how it can be proved.

    :ivar outputs: topic, partition, offset and ``kafka_fate`` of each row (``row``, or no such column) and each bad
        record (``bad``), read back from the outputs.
    :ivar scan: the same columns of every record, ``filtered`` ones too, made from ``batch.records``. It is run only if
        the numbers do not add up without it.
    :ivar filtered: how many records were filtered, as observed while they were written.
    :ivar bad: the bad records among the outputs.
    :ivar seen: ``records`` and ``hash`` of all records, ``bad`` and ``bad_hash`` of the bad ones, as observed
        meanwhile. ``None``: as ``batch.observation`` has them.
    :ivar added: how many rows the table's own commit has added; ``None``: it does not say, or says too much.
    :ivar snapshot: the snapshot or version of the table that has the rows, once it is published.
    :ivar publish: makes the rows visible, and returns the ``snapshot``; ``None``: they are visible.
    """

    outputs: DataFrame
    scan: DataFrame
    filtered: int = 0
    bad: DataFrame | None = None
    seen: Mapping[str, Any] | None = None
    added: int | None = None
    snapshot: str | None = None
    publish: Callable[[], str | None] | None = None
