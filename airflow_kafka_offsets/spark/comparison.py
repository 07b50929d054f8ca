# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What another definition would make of the same records: a comparison in Markdown, for a pull request.

Both definitions decide about one frame of records; what they decide is joined by topic, partition and offset. Nothing
is written, a local Spark is enough, and no content of a record is in the answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.batch import BAD, FATE, FILTERED, ROW
from airflow_kafka_offsets.spark.decode import SETTINGS
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.fates import SOURCE, Fates
from airflow_kafka_offsets.spark.sinks.columns import quoted

_FATES = (ROW, BAD, FILTERED)
_KAFKA = (*SOURCE, "key", "value", "timestamp", "timestampType", "headers")
_IS_OTHER = "old_fate != new_fate OR old_cells != new_cells"


def what_if(records: DataFrame, *, old: Mapping[str, Any], new: Mapping[str, Any], examples: int = 3) -> str:
    """Compare what two definitions make of the same records, as Markdown.

    :param records: with the columns of Spark's Kafka source: a table of bad records, a sample, the source itself.
    :param old: a job object with ``rows``: of ``job_object(sink, rows)``, or the content of ``jobs/<digest>.json``.
    :param new: likewise.
    :param examples: offsets that are named for each change.
    :raises InvalidJob: a record is doubled, or an expression raises on one.
    """
    spark = records.sparkSession
    settings = {name: spark.conf.get(name) or "" for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        return "\n".join(_compare(records.select(*(n for n in _KAFKA if n in records.columns)), old, new, examples))
    finally:
        for name, before in settings.items():
            spark.conf.set(name, before)


def _compare(records: DataFrame, old: Mapping[str, Any], new: Mapping[str, Any], examples: int) -> Iterator[str]:
    ends = f.count("offset"), f.countDistinct("offset"), f.min("offset"), f.max("offset")
    sizes = sorted(records.groupBy("topic", "partition").agg(*ends).collect())
    if any(size[2] != size[3] for size in sizes):
        raise InvalidJob("Cannot compare", "An offset is in the frame twice", "Drop the duplicates")
    where = ", ".join(f"{topic}-{number}: {start} to {last}" for topic, number, _, _, start, last in sizes)
    yield f"**{sum(size[2] for size in sizes):,} records** ({where})\n"
    types = [_types(records, job["rows"]) for job in (old, new)]
    common = [name for name in types[0] if name in types[1]]
    decided = [_decided(records, job["rows"], common, side) for job, side in ((old, "old"), (new, "new"))]
    joined = decided[0].join(decided[1], [*SOURCE]).persist()
    differing = [f.expr(f"count_if(old_cells[{n}] != new_cells[{n}])") for n in range(len(common))]
    by = ("old_fate", "new_fate", "old_reason", "new_reason")
    first = Window.partitionBy("old_fate", "new_fate").orderBy(*SOURCE)
    others = joined.where(_IS_OTHER).withColumn("n", f.row_number().over(first))
    try:
        groups = joined.groupBy(*by).agg(f.count(f.lit(1)).alias("records"), *differing).collect()
        named = others.where(f.col("n") <= examples).orderBy("old_fate", "new_fate", "n").collect()
    except Exception as error:
        kind = re.search(r"\[([A-Z_.0-9]+)\]", str(error))  # the rest of the message may have content of a record
        cause = f"Spark has raised {kind[1] if kind else type(error).__name__} on a record"
        raise InvalidJob("Cannot compare", cause, "Use try_cast, try_divide or try_element_at there") from None
    finally:
        joined.unpersist()
    fates, before, after = (
        _sums(groups, *names) for names in (("old_fate", "new_fate"), ("old_reason",), ("new_reason",))
    )
    yield from _table(["old ↓ new →", *_FATES], [[was, *(fates[was, now] for now in _FATES)] for was in _FATES])
    reasons = sorted({*before, *after} - {(None,)}, key=lambda reason: (-max(before[reason], after[reason]), reason))
    yield from _table(["bad, because", "old", "new"], [(*reason, before[reason], after[reason]) for reason in reasons])
    cells = {name: sum(group[5 + n] for group in groups) for n, name in enumerate(common)}
    names = dict.fromkeys([*types[0], *types[1]])
    columns = [(name, types[0].get(name, ""), types[1].get(name, ""), cells.get(name, "")) for name in names]
    yield from _table(["column", "old", "new", "values that differ"], columns)
    yield from _table(["change", "such as"], _changes(named))


def _types(records: DataFrame, rows: Mapping[str, Any]) -> dict[str, str]:
    fates = Fates(records.limit(0), rows)
    fates.require_rows()
    fields = fates.rows().schema.fields
    return {field.name.lower(): field.dataType.simpleString() for field in fields if field.name not in SOURCE}


def _decided(records: DataFrame, rows: Mapping[str, Any], common: Sequence[str], side: str) -> DataFrame:
    """Of each record its fate, the reason of a bad one, and a row's values of the columns in common."""
    cells = f.array(*(f.to_json(f.struct(f.col(quoted(name)).alias("v"))) for name in common)).alias("cells")
    no_cells, no_reason = f.lit(None).cast("array<string>").alias("cells"), f.lit(None).cast("string").alias("reason")
    # A frame of its own for each fate: Spark observes what it decides once.
    row = Fates(records, rows).rows().select(*SOURCE, f.lit(ROW).alias(FATE), no_reason, cells)
    bad = Fates(records, rows).bad().select(*SOURCE, f.lit(BAD).alias(FATE), "reason", no_cells)
    scan = Fates(records, rows).scan().where(f.col(FATE) == FILTERED).select(*SOURCE, FATE, no_reason, no_cells)
    decided = row.unionAll(bad).unionAll(scan)
    return decided.toDF(*SOURCE, f"{side}_fate", f"{side}_reason", f"{side}_cells")


def _sums(groups: Sequence[Row], *names: str) -> Counter[tuple[Any, ...]]:
    """How many records there are of each value of these columns."""
    counts = Counter[tuple[Any, ...]]()
    for group in groups:
        counts[tuple(group[name] for name in names)] += group["records"]
    return counts


def _changes(named: Sequence[Row]) -> list[Sequence[Any]]:
    places: dict[str, list[str]] = {}
    for row in named:
        change = "other values" if row.old_fate == row.new_fate else f"{row.old_fate} → {row.new_fate}"
        places.setdefault(change, []).append(f"{row.topic}-{row.partition}:{row.offset}")
    return [(change, ", ".join(of_change)) for change, of_change in places.items()]


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    lines = [" | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) for row in rows]
    if lines:
        yield from (f"| {line} |" for line in (" | ".join(names), " | ".join("---" for _ in names), *lines))
        yield ""
