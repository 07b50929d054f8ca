# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Which offsets a table has: one query that runs where the table is, and what its answer says.

The answer has a row for each run of consecutive offsets that the table has equally often. Between two runs of a
partition is a gap; where two runs overlap, or a run is there several times, records are doubled.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.look import take_snapshots
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicList, TopicPartition, grouped
from airflow_kafka_offsets.names import partition, whole_number

# ── the query ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_SQL = """\
-- The offsets in {table}, as runs of consecutive ones. Save the answer with its header as CSV, or as JSON.
WITH found AS (
  SELECT {columns}
  FROM {table} t{where}
), counted AS (
  SELECT topic, part, off{batch}, count(*) AS times{day}
  FROM found GROUP BY topic, part, off{batch}
), numbered AS (
  SELECT counted.*, off - row_number() OVER (PARTITION BY topic, part{batch}, times{doubled} ORDER BY off) AS run
  FROM counted
)
SELECT topic, part AS kafka_partition{batch}, min(off) AS start_offset, max(off) + 1 AS end_offset, times{last}
FROM numbered GROUP BY topic, part{batch}, times, run{doubled}
ORDER BY topic, kafka_partition, start_offset;"""


def query(table: str, columns: Mapping[str, str | None], since: date | None = None) -> str:
    """The query, for Spark, DuckDB and Trino.

    :param columns: SQL expressions over the table ``t``, for topic, part, off, batch and day; the last two may be
        ``None``.
    :param since: earlier days are excluded.
    """
    day = f"CAST({columns['day']} AS DATE)"
    known = {name: sql for name, sql in columns.items() if sql is not None}
    has_day = "day" in known
    return _SQL.format(
        table=table,
        columns=", ".join(f"{day if name == 'day' else sql} AS {name}" for name, sql in known.items()),
        where=f"\n  WHERE {day} >= DATE '{since}'" if since else "",
        batch=", batch" if "batch" in known else "",
        day=", min(day) AS day, CASE WHEN count(*) > 1 THEN min(day) END AS doubled_on" if has_day else "",
        doubled=", doubled_on" if has_day else "",
        last=", max_by(day, off) AS day" if has_day else "",
    )


# ── its answer ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Run(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of a partition, each of which is in the table ``times`` times.

    :ivar batch: the key that the rows carry; ``None``: they have none, or the query did not ask.
    :ivar day: of its last offset.
    """

    tp: TopicPartition
    start_offset: int
    end_offset: int
    times: int
    batch: str | None
    day: str | None

    @property
    def rows(self) -> int:
        return (self.end_offset - self.start_offset) * self.times


class Found(NamedTuple):
    """What a table has.

    :ivar runs: by partition and start offset.
    :ivar unplaced: rows without a topic, a partition or an offset.
    """

    runs: Sequence[Run]
    unplaced: int
    has_batches: bool


class Stretch(NamedTuple):
    """Offsets of a partition: a gap, or surplus rows.

    :ivar size: offsets of a gap, or rows too many.
    """

    tp: TopicPartition
    start_offset: int
    end_offset: int
    size: int
    day: str | None


def read_answer(text: str) -> Found:
    """What the query answered: CSV with a header, tab-separated text, or JSON, also with an object on each line.

    :raises ValueError: a sentence that follows the file's name.
    """
    rows = [{name.lower(): value for name, value in row.items() if name} for row in _rows(text)]
    runs, unplaced = list[Run](), 0
    for row in rows:
        if lacking := {"topic", "kafka_partition", "start_offset", "end_offset", "times"} - row.keys():
            raise ValueError(f"has no column {', '.join(sorted(lacking))}; save the query's answer with its header")
        start, end, times = (_number(row[name]) for name in ("start_offset", "end_offset", "times"))
        if start is None or end is None or not row["topic"] or _number(row["kafka_partition"]) is None:
            unplaced += times or 0
        elif times is None or not 0 <= start < end or times < 1:
            raise ValueError(f"has a row that is no run of offsets: {start} to {end}, {times} times")
        else:
            tp = partition(row["topic"], row["kafka_partition"])
            runs.append(Run(tp, start, end, times, row.get("batch") or None, row.get("day") or None))
    return Found(sorted(runs, key=lambda run: run[:3]), unplaced, any("batch" in row for row in rows))


