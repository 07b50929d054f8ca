# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A committed batch whose records are gone from Kafka, done again from its own outputs::

    rows := its rows, without records that are bad  ∪  what the definition makes of the bad ones
    then bad := those that are still bad

Rows come first: after a crash between the two, healed records are in both tables, and the next attempt takes them from
the bad ones again. Only records that were bad move. So rows and bad records have as many offsets after it as before,
each once: as many as the batch is committed with, or nothing is written. What ``where`` filters stays bad, because its
bytes are nowhere else.

What is compared is kept, and written: a late driver of an earlier attempt may change a table until this one's write
fences it off.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.batch import BAD, ROW, Batch
from airflow_kafka_offsets.spark.count import Counted, Partition, Proof, count
from airflow_kafka_offsets.spark.errors import OutputLost
from airflow_kafka_offsets.spark.fates import KAFKA_COLUMNS, SOURCE, Fates, RowSink, explaining, published, with_fate
from airflow_kafka_offsets.spark.sinks.columns import keyed, without_rows
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN, Sink

_BAD = f"{KAFKA_COLUMNS}, reason STRING"


def heal(
    batch: Batch, sink: Sink, committed: Mapping[Partition, Counted]
) -> tuple[dict[Partition, Counted], Proof, str | None]:
    """Make rows of the batch's bad records. Returns the counts, what proves them, and the table's snapshot.

    :param committed: the counts that the batch is committed with.
    :raises OutputLost: the tables do not have what was committed. Nothing was written.
    :raises BadRecords: more are still bad than the job accepts. Nothing was written.
    :raises ConditionNotMet: the rows would not be as ensured. Nothing was written.
    """
    assert isinstance(sink, RowSink)
    tables, rows, none = sink.tables_of_bad(batch), _without_filter(sink.rows), without_rows(batch.spark, _BAD)
    bad = reduce(_and_others, (table.rows_of(batch) for table in tables), none).localCheckpoint()
    kept = _without(sink.sink.rows_of(batch), bad).localCheckpoint()
    if differences := compare(committed, count(_fated(kept, bad))):
        what, cause = f"Cannot heal {batch}: its tables were changed since its commit", "; ".join(differences)
        remedy = "Restore the tables to where its run left them, and clear the run; or mark it as a success"
        raise OutputLost(what, f"{cause}. Nothing was written", remedy)
    fates = Fates(bad.drop("reason"), rows)
    with explaining(batch):
        size = {"records": sum(c.rows + c.bad + c.filtered for c in committed.values())}
        sink.refuse_too_many(batch, fates.bad(), {**fates.count(), **size})
        made, _ = sink.sink.prepare(keyed(fates.rows(), batch.key), batch.plan)
        new = kept.unionByName(made, allowMissingColumns=True).drop(BATCH_COLUMN)
        sink.conditions.check(batch, sink.conditions.measure(new), f"{sink.output} is unchanged")
        snapshot = published(sink.sink.write(batch, new))
    now = fates.bad().select(*SOURCE, f.col("reason").alias("now"))
    still = _without(bad, sink.sink.rows_of(batch)).join(now, [*SOURCE], "left")
    still = still.withColumn("reason", f.coalesce("now", "reason")).drop("now", "timestampType")
    for number, table in enumerate(tables):
        published(table.write(batch, still.limit(0) if number else still))
    after = count(_fated(sink.sink.rows_of(batch), *(table.rows_of(batch) for table in tables)))
    counted = {tp: carry_over(committed.get(tp, Counted()), after.get(tp, Counted())) for tp in {**committed, **after}}
    return counted, "read back", snapshot


def compare(committed: Mapping[Partition, Counted], found: Mapping[Partition, Counted]) -> list[str]:
    """Where rows and bad records are not those of the commit, with both numbers."""
    words = []
    for tp in sorted({**committed, **found}):
        was, now = committed.get(tp, Counted()), found.get(tp, Counted())
        if not now.rows + now.bad == now.offsets == was.rows + was.bad:
            there = f"{now.rows + now.bad:,} rows and bad records of {now.offsets:,} offsets"
            words.append(f"{tp[0]}-{tp[1]} has {there}, and was committed with {was.rows + was.bad:,}")
    return words


def carry_over(was: Counted, now: Counted) -> Counted:
    """What was filtered, and gaps, are as before; so are the first and the last offset."""
    return was._replace(rows=now.rows, bad=now.bad, offsets=now.offsets + was.filtered)


def _without_filter(rows: Mapping[str, Any]) -> dict[str, Any]:
    """The same definition, by which a record that ``where`` filters is bad."""
    where = rows["where"]
    filtered = {} if where is None else {f"where {where}": f"coalesce({where}, false)"}
    return {**rows, "where": None, "expect": filtered | rows["expect"]}


def _and_others(bad: DataFrame, more: DataFrame) -> DataFrame:
    """With the records of one more table that are not there yet: an attempt may have ended between two tables."""
    return bad.unionByName(_without(more, bad), allowMissingColumns=True).select(*bad.columns)


def _without(rows: DataFrame, others: DataFrame) -> DataFrame:
    return rows.join(others.select(*SOURCE), [*SOURCE], "left_anti")


def _fated(rows: DataFrame, *bad: DataFrame) -> DataFrame:
    return reduce(DataFrame.unionByName, (with_fate(table, BAD) for table in bad), with_fate(rows, ROW))
