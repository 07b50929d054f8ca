# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What was written: by the receipt in the table's own commit, else counted by reading it back.

One row for each partition comes to the driver.
Rows, first and last offset are not enough: a join that doubles one record and drops another passes all three. So the
different offsets are counted too, in the same aggregation: 64 of them are the bits of one long. A partition is whole if
rows = different offsets = offsets planned.

Offsets without a record (compacted and transactional topics) need what was read to compare with: the number of records
and a hash of their offsets, which Spark observed while they were written. If these do not agree with what is read back,
Kafka is read once more.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import xor
from typing import Any, Literal, NamedTuple

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.batch import BAD, FATE, FILTERED, ROW, Batch, Written
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.plan import Range
from airflow_kafka_offsets.spark.receipts import HASH, planned_hash

log = logging.getLogger(__name__)

OBSERVED_WITHIN_S = 10.0
_COLUMNS = {"topic": "STRING", "partition": "INT", "offset": "BIGINT"}
_UNFILTERED = HASH.replace("(", f"(CASE WHEN {FATE} != '{FILTERED}' THEN ", 1)[:-1] + " END)"
_COUNTS = ("rows", "bad", "filtered", "offsets", "gaps", "first", "last")
Partition = tuple[str, int]
Proof = Literal["receipt", "read back", "trusted"]


class Counted(NamedTuple):
    """What became of the records of one partition.

    :ivar offsets: different offsets among rows, bad and filtered records.
    :ivar gaps: planned offsets that have no record.
    :ivar hash: of the offsets of rows and bad records.
    """

    rows: int = 0
    bad: int = 0
    filtered: int = 0
    offsets: int = 0
    first: int | None = None
    last: int | None = None
    hash: int = 0
    gaps: int = 0


def observe(records: DataFrame) -> tuple[DataFrame, Observation]:
    """The same records or rows, and the number and hash that the first action on them observes."""
    observation = Observation()
    return records.observe(observation, f.count(f.lit(1)).alias("records"), f.expr(f"{HASH} AS hash")), observation


def observed(observation: Observation | None) -> Mapping[str, Any]:
    """What was observed; empty if no action has run the observed frame as it is, or there is none.

    Spark itself would wait for ever.
    """
    answers: list[Mapping[str, Any]] = []
    if observation is None:
        return {}
    thread = threading.Thread(target=lambda: answers.append(observation.get), daemon=True)
    thread.start()
    thread.join(OBSERVED_WITHIN_S)
    return answers[0] if answers else {}


def count(frame: DataFrame) -> dict[Partition, Counted]:
    """What the frame has of each partition.

    :param frame: with topic, partition and offset of each row, and perhaps its fate.
    :raises InvalidJob: a column is missing, or rows have no topic or partition.
    """
    if missing := _COLUMNS.keys() - {name.lower() for name in frame.columns}:
        raise InvalidJob(
            "Cannot count what was written",
            f"The frame that reads it back has no column {', '.join(sorted(missing))}",
            "Keep the source's topic, partition and offset in the output; or call records.persist() and return None",
        )
    fate = f.col(FATE) if FATE in frame.columns else f.lit(ROW)
    offsets = frame.select(*(f.col(name).cast(kind).alias(name) for name, kind in _COLUMNS.items()), fate.alias(FATE))
    words = offsets.groupBy("topic", "partition", f.expr("shiftright(offset, 6) AS word")).agg(
        *(f.expr(f"count_if({FATE} = '{name}') AS {name}") for name in (ROW, BAD, FILTERED)),
        f.expr("bit_or(shiftleft(1L, CAST(offset & 63 AS INT))) AS bits"),
        f.expr("min(offset) AS first"),
        f.expr("max(offset) AS last"),
        f.expr(f"{_UNFILTERED} AS hash"),
    )
    sums: list[Column] = [f.expr(f"sum({name})") for name in (ROW, BAD, FILTERED)]
    sums += map(f.expr, ("coalesce(sum(bit_count(bits)), 0)", "min(first)", "max(last)", "coalesce(bit_xor(hash), 0)"))
    counted = {(row[0], row[1]): Counted(*row[2:]) for row in words.groupBy("topic", "partition").agg(*sums).collect()}
    if nulls := [c.rows + c.bad for tp, c in counted.items() if None in tp]:
        cause = f"Rows without a topic or partition: {sum(nulls):,}"
        raise InvalidJob("Cannot count what was written", cause, "Write these columns as the source has them")
    return counted


def account(batch: Batch, written: DataFrame | Written | None) -> tuple[dict[Partition, Counted], Proof]:
    """What became of the planned offsets of each partition, and what shows it.

    :param written: what reads the output back; ``None``: the records are counted, as Spark reads them.
    """
    sizes = batch.sizes
    if written is None or written is batch.records:
        counted = _with_all(sizes, count(batch.records))
        return {tp: c._replace(gaps=sizes.get(tp, 0) - c.offsets) for tp, c in counted}, "trusted"
    if not isinstance(written, Written):
        written = Written(written, batch.records)
    bad = {} if written.bad is None else count(written.bad)
    if _has_receipt(batch, written, bad):
        return dict(_planned(batch.plan.pieces, sizes, bad)), "receipt"
    return _read_back(batch, written, sizes), "read back"


