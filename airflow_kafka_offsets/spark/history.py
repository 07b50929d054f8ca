# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a table's own history says: of each commit, what its writer has said in it.

Delta keeps that as ``userMetadata``, Iceberg as properties of the snapshot. Only commits whose changes the table has
now are listed: what a ``RESTORE``, a rollback or a ``REPLACE TABLE`` has taken back is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Row, SparkSession

from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.sinks.table import TableSink

MERGED = "kafka-offsets.merged"
"""The receipt of a merge, in the commit of the entity table."""
_DEPTHS = (20, 1000, 2**31 - 1)  # how many commits Delta is asked for, if need be


class Commit(NamedTuple):
    """A commit of a table.

    :ivar place: Delta's version, or the id of Iceberg's snapshot; and its time, which tells tables of one name apart.
    :ivar batch: the key of the batch that it wrote.
    :ivar receipt: of a merge; empty: it has taken commits back.
    """

    place: list[int]
    batch: str | None
    receipt: dict[str, Any] | None


def commits(spark: SparkSession, table: TableSink) -> Iterator[Commit]:
    """The newest first; of a table that does not exist, none."""
    if table.read(spark) is None:
        return iter(())
    return (_delta if table.format == "delta" else _iceberg)(spark, table.name)


def delta_history(spark: SparkSession, name: str) -> Iterator[Row]:
    """The commits of a Delta table, the newest first, with their time ``ms``. No more is read than is asked for."""
    below = 2**63
    for depth in _DEPTHS:
        rows = spark.sql(f"DESCRIBE HISTORY {name} LIMIT {depth}").selectExpr("*", "unix_millis(timestamp) AS ms")
        found = rows.collect()
        for row in (row for row in found if row.version < below):
            below = row.version
            yield row
            if row.operation == "RESTORE":  # by a timestamp: nothing says what the table has
                below = int(row.operationParameters.get("version") or -1) + 1
            elif "REPLACE TABLE" in row.operation or row.operation == "CLONE":  # another table of the same name
                return
        if len(found) < depth:
            return


def _delta(spark: SparkSession, name: str) -> Iterator[Commit]:
    for row in delta_history(spark, name):
        said = json.loads(row.userMetadata) if (row.userMetadata or "").startswith("{") else {}
        merged = {} if row.operation == "RESTORE" else said.get(MERGED)
        yield Commit([row.version, row.ms], said.get(BATCH_COLUMN), merged)


def _iceberg(spark: SparkSession, name: str) -> Iterator[Commit]:
    spark.catalog.refreshTable(name)
    heads = spark.sql(f"SELECT snapshot_id FROM {name}.refs WHERE name = 'main'").collect()
    columns = "snapshot_id, parent_id, unix_millis(committed_at) AS ms, summary"
    found = {row.snapshot_id: row for row in spark.sql(f"SELECT {columns} FROM {name}.snapshots").collect()}
    row = found.get(heads[0][0]) if heads else None
    while row is not None:
        said = row.summary
        batch = said.get("kafka-offsets.batch") or said.get("published-wap-id") or said.get("wap.id", "")
        yield Commit([row.snapshot_id, row.ms], batch.partition("/")[0] or None, json.loads(said.get(MERGED, "null")))
        row = found.get(row.parent_id)
