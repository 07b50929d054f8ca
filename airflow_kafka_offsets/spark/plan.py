"""A plan: a small header, and a body with one row per partition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_offsets.spark.batch import Range
from airflow_kafka_offsets.spark.errors import StoreUnavailable
from airflow_kafka_offsets.spark.objects import read_object
from airflow_kafka_offsets.spark.store import Store

_KEY = re.compile(r"[0-9]{10}(-[0-9]+of[0-9]+)?-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a batch reads.

    :ivar window: ``[start, end)`` in milliseconds, of a batch by window.
    :ivar identity: the number of the pipeline's identity that it was planned under; acts replace it.
    :ivar log: the id of the log. :ivar adopted: other logs whose table the pipeline took over, with their highest keys.
    :ivar bases: what was added to numbers of batches in keys.
    :ivar output: the output of the pipeline; ``None``: any.
    :ivar expects: a key that the output must have. :ivar newest: whether no key behind its own may be there.
    :ivar partitions: how many partitions each topic had when the batch was planned.
    :ivar ranges: also empty ones.
    :ivar skips: offsets inside the ranges that are not written.
    """

    pipeline: str
    number: int
    key: str
    plan_id: str
    window: tuple[int, int] | None
    isolation_level: str
    identity: int
    log: str
    adopted: Mapping[str, str]
    bases: tuple[int, ...]
    output: str | None
    expects: str | None
    newest: bool
    partitions: Mapping[str, int]
    ranges: tuple[Range, ...]
    skips: tuple[Range, ...]

    @property
    def read_ranges(self) -> tuple[Range, ...]:
        """The ranges that have offsets."""
        return tuple(r for r in self.ranges if r.start < r.end)

    @property
    def window_utc(self) -> tuple[datetime, datetime] | None:
        if self.window is None:
            return None
        start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in self.window)
        return start, end


def read_plan(store: Store, folder: str, entry: int) -> Plan:
    """:raises StoreUnavailable: header or body is missing or damaged, or is no plan."""
    name = f"{folder}/{entry}.json"
    header = read_object(store, name)
    try:
        if header["entry"] != "plan" or not _KEY.fullmatch(header["key"]):
            raise ValueError(f"it is entry {header['entry']!r} with key {header.get('key')!r}")
        body = read_object(store, f"{folder}/{header['ranges']['name']}", header["ranges"]["sha256"])
        return Plan(
            pipeline=header["pipeline"],
            number=header["number"],
            key=header["key"],
            plan_id=header["plan_id"],
            window=None if header["window"] is None else (header["window"][0], header["window"][1]),
            isolation_level=header["isolation_level"],
            identity=header["identity"],
            log=header["log"],
            adopted=header["adopted"],
            bases=tuple(header["bases"]),
            output=header["output"],
            expects=header["expects"],
            newest=header["newest"],
            partitions={topic: of_topic["partitions"] for topic, of_topic in header["topics"].items()},
            ranges=tuple(sorted(_ranges(body["ranges"]))),
            skips=tuple(sorted(_ranges(body["skips"]))),
        )
    except (LookupError, TypeError, ValueError) as error:
        cause = f"It is not a plan: {type(error).__name__}: {error}"
        raise StoreUnavailable(f"Cannot read {name} in the checkpoint location", cause, "Restore the object") from None


def _ranges(topics: Mapping[str, Mapping[str, Any]]) -> Iterator[Range]:
    for topic, columns in topics.items():
        for row in zip(columns["partition"], columns["start"], columns["end"], strict=True):
            yield Range(topic, *row)
