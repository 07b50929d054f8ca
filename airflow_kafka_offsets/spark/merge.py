# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Entity tables: a merge moves one from Q(log table as it was) to Q(log table as it is), Q being :class:`Query`.

Its receipt is in the same commit of the entity table: which version of the log table was read, and which batches were
left out because nobody has committed them. So a merge ::

    pins the entity table with its receipt → then the log table → asks the pipeline's log which batches count
    → runs Q for the keys that these touch → publishes rows and receipt at once, if the entity table is as it was pinned

Only new batches: their rows, and the rows that the entity table has of their keys. A corrected batch, or ``order_by``:
the whole history of these keys. No receipt (a new table, or one whose history is gone): of all keys.

What publishes:

- Iceberg: a branch of the pinned snapshot, and ``fast_forward``, which refuses if ``main`` has moved.
- Delta: a transaction whose version is that of the pinned table. Delta skips a late one in silence, so it looks whether
  its token is there. A receipt does not count if behind its pinned version somebody else merged, or restored the table.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.commits import Commits
from airflow_kafka_offsets.spark.decode import SETTINGS
from airflow_kafka_offsets.spark.entity import GONE, SOURCE, SPLIT, TRUNCATE, Query
from airflow_kafka_offsets.spark.errors import BatchError, InvalidJob, LateAttempt
from airflow_kafka_offsets.spark.history import MERGED, Commit, commits
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.retries import try_again
from airflow_kafka_offsets.spark.run import open_work
from airflow_kafka_offsets.spark.sinks import entity_table, plain_sink
from airflow_kafka_offsets.spark.sinks.columns import quoted
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.iceberg import EXTENSIONS, in_catalog
from airflow_kafka_offsets.spark.sinks.table import TableSink
from airflow_kafka_offsets.spark.store import Store

log = logging.getLogger(__name__)


class _Moved(Exception):
    """Another writer has committed to the entity table since it was pinned."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What the log table has got since the entity table was merged.

    :ivar pinned: the newest commit of the entity table; ``None``: it has none.
    :ivar receipt: of the last merge; ``None``: the table has to be computed as a whole.
    :ivar to: the place of the log table's newest commit.
    :ivar batches: what was written, and is committed.
    :ivar open: what nobody has committed yet, and the version that wrote it (``None``: not known any more).
    :ivar former: keys that corrected batches had before; ``None``: all batches are newer than what was merged.
    """

    pinned: Commit | None
    receipt: Mapping[str, Any] | None
    to: list[int]
    batches: Collection[str]
    open: Mapping[str, int | None]
    former: DataFrame | None = None

    @property
    def reads_all(self) -> bool:
        """Whether the whole history of the touched keys is read."""
        return self.receipt is None or self.former is not None


