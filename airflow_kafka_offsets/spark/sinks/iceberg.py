# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Iceberg tables. The first write of a batch is staged, proved, and then published: readers see proven rows only.

- **Staged** is an append with ``spark.wap.id`` = key. It is a snapshot that no reader sees (``write.wap.enabled``).
- **Published** it is by ``cherrypick_snapshot``. The table itself refuses a key that is published already, so that a
  driver which is late, or another attempt, cannot publish a second time.
- **Rewritten** are rows that are published: by one overwrite, validated from the snapshot before the last look. Where a
  compacted file has rows of other batches, too, a MERGE is staged in its place; it can be published only if no commit
  came meanwhile.

A snapshot that was staged and never published has no reference: ``expire_snapshots`` removes it and its files.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.batch import Batch, Written
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.retries import names_of
from airflow_kafka_offsets.spark.sinks.columns import nullable, quoted
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.table import TableSink
from airflow_kafka_offsets.spark.store import major_version, settings_of

WAP_ID, WAP_BRANCH = "spark.wap.id", "spark.wap.branch"
PUBLISHED = "published-wap-id"
PREFIX = "kafka-offsets."
_BOUNDS = f"write.metadata.metrics.column.{BATCH_COLUMN}"
_DEFAULT_BOUNDS = "write.metadata.metrics.default"
_RETRIES = "commit.retry.num-retries"  # sixteen windows that are staged at once need more than the default, 4
_STAGING = "write.wap.enabled"
EXTENSIONS = "spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@dataclass(frozen=True, slots=True)
class IcebergTable(TableSink):
    format: ClassVar[Literal["iceberg"]] = "iceberg"
    sign: ClassVar[str] = "current-snapshot-id"
    conflicts: ClassVar[set[str]] = {
        *("CommitFailedException", "CommitStateUnknownException", "AlreadyExistsException"),
        *("ValidationException", "DuplicateWAPCommitException"),
    }

    def refuse_session(self, spark: SparkSession) -> None:
        settings = settings_of(spark)
        if found := [f"{name}={settings[name]}" for name in (WAP_ID, WAP_BRANCH) if name in settings]:
            cause = f"The Spark setting {found[0]} would send its commits elsewhere"
            raise InvalidJob(f"Cannot write {self.output}", cause, "Remove the setting: the job stages by itself")
        setting, _, extension = EXTENSIONS.partition("=")
        if major_version(spark) < 4 and extension.rpartition(".")[2] not in settings.get(setting, ""):
            cause = "Spark 3.5 publishes by Iceberg's extensions only"
            raise InvalidJob(f"Cannot write {self.output}", cause, f"Set {EXTENSIONS}")

    def properties_to_set(self, properties: Mapping[str, str]) -> dict[str, str]:
        bounds = properties.get(_BOUNDS, properties.get(_DEFAULT_BOUNDS, "truncate(16)"))
        if properties and bounds.lower() != "full":
            cause = f"Its files keep the bounds of {BATCH_COLUMN} as {bounds}: looking for a batch would read them all"
            remedy = f"ALTER TABLE {self.name} SET TBLPROPERTIES ('{_BOUNDS}' = 'full')"
            raise InvalidJob(f"Cannot write {self.output}", cause, remedy)
        needed = {_STAGING: "true"} | ({} if properties else {_BOUNDS: "full"})
        return needed | ({} if _RETRIES in properties else {_RETRIES: "30"})

    def partitions_of_a_new_table(self) -> Iterable[str]:
        return self.partition_by

    def fitting(self, rows: DataFrame, table: StructType) -> StructType:
        return nullable(table)

    def refresh(self, spark: SparkSession) -> None:
        spark.catalog.refreshTable(self.name)  # the catalog may remember a table of half a minute ago

    def put(self, batch: Batch, rows: DataFrame, receipt: Mapping[str, Any], properties: Mapping[str, str]) -> Written:
        receipt = {f"{PREFIX}{name.removeprefix('kafka_')}": str(value) for name, value in receipt.items()}
        options = {f"snapshot-property.{name}": value for name, value in receipt.items()}
        head = properties[self.sign]
        if batch.attempt == batch.tries == 1 or head == "none" or not self._is_published(batch):
            batch.look()
            with _staging(batch.spark, batch.key):
                rows.writeTo(self.name).options(**options).append()
            return self._staged(batch, batch.key, receipt)
        options |= {f"snapshot-property.{PUBLISHED}": batch.key}
        options |= {"isolation-level": "serializable", "validate-from-snapshot-id": head}
        batch.look()  # after the snapshot to validate from: a driver that comes later conflicts with it
        try:
            rows.writeTo(self.name).options(**options).overwrite(f.col(BATCH_COLUMN) == batch.key)
        except Exception as error:
            if "ValidationException" not in names_of(error):
                raise
            return self._merge(batch, rows)
        snapshot, added = self._receipt(batch, f"summary['{PUBLISHED}'] = '{batch.key}'", receipt)
        return Written(self.rows_of(batch), batch.records, added=added, snapshot=snapshot)

    def _merge(self, batch: Batch, rows: DataFrame) -> Written:
        """The rows are in a file with those of other batches; or another attempt has written them meanwhile."""
        batch.look()
        view, wap_id = f"kafka_rows_{secrets.token_hex(4)}", f"{batch.key}/{batch.attempt}-{batch.tries}"
        rows.createOrReplaceTempView(view)
        try:
            with _staging(batch.spark, wap_id):
                batch.spark.sql(
                    f"MERGE INTO {self.name} AS t USING {view} AS s ON false WHEN NOT MATCHED THEN INSERT * "
                    f"WHEN NOT MATCHED BY SOURCE AND t.{BATCH_COLUMN} = '{batch.key}' THEN DELETE"
                ).collect()
        finally:
            batch.spark.catalog.dropTempView(view)
        return self._staged(batch, wap_id, None)

    def _staged(self, batch: Batch, wap_id: str, receipt: Mapping[str, Any] | None) -> Written:
        snapshot, added = self._receipt(batch, f"summary['wap.id'] = '{wap_id}'", receipt)
        staged = batch.spark.read.option("snapshot-id", snapshot).table(self.name)

        def publish() -> str:
            catalog, table = in_catalog(batch.spark, self.name)
            call = f"CALL {catalog}.system.cherrypick_snapshot(table => '{table}', snapshot_id => {snapshot})"
            current = str(batch.spark.sql(call).collect()[0]["current_snapshot_id"])
            own = f"(summary['source-snapshot-id'] = '{snapshot}' OR snapshot_id = {snapshot})"
            # What is current now may be another batch's, published since. A fast-forward keeps the id.
            return snapshot if current == snapshot else self._receipt(batch, own, None)[0]

        return Written(self.rows_of(batch, staged), batch.records, added=added, publish=publish)

    def _receipt(self, batch: Batch, which: str, receipt: Mapping[str, Any] | None) -> tuple[str, int | None]:
        """The last snapshot of this attempt, and how many rows it has added; of a MERGE it says more than that."""
        wanted = [which, *(f"summary['{name}'] = '{value}'" for name, value in (receipt or {}).items())]
        self.refresh(batch.spark)
        snapshots = batch.spark.table(f"{self.name}.snapshots").where(" AND ".join(wanted))
        newest = snapshots.orderBy(f.desc("committed_at")).limit(1)
        found = newest.selectExpr("snapshot_id", "summary['added-records'] AS added").collect()[0]
        return str(found["snapshot_id"]), None if receipt is None else int(found["added"] or 0)

    def _is_published(self, batch: Batch) -> bool:
        """Rows say so, too: snapshots expire."""
        if not self.rows_of(batch).isEmpty():
            return True
        ids = f"s.summary['wap.id'] = '{batch.key}' OR s.summary['{PUBLISHED}'] = '{batch.key}'"
        history = f"{self.name}.history AS h JOIN {self.name}.snapshots AS s USING (snapshot_id)"
        return not batch.spark.sql(f"SELECT 1 FROM {history} WHERE h.is_current_ancestor AND ({ids})").isEmpty()


def in_catalog(spark: SparkSession, name: str) -> tuple[str, str]:
    """The catalog of a table, and its name there."""
    first, *others = re.findall(r"`(?:[^`]|``)+`", name)
    if others and spark.conf.get(f"spark.sql.catalog.{first.strip('`')}", None) is not None:
        return first, ".".join(others)
    return quoted(spark.catalog.currentCatalog()), ".".join([first, *others])


@contextmanager
def _staging(spark: SparkSession, wap_id: str) -> Iterator[None]:
    """The setting holds for every table that the session writes, so it is made around one write."""
    spark.conf.set(WAP_ID, wap_id)
    try:
        yield
    finally:
        spark.conf.unset(WAP_ID)
