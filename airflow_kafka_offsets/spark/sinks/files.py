"""Files: one folder per batch, ``<path>/kafka_batch=<key>/…``, which readers of the whole folder see as a column.

Where the file system renames, the batch's files are written out of sight and swapped in by two renames. Between them
readers see the batch not at all. A driver that is killed there leaves it so; the next attempt ends the swap.

An object store copies where it renames, so there the batch's own folder is overwritten: readers see a part of it until
the write has ended, and what they see if it fails is incomplete until the next attempt. A table has no such gap.

Two drivers that swap at the same time are kept apart by looks only. The next attempt removes what others have staged,
so that a driver which wakes up late finds nothing to swap in.
"""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.errors import LateAttempt
from airflow_kafka_offsets.spark.sinks import mark
from airflow_kafka_offsets.spark.sinks.columns import refuse_batch_column
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.folders import Folders

log = logging.getLogger(__name__)

STAGING = "_kafka_staging"
_SOURCE = "topic STRING, partition INT, offset BIGINT"
_OPTIONS = {
    "partitionOverwriteMode": "static",  # whatever the session says: dates that are not written again would stay
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "header": "true",  # of CSV: its columns are found by their names
}


@dataclass(frozen=True, slots=True)
class FilesSink:
    """A folder that has all batches of a pipeline, in files of one of Spark's formats.

    :ivar partition_by: columns that become folders inside of a batch's.
    """

    path: str
    output: str
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()

    def check(self, spark: SparkSession, pipeline: str) -> None:
        mark.check_folder(Folders(spark, self.path), self.path, self.output, pipeline)

    def write(self, batch: Batch, rows: DataFrame) -> None:
        refuse_batch_column(rows)
        folders, place = Folders(batch.spark, self.path), self._place(batch)
        mark.mark_folder(folders, self.path, self.output, batch.name)
        writer = rows.write.format(self.format).partitionBy(*self.partition_by).options(**_OPTIONS)
        if folders.renames:
            self._swap(folders, batch, writer)
            return
        log.info("%s: %s does not rename, so until the write has ended readers see a part of it.", batch, place)
        batch.look()
        writer.mode("overwrite").save(place)

    def read_back(self, batch: Batch) -> DataFrame:
        """Topic, partition and offset of each row."""
        folders, place = Folders(batch.spark, self.path), self._place(batch)
        if nested := folders.find(f"{place}/{BATCH_COLUMN}=*"):
            cause = f"Two drivers have moved their files at the same time: {nested[0]}"
            raise LateAttempt(f"Cannot read back {batch}", cause, f"Retry the task, after: hadoop fs -rm -r '{place}'")
        if not folders.find(f"{place}/{'*/' * len(self.partition_by)}part-*"):
            return batch.spark.createDataFrame([], _SOURCE)
        reader = batch.spark.read.format(self.format)
        if self.format != "csv":
            return reader.schema(_SOURCE).load(place).select("topic", "partition", "offset")
        columns = [f"CAST({name} AS {kind}) AS {name}" for name, kind in map(str.split, _SOURCE.split(", "))]
        return reader.option("header", "true").load(place).selectExpr(*columns)

    def _place(self, batch: Batch) -> str:
        return f"{self.path}/{BATCH_COLUMN}={batch.key}"

    def _swap(self, folders: Folders, batch: Batch, writer: DataFrameWriter) -> None:
        place = self._place(batch)
        self._finish(folders, batch)
        staged = f"{self.path}/{STAGING}/{batch.key}--{batch.attempt}-{secrets.token_hex(3)}"
        try:
            writer.mode("error").save(f"{staged}/new")
            folders.make(f"{staged}/new")  # Spark makes none where there are no rows
            batch.look()
            if not folders.exists(f"{staged}/new"):
                cause = "A newer attempt has removed what this one had staged"
                raise LateAttempt(f"Cannot write {batch}", cause, "Nothing to do: the newest attempt counts")
        except BaseException:
            with suppress(Exception):
                folders.remove(staged)
            raise
        if folders.exists(place):
            folders.move(place, f"{staged}/old")
        folders.move(f"{staged}/new", place)
        folders.remove(staged)

    def _finish(self, folders: Folders, batch: Batch) -> None:
        """End a swap that was cut off between its renames, and remove what other attempts have staged."""
        place = self._place(batch)
        for staged in folders.find(f"{self.path}/{STAGING}/{batch.key}--*"):
            if folders.exists(f"{staged}/old") and not folders.exists(place):
                folders.move(f"{staged}/{'new' if folders.exists(f'{staged}/new') else 'old'}", place)
            folders.remove(staged)