@dataclass(frozen=True, slots=True)
class Merge:
    """What is merged, and into which table.

    :ivar log: the table that the sink writes.
    :ivar plan: of the run's own batch.
    """

    log: TableSink
    table: TableSink
    plan: Plan
    query: Query

    def run(self, spark: SparkSession, pipeline: Commits) -> list[str]:
        """Merge what the entity table lacks; the keys of the batches that were merged.

        :raises OtherOutput: the table is another pipeline's; or the log table has rows of another log.
        :raises LateAttempt: a batch is being rewritten, or other writers keep committing to the entity table.
        :raises InvalidJob: the rows have no such keys, or a key is in two partitions.
        """
        self.table.check(spark, self.plan)
        why = f"Another writer has committed to {self.table.output}: the merge is retried."
        try:
            return try_again(lambda _: self._once(spark, pipeline), self._is_conflict, why)
        except _Moved:
            what, cause = f"Cannot merge into {self.table.output}", "Other writers keep committing to it"
            raise LateAttempt(what, cause, "Retry the task") from None

    def _is_conflict(self, error: Exception) -> bool:
        """A branch that another merge has just made moves nothing."""
        return isinstance(error, _Moved) or self.table.is_conflict(error)

    def _once(self, spark: SparkSession, pipeline: Commits) -> list[str]:
        """:raises _Moved: another writer committed first."""
        pinned, receipt = self.pin(spark)  # before the log table: what was merged meanwhile is not merged again
        changes = self.changes(spark, pipeline, pinned, receipt)
        if changes is None:
            return []
        try:
            self.publish(self.rows(spark, changes), changes)
        except Exception as error:  # of any kind: that the table has moved says why, whatever the format calls it
            if isinstance(error, BatchError) or self.pin(spark)[0] == pinned:
                raise
            raise _Moved from error
        return sorted(changes.batches)

    def pin(self, spark: SparkSession) -> tuple[Commit | None, dict[str, Any] | None]:
        """The newest commit of the entity table, and the receipt of its last merge."""
        history = commits(spark, self.table)
        head = next(history, None)
        merged = next((commit for commit in chain([head] if head else [], history) if commit.receipt), None)
        return head, None if merged is None or not self._holds(merged, history) else merged.receipt

    def changes(
        self, spark: SparkSession, pipeline: Commits, pinned: Commit | None, receipt: Mapping[str, Any] | None
    ) -> Changes | None:
        """What the log table has got since the receipt; ``None``: nothing that is committed."""
        written, to = dict[str, int | None](), None
        for commit in commits(spark, self.log):
            to = to or commit.place
            if receipt is not None and commit.place == receipt["read"]:
                break
            if commit.batch is not None:
                written.setdefault(commit.batch, commit.place[0])
        else:
            receipt = None
        if to is None:
            return None
        if receipt is None:  # also batches whose commits have expired
            keys = self._at(spark, self.log, to).where(f"{BATCH_COLUMN} IS NOT NULL").select(BATCH_COLUMN).distinct()
            written = {**dict.fromkeys(row[0] for row in keys.collect()), **written}
        else:
            written = {**receipt["open"], **written}
        with ThreadPoolExecutor(8) as pool:
            counts = dict(zip(written, pool.map(pipeline.counts, written, written.values()), strict=True))
        batches = {key for key in written if counts[key]}
        found = Changes(pinned, receipt, to, batches, {key: written[key] for key in written if not counts[key]})
        if not batches or receipt is None or (not self.query.order_by and min(batches) > receipt["newest"]):
            return found if batches else None
        try:
            before = self.query.touched(self._at(spark, self.log, receipt["read"]).where(_of(batches)))
            return replace(
                found, former=before.withColumns(dict.fromkeys(("at", "lost"), f.lit(None))).localCheckpoint()
            )
        except Exception as error:
            log.warning(
                "The version of %s that was merged last is gone, so all of it is read: %s",
                self.log.output,
                str(error)[:300],
            )
            return self.changes(spark, pipeline, pinned, None)

    def rows(self, spark: SparkSession, changes: Changes) -> DataFrame:
        """The rows of the entity table for every key that has changed, read once; ``kafka_gone``: it has none."""
        query, names = self.query, [*map(quoted, self.query.keys)]
        rows = self._at(spark, self.log, changes.to).where(_not_of(changes.open))
        changed = rows if changes.receipt is None else rows.where(_of(changes.batches))
        touched = query.touched(changed)
        touched = (touched if changes.former is None else touched.union(changes.former)).localCheckpoint()
        has_truncate = query.look(touched, self.log.output)
        entity = None if changes.pinned is None else self._at(spark, self.table, changes.pinned.place)
        keys = [touched.where(f"NOT {TRUNCATE}").select(*names)]
        if has_truncate or changes.receipt is None:
            keys += [
                frame.select(*names) for frame in (entity, rows if changes.reads_all else None) if frame is not None
            ]
        all_keys = reduce(DataFrame.union, keys).dropna().distinct()
        if entity is not None:
            entity = entity.where(_not_of(changes.batches))
        if changes.reads_all:
            log.info("Keys to merge: %d. All their rows in %s are read.", all_keys.count(), self.log.output)
        elif not has_truncate:  # each key has a newer row: the entity table is asked for what this may lack
            query = replace(query, truncate_when=None)
            if entity is not None:
                there = {name.lower() for name in entity.columns}  # a column may be new in the rows
                texts = (quoted(name) for name in query.placeholders(rows.schema) if name.lower() in there)
                entity = entity.select(*dict.fromkeys((*names, *SOURCE, BATCH_COLUMN, *texts)))
        found = query.rows(all_keys, rows if changes.reads_all else changed, entity).localCheckpoint()
        if not query.order_by and (split := found.where(SPLIT).select(*names).head()) is not None:
            cause = f"{self.log.output} has rows of one key in two partitions, and no order between them: {split}"
            remedy = 'Give Merge(order_by=["…"]); or produce each key to one partition'
            raise InvalidJob(f"Cannot merge into {self.table.output}", cause, remedy)
        return found.drop(SPLIT)

    def publish(self, found: DataFrame, changes: Changes) -> None:
        """:raises _Moved: the entity table is not as it was pinned."""
        spark, token, before = found.sparkSession, secrets.token_hex(4), changes.receipt or {"newest": ""}
        receipt = {
            "read": changes.to,
            "open": changes.open,
            "newest": max(*changes.batches, before["newest"]),
            "pinned": None if changes.pinned is None else changes.pinned.place,
            "token": token,
        }
        fitted, _ = self.table.prepare(found.drop(GONE), self.plan)
        view = f"kafka_merge_{token}"
        found.to(StructType([*fitted.schema, found.schema[GONE]])).createOrReplaceTempView(view)
        own = [quoted(name) for name in found.columns if name != GONE]  # other columns are the user's
        every = [quoted(name) for name in fitted.columns]
        merge = (
            f"MERGE INTO {{}} AS t USING {view} AS s "
            f"ON {' AND '.join(f't.{quoted(key)} = s.{quoted(key)}' for key in self.query.keys)} "
            f"WHEN MATCHED AND s.{GONE} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in own)} "
            f"WHEN NOT MATCHED AND NOT s.{GONE} THEN INSERT ({', '.join(every)}) "
            f"VALUES ({', '.join(f's.{name}' for name in every)})"
        )
        try:
            (self._publish_delta if self.table.format == "delta" else self._publish_iceberg)(spark, merge, receipt)
        finally:
            spark.catalog.dropTempView(view)

    def _publish_delta(self, spark: SparkSession, merge: str, receipt: Mapping[str, Any]) -> None:
        version = 0 if receipt["pinned"] is None else receipt["pinned"][0] + 1
        said = {"write.txnAppId": "kafka-offsets/merge", "write.txnVersion": str(version)}
        said |= {"commitInfo.userMetadata": json.dumps({MERGED: receipt})}
        try:
            for name, value in said.items():
                spark.conf.set(f"spark.databricks.delta.{name}", value)
            spark.sql(merge.format(self.table.name))
        finally:
            for name in said:
                spark.conf.unset(f"spark.databricks.delta.{name}")
        head, now = self.pin(spark)
        is_untouched = head is not None and head.place == receipt["pinned"]  # nothing was to be done
        if not is_untouched and (now is None or now["token"] != receipt["token"]):
            raise _Moved

    def _publish_iceberg(self, spark: SparkSession, merge: str, receipt: Mapping[str, Any]) -> None:
        name, branch = self.table.name, f"kafka_merge_{receipt['token']}"
        at = "" if receipt["pinned"] is None else f"AS OF VERSION {receipt['pinned'][0]}"
        catalog, table = in_catalog(spark, name)
        try:
            spark.sql(f"ALTER TABLE {name} CREATE BRANCH {branch} {at} RETAIN 1 DAYS")
            spark.sql(merge.format(f"{name}.branch_{branch}"))
            nothing = spark.table(name).limit(0).writeTo(f"{name}.branch_{branch}")
            nothing.option(f"snapshot-property.{MERGED}", json.dumps(receipt)).append()
            spark.sql(f"CALL {catalog}.system.fast_forward('{table}', 'main', '{branch}')")
            spark.sql(f"ALTER TABLE {name} DROP BRANCH {branch}")
        except ParseException as error:
            cause, remedy = "Spark lacks Iceberg's SQL extensions", f"Set {EXTENSIONS}"
            raise InvalidJob(f"Cannot merge into {self.table.output}", cause, remedy) from error

    def _holds(self, merged: Commit, before: Iterator[Commit]) -> bool:
        """Whether the entity table was as the merge had pinned it, so that its receipt is true. Iceberg sees to that.

        :param before: the commits before this one, the newest first.
        """
        pinned = (merged.receipt or {})["pinned"] or [-1, 0]
        for commit in chain([merged], before) if self.table.format == "delta" else ():
            if commit.place[0] <= pinned[0]:
                return commit.place == pinned
            if commit is not merged and commit.receipt is not None:
                return False
        return True

    def _at(self, spark: SparkSession, table: TableSink, place: Sequence[int]) -> DataFrame:
        return spark.sql(f"SELECT * FROM {table.name} VERSION AS OF {place[0]}")


