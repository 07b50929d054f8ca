"""The batch that a Spark job was started for: its key, its records, and whether it is still this driver's to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from pyspark.sql import DataFrame, Observation, SparkSession

FATE = "kafka_fate"
ROW, BAD, FILTERED = "row", "bad", "filtered"
"""The fates of a record, as the column ``kafka_fate`` has them."""


class Range(NamedTuple):
    """Offsets of one partition: ``start`` is included, ``end`` is not."""

    topic: str
    partition: int
    start: int
    end: int


class Place(Protocol):
    """This driver's place among the attempts at the batch (:mod:`airflow_kafka_offsets.spark.attempts`)."""

    @property
    def number(self) -> int: ...

    def look(self) -> None: ...

    def report(self, counts: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """One attempt at one batch.

    :ivar spark: the session of the job.
    :ivar pipeline: the ``pipeline_id``, such as ``orders`` or, for a shard, ``orders/0-of-4``.
    :ivar number: the number of the batch in the pipeline, from 1.
    :ivar key: what rows of the batch have in the column ``kafka_batch``; the same in every attempt.
    :ivar window: ``[start, end)`` in UTC of a batch by window; else ``None``.
    :ivar ranges: what is read, without empty ranges; none at all if the batch has no records.
    :ivar skips: offsets inside the ranges that a person skips; ``records`` does not have them.
    :ivar records: the records, with the columns of Spark's Kafka source. The frame may be used several times.
    :ivar job: the job object that says what rows mean and where they go; ``None`` without ``--job``.
    :ivar output: the name of the output that this attempt writes; ``None`` if it has none.
    :ivar place: this driver's place among the attempts.
    :ivar observation: how many records the first action on ``records`` read.
    """

    spark: SparkSession
    pipeline: str
    number: int
    key: str
    window: tuple[datetime, datetime] | None
    ranges: tuple[Range, ...]
    skips: tuple[Range, ...]
    records: DataFrame
    job: Mapping[str, Any] | None
    output: str | None
    place: Place
    observation: Observation

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. A later attempt at the batch has a higher one."""
        return self.place.number

    @property
    def name(self) -> str:
        """The name that outputs carry: that of the pipeline, which its shards share."""
        return self.pipeline.partition("/")[0]

    @property
    def sizes(self) -> dict[tuple[str, int], int]:
        """How many offsets are planned for each topic and partition, without skips."""
        sizes = {(r.topic, r.partition): r.end - r.start for r in self.ranges}
        for skip in self.skips:
            sizes[skip.topic, skip.partition] -= skip.end - skip.start
        return sizes

    def look(self) -> None:
        """Return if the batch is still this driver's to write. A sink calls it right before the output changes.

        :raises LateAttempt: another attempt has begun since, or the batch was planned again or committed.
        """
        self.place.look()

    def __str__(self) -> str:
        return f"batch {self.number} of pipeline {self.pipeline}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink reads back where records have more than one fate (see :data:`FATE`).

    :ivar outputs: topic, partition, offset and ``kafka_fate`` of each row (``row``) and each bad record (``bad``), read
        back from the outputs.
    :ivar scan: the same columns of every record, ``filtered`` ones too, made from ``batch.records``. It is run only if
        the numbers do not add up without it.
    :ivar filtered: how many records were filtered, as observed while they were written.
    """

    outputs: DataFrame
    scan: DataFrame
    filtered: int