def _rows(text: str) -> Iterable[Mapping[str, Any]]:
    if text.lstrip().startswith("["):
        found: list[Mapping[str, Any]] = read_json(text)
        return found
    if text.lstrip().startswith("{"):
        return map(read_json, filter(str.strip, text.splitlines()))
    lines = text.splitlines()
    return csv.DictReader(lines, delimiter="\t" if lines and "\t" in lines[0] else ",")


def _number(value: Any) -> int | None:
    return None if value in (None, "", "NULL") else whole_number(value, "has {}")


def gaps(runs: Iterable[Run]) -> Iterator[Stretch]:
    """The offsets that are missing between the first and the last one of each partition."""
    for tp, of_tp in grouped((run.tp, run) for run in runs).items():
        before = of_tp[0]
        for run in of_tp:
            if run.start_offset > before.end_offset:
                size = run.start_offset - before.end_offset
                yield Stretch(tp, before.end_offset, run.start_offset, size, before.day)
            before = max(before, run, key=lambda r: r.end_offset)


def doubled(runs: Iterable[Run]) -> Iterator[Stretch]:
    """The rows that are too many: more than one of an offset."""
    for tp, of_tp in grouped((run.tp, run) for run in runs).items():
        end = 0
        for run in of_tp:  # all before it start at or below its start
            again = max(0, min(end, run.end_offset) - run.start_offset)
            if surplus := again + run.rows - (run.end_offset - run.start_offset):
                last = run.end_offset if run.times > 1 else run.start_offset + again
                yield Stretch(tp, run.start_offset, last, surplus, run.day)
            end = max(end, run.end_offset)


# ── what Kafka says of the gaps ───────────────────────────────────────────────────────────────────────────────────────


def look_up(kafka: Cluster, found: Sequence[Stretch], runs: Iterable[Run]) -> Iterator[tuple[Stretch, dict[str, int]]]:
    """Ask Kafka about gaps, and about nothing else. Of the offsets of each gap, how many are

    - ``lost``: Kafka still has records there;
    - ``never_there``: it has none: compacted, transaction markers, aborted;
    - ``cannot_be_told``: below the log start, or in a transaction that is open, or of another topic of this name.
    """
    topics = TopicList(tuple(sorted({gap.tp.topic for gap in found})), all_exist=False)
    partitions = {gap.tp for gap in found} & set(kafka.describe(topics).partitions)
    logs = take_snapshots(kafka, partitions, "read_committed") if partitions else {}
    ends = {tp: max(run.end_offset for run in of_tp) for tp, of_tp in grouped((run.tp, run) for run in runs).items()}
    asked: dict[Stretch, tuple[TopicPartition, OffsetRange]] = {}
    for gap in found:
        log = logs.get(gap.tp)
        if log is not None and ends[gap.tp] <= log.high_watermark:  # beyond it: the topic was created again
            start, end = max(gap.start_offset, log.log_start_offset), min(gap.end_offset, log.end_offset)
            asked |= {gap: (gap.tp, OffsetRange(start, end))} if start < end else {}
    counts = kafka.record_counts(asked.values())
    later = kafka.log_start_offsets({gap.tp for gap in asked})  # retention has deleted these meanwhile
    for gap in found:
        tp, readable = asked.get(gap, (gap.tp, OffsetRange(0, 0)))
        lost = counts.get((tp, readable), 0)
        seen = readable.end_offset - max(readable.start_offset, later.get(tp, 0))
        never_there = max(0, seen - lost)
        cannot_be_told = gap.size - lost - never_there
        yield gap, {"lost": lost, "never_there": never_there, "cannot_be_told": cannot_be_told}