def _of(batches: Collection[str]) -> Any:
    """Rows of these batches, for ``where``: it reads no file that has none of them."""
    return f.col(BATCH_COLUMN).isin(*batches)


def _not_of(batches: Collection[str]) -> Any:
    """A row of no batch is of none of these."""
    return ~f.coalesce(_of(batches), f.lit(False))


def merge_batches(spark: SparkSession, argv: Sequence[str] | None = None, store: Store | None = None) -> list[str]:
    """Merge what the entity table lacks.

    :param argv: the arguments of the batch's own job; by default ``sys.argv[1:]``.
    :param store: the checkpoint location, if Spark cannot reach it.
    :returns: the keys of the batches that were merged.
    :raises InvalidJob: the job object has no merge, or see :meth:`Merge.run`.
    """
    work = open_work(spark, argv, store)
    job: Mapping[str, Any] = work.job or {}
    if (given := job.get("merge")) is None:
        raise InvalidJob("Cannot merge", "The job has no entity table", "Give kafka_spark_batch sink= and merge=")
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    own = plain_sink(job["sink"], job["output"])
    merge = Merge(own, entity_table(given), work.plan, Query.of(given))
    merged = merge.run(spark, Commits(work.store, work.arguments.pipeline, work.plan, own.output))
    log.info("%s: batches merged: %s.", merge.table.output, ", ".join(merged) or "none, it has them all")
    return merged