def _has_receipt(batch: Batch, written: Written, bad: Mapping[Partition, Counted]) -> bool:
    """Whether the table's commit has added just the planned offsets, each once, but for those of bad records.

    Spark has observed which records were bad: their number and their hash are those of the bad records read back.
    """
    planned, found = batch.plan.offsets, sum(c.bad for c in bad.values())
    if written.filtered or written.added != planned - found:
        return False
    seen = _seen(batch, written) if planned else {}
    return not planned or (
        seen.get("records") == planned
        and (seen.get(BAD, 0), seen.get("bad_hash") or 0) == (found, _hash_of(bad))
        and seen["hash"] == planned_hash(batch.spark, batch.plan.pieces)
    )


def _seen(batch: Batch, written: Written) -> Mapping[str, Any]:
    return observed(batch.observation) if written.seen is None else written.seen


def _hash_of(counted: Mapping[Partition, Counted]) -> int:
    return reduce(xor, (c.hash for c in counted.values()), 0)


def _planned(
    pieces: Sequence[Range], sizes: Mapping[Partition, int], bad: Mapping[Partition, Counted]
) -> Iterator[tuple[Partition, Counted]]:
    own = defaultdict[Partition, list[Range]](list)
    for piece in pieces:
        own[piece.topic, piece.partition].append(piece)
    for tp, size in sizes.items():
        of, lost = own[tp], bad.get(tp, Counted()).bad
        yield tp, Counted(size - lost, lost, 0, size, of[0].start, of[-1].end - 1) if of else Counted()


def _read_back(batch: Batch, written: Written, sizes: Mapping[Partition, int]) -> dict[Partition, Counted]:
    found = dict(_with_all(sizes, count(written.outputs)))
    lacking = {tp: sizes.get(tp, 0) - c.offsets for tp, c in found.items()}
    is_each_once = all(c.rows + c.bad == c.offsets for c in found.values()) and min(lacking.values(), default=0) >= 0
    if is_each_once and not any(lacking.values()):
        return found
    if is_each_once:
        seen = _seen(batch, written)
        total = sum(c.offsets for c in found.values())
        if seen.get("records") == total + written.filtered == sum(sizes.values()):  # no gaps: what lacks is filtered
            return {tp: c._replace(filtered=lacking[tp], offsets=c.offsets + lacking[tp]) for tp, c in found.items()}
        if seen.get("records") == total and seen["hash"] == _hash_of(found):
            return {tp: c._replace(gaps=lacking[tp]) for tp, c in found.items()}  # nothing is filtered
    log.info("%s: Kafka is read once more, to compare with what was written.", batch)
    scanned = count(written.scan)
    return {tp: _compared(c, scanned.get(tp, Counted()), sizes.get(tp, 0)) for tp, c in _with_all(scanned, found)}


def is_whole(sizes: Mapping[Partition, int], counted: Mapping[Partition, Counted]) -> bool:
    """Whether the counts are those of a batch that verifies."""
    return all(
        c.rows + c.bad + c.filtered == c.offsets and c.offsets + c.gaps == sizes.get(tp, 0)
        for tp, c in _with_all(sizes, dict(counted))
    )


def columns(counted: Mapping[Partition, Counted]) -> dict[str, dict[str, list[Any]]]:
    """The counts as a report has them: columns by topic."""
    topics: dict[str, dict[str, list[Any]]] = {}
    for (topic, partition), of_partition in sorted(counted.items()):
        table = topics.setdefault(topic, {name: [] for name in ("partition", *_COUNTS)})
        table["partition"].append(partition)
        for name in _COUNTS:
            table[name].append(getattr(of_partition, name))
    return topics


def from_columns(topics: Mapping[str, Mapping[str, list[Any]]]) -> dict[Partition, Counted]:
    """The counts that a report has."""
    return {
        (topic, partition): Counted(**dict(zip(_COUNTS, values, strict=True)))
        for topic, table in topics.items()
        for partition, *values in zip(table["partition"], *(table[name] for name in _COUNTS), strict=True)
    }


def _with_all(partitions: Mapping[Partition, Any], found: Mapping[Partition, Counted]) -> Any:
    return {**dict.fromkeys(partitions, Counted()), **found}.items()


def _compared(found: Counted, scanned: Counted, size: int) -> Counted:
    """The counts of the output, with what only the scan knows, if the output has just the offsets that it should."""
    if found.hash != scanned.hash:
        return found
    ends = [offset for c in (found, scanned) for offset in (c.first, c.last) if offset is not None]
    return found._replace(
        filtered=scanned.filtered,
        offsets=found.offsets + scanned.filtered,
        gaps=size - scanned.offsets,
        first=min(ends, default=None),
        last=max(ends, default=None),
    )
