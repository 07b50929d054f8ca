# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A plan: a small header, and a body with one row per partition."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from airflow_kafka_offsets.spark.errors import StoreUnavailable
from airflow_kafka_offsets.spark.objects import read_object
from airflow_kafka_offsets.spark.store import Store

_KEY = re.compile(r"[0-9]{10}(-[0-9]+of[0-9]+)?-[0-9a-f]{12}")


class Range(NamedTuple):
    """Offsets of one partition: ``start`` is included, ``end`` is not."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a batch reads, and what its output has to be like.

    :ivar window: ``[start, end)`` in milliseconds, of a batch by window.
    :ivar identity: the number of the pipeline's identity that it was planned under.
    :ivar log: the id of the pipeline's log. :ivar adopted: logs whose table it has taken over, with their highest keys.
    :ivar bases: what was added to numbers of batches in keys.
    :ivar output: the output of the identity; ``None``: any.
    :ivar expects: the key of an earlier batch that the output must have; ``None``: of none.
    :ivar newest: in sequence, no batch is behind this one: nor does the output have a key behind this one's.
    :ivar from_outputs: its records are gone from Kafka, and it is done again from its own outputs.
    :ivar partitions: how many partitions each topic had when the batch was planned.
    :ivar ranges: also empty ones; ``digest``: of the body that has them.
    :ivar skips: offsets inside the ranges that are not read.
    """

    pipeline: str
    number: int
    key: str
    plan_id: str
    window: tuple[int, int] | None = None
    isolation_level: str = "read_uncommitted"
    identity: int = 0
    log: str = "none"
    adopted: Mapping[str, str] = field(default_factory=dict)
    bases: tuple[int, ...] = (0,)
    output: str | None = None
    expects: str | None = None
    newest: bool = False
    from_outputs: bool = False
    partitions: Mapping[str, int] = field(default_factory=dict)
    ranges: tuple[Range, ...] = ()
    digest: str = ""
    skips: tuple[Range, ...] = ()
    resume_from: Sequence[Mapping[str, Any]] = ()

    @property
    def resumes(self) -> Iterator[tuple[str, int, int]]:
        """Topic, partition and offset from which on this batch and later ones read, also of what this one leaves."""
        for topic in self.resume_from:
            for partition, offset in zip(topic["partition"], topic["offset"], strict=True):
                yield topic["topic"], partition, offset

    @property
    def name(self) -> str:
        """The name that outputs carry: that of the pipeline, which its shards share."""
        return self.pipeline.partition("/")[0]

    @property
    def read_ranges(self) -> tuple[Range, ...]:
        """The ranges that have offsets."""
        return tuple(r for r in self.ranges if r.start < r.end)

    @property
    def pieces(self) -> list[Range]:
        """The offsets to read: the ranges, cut where offsets are skipped."""
        if not self.skips:
            return [*self.read_ranges]
        pieces = []
        for topic, partition, start, end in self.read_ranges:
            for skip in sorted(s for s in self.skips if s[:2] == (topic, partition)):
                pieces.append(Range(topic, partition, start, min(skip.start, end)))
                start = max(start, skip.end)
            pieces.append(Range(topic, partition, start, end))
        return [piece for piece in pieces if piece.start < piece.end]

    @property
    def offsets(self) -> int:
        """How many offsets are to be read."""
        return sum(piece.end - piece.start for piece in self.pieces)

    @property
    def window_utc(self) -> tuple[datetime, datetime] | None:
        if self.window is None:
            return None
        start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in self.window)
        return start, end

    def conf(self, **act: Any) -> str:
        """The conf of a run by which a person acknowledges something, or skips offsets."""
        window = {} if self.window_utc is None else {"window": [bound.isoformat() for bound in self.window_utc]}
        said = {"pipeline": self.name, "after": self.identity, "reason": "why", **act, **window}
        return f"trigger a run with the conf {json.dumps({'kafka_offsets': said})}"


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
            from_outputs=header["from_outputs"],
            partitions={topic: of_topic["partitions"] for topic, of_topic in header["topics"].items()},
            ranges=tuple(sorted(_ranges(body["ranges"]))),
            digest=header["ranges"]["sha256"],
            skips=tuple(sorted(_ranges(body["skips"]))),
            resume_from=body.get("resume_from", ()),
        )
    except (LookupError, TypeError, ValueError) as error:
        cause = f"It is not a plan: {type(error).__name__}: {error}"
        raise StoreUnavailable(f"Cannot read {name} in the checkpoint location", cause, "Restore the object") from None


def _ranges(topics: Mapping[str, Mapping[str, Any]]) -> Iterator[Range]:
    for topic, columns in topics.items():
        for row in zip(columns["partition"], columns["start"], columns["end"], strict=True):
            yield Range(topic, *row)
