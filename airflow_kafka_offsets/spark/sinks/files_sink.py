"""Files: ``[<partition columns>/]kafka_batch=<key>/kafka_split=<k>`` below one folder, in any format of Spark's.

The split's files are written to a folder that readers do not see. When all are there, the driver looks once more
whether it is still the one to write, puts the list of its folders on record, and then swaps: each new folder takes its
place, what was there moves out of sight, and folders of this key and split that were not written again go too (a record
whose date has changed would be there twice). Nothing of the output is touched before the swap. A swap that was cut off
is finished by the next attempt, before it reads anything: then the old rows are gone, and the new ones must not be.

What this cannot do, because a file system has no transactions:

- While the swap runs, a reader sees some folders old and some new, or one for a moment not at all. A driver that is
  killed there leaves it so until the next attempt. With one folder a split it is two renames; on an object store a
  rename copies.
- A late driver finds that a newer attempt has removed what it had staged, and gives up. But a driver that sleeps
  between two renames of its swap, and wakes up after a newer attempt, may still do the next one.

Where either matters, write to a table: Delta or Iceberg.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import InvalidRequest, refuse
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.spark.driver_jvm import Folders, with_settings
from airflow_kafka_offsets.spark.sinks.evolution import Change, Comparison, Evolve, check_evolve, say
from airflow_kafka_offsets.spark.sinks.sink_contract import (
    BATCH_COLUMN,
    HIDDEN,
    OWN_COLUMNS,
    SPLIT_COLUMN,
    SinkBatch,
    check_batch,
    names,
    no_records,
    options_of,
    overtaken,
    path_output,
    with_key,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

STAGING = "_kafka_staging"  # Spark, Hive, Trino and Arrow leave out names that begin so
SCHEMAS = "_kafka_schemas"
JOURNAL = "folders"  # once it has this name, the swap has begun, and whoever comes next ends it
UNPUBLISHED = "folders.unpublished"
HIDDEN_END = "._COPYING_"  # Spark leaves out what ends so: Hadoop's tools name a file so that they still write
_TABLES = ("_delta_log", "metadata/*.metadata.json")  # what Delta and Iceberg have in a table's folder
FORMATS = ("parquet", "orc", "json", "csv", "avro")
OWN_OPTIONS = ("path", "basePath", "partitionOverwriteMode")


@dataclass(frozen=True, slots=True)
class FilesSink:
    """See :func:`files`."""

    path: str
    format: str
    partition_by: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    evolve: Evolve = "fail"

    @property
    def output(self) -> str:
        return path_output(self.path)

    def __call__(
        self, records: DataFrame, batch: SinkBatch, judge: Callable[[DataFrame], None] | None = None
    ) -> DataFrame:
        """:param judge: sees what is staged before the output changes; if it raises, the output stays as it is."""
        spark = records.sparkSession
        folders = Folders(spark, self.path)
        self._refuse_other_rows(folders, batch)
        keyed = with_key(records, batch)
        compared = self._compared(folders, keyed.schema, batch)
        own = f"{self.path}/{STAGING}/{batch.key}--split-{batch.split}--"
        self._finish_others(folders, own, batch)
        staging = f"{own}{batch.attempt}-{secrets.token_hex(2)}"
        try:
            rows = compared.fitted(keyed, fill=True)
            self._stage(folders, rows, batch, f"{staging}/new")
            self._unhide(folders, f"{staging}/new")
            new = [self._place(folder) for folder in folders.found(f"{staging}/new/{self._own_folders(batch)}")]
            if judge is not None:
                staged = [f"{staging}/new/{place}" for place in new]
                judge(self._read(spark, f"{staging}/new", staged, rows.schema))
            folders.write_lines(f"{staging}/{UNPUBLISHED}", new)
            batch.look(self.output)
            if not folders.exists(f"{staging}/{UNPUBLISHED}"):
                raise overtaken(batch, self.output, "a newer attempt, which has removed what this one had staged,")
            if new:
                self._record(folders, compared, batch)
            folders.move(f"{staging}/{UNPUBLISHED}", f"{staging}/{JOURNAL}")
        except BaseException:
            with suppress(Exception):
                folders.remove(staging)
            raise
        self._swap(folders, staging, batch)
        return self.written(spark, batch, rows.schema)

    def keys(self, spark: SparkSession) -> list[str]:
        """Of all folders of a batch. One whose rows are all gone may still be named, where its folder is left."""
        return self._keys(Folders(spark, self.path))

    def _keys(self, folders: Folders) -> list[str]:
        found = folders.found(f"{self.path}/{self._levels()}{BATCH_COLUMN}=*")
        return sorted({folder.rpartition("=")[2] for folder in found})

    def written(self, spark: SparkSession, batch: SinkBatch, schema: StructType | None = None) -> DataFrame:
        """:param schema: of the files, where it is known: else Spark looks into them, into all of JSON and CSV."""
        check_batch(batch)
        found = Folders(spark, self.path).found(f"{self.path}/{self._own_folders(batch)}")
        return self._read(spark, self.path, found, schema)

    def rows(self, spark: SparkSession, bounds: tuple[str, str] | None = None) -> DataFrame | None:
        """All rows, or those of the batches whose keys lie between two; ``None`` where there are none."""
        found = Folders(spark, self.path).found(f"{self.path}/{self._levels()}{BATCH_COLUMN}=*/{SPLIT_COLUMN}=*")
        keys = {folder: folder.split("/")[-2].rpartition("=")[2] for folder in found}
        folders = [one for one in found if bounds is None or bounds[0] <= keys[one] <= bounds[1]]
        return self._read(spark, self.path, folders) if folders else None

    def _read(self, spark: SparkSession, base: str, folders: list[str], schema: StructType | None = None) -> DataFrame:
        if not folders:
            return no_records(spark)
        reader = spark.read if schema is None else spark.read.schema(schema)
        return reader.format(self.format).options(**dict(self.options)).option("basePath", base).load(folders)

    def _refuse_other_rows(self, folders: Folders, batch: SinkBatch) -> None:
        """Rows that lie there in another way: a reader of the whole folder would leave them out, or the batches.

        One folder of each level is looked at, and of another batch the files of one split.

        :raises InvalidRequest: there are some.
        """
        at = self.path
        for column in (*self.partition_by, BATCH_COLUMN):
            found = folders.found(f"{at}/*")
            names = [path.rpartition("/")[2] for path in found]
            if logs := sorted({"_spark_metadata", "_delta_log"} & set(names)):
                raise InvalidRequest(
                    [
                        f"{at} has {logs[0]}: Spark's readers see the files that it names, and would see none of this "
                        "batch. Write to a folder of its own, and read the two together in a view."
                    ]
                )
            own = [path for path, name in zip(found, names, strict=True) if name.startswith(f"{column}=")]
            others = [name for name in names if not name.startswith((*HIDDEN, f"{column}="))]
            if others:
                raise InvalidRequest(
                    [
                        f"{at} has {first_few(others, 3)}, and this sink writes folders {column}=…: Spark's "
                        "readers of the whole folder would leave one of the two out, or fail. Write to a folder of its "
                        "own, and read the two together in a view."
                    ]
                )
            if not own:
                break
            at = own[0]
        if at == self.path:
            self._refuse_table_around(folders)
        others = [folder for folder in own if folder.rpartition("=")[2] != batch.key]
        of_split = folders.found(f"{others[0]}/{SPLIT_COLUMN}=*")[:1] if others else []
        files = [path.rpartition("/")[2] for folder in of_split for path in folders.found(f"{folder}/part-*")]
        if other := [format for format in FORMATS if format != self.format and any(f".{format}" in n for n in files)]:
            raise InvalidRequest(
                [
                    f"{others[0]} has files in the format {other[0]}, and this sink writes {self.format}: no reader "
                    "reads the two together. Put the format back, or write to a folder of its own."
                ]
            )

    def _refuse_table_around(self, folders: Folders) -> None:
        """A table takes what lies in its folder for its own rests: Delta's VACUUM removes it. Hidden names are left.

        :raises InvalidRequest: the path is inside of one.
        """
        names = self.path.split("/")
        for depth in range(len(names) - 1, 0, -1):
            if names[depth].startswith(HIDDEN):
                return
            around = "/".join(names[:depth])
            if re.fullmatch("[^:]+", names[depth - 1]) and _is_table(folders, around):
                raise InvalidRequest(
                    [
                        f"{self.path} lies in {around}, which is a table: what cleans the table (VACUUM, "
                        "remove_orphan_files) deletes the files of others in its folder. Nothing was written. Write to "
                        "a folder beside it."
                    ]
                )

    def _compared(self, folders: Folders, rows: StructType, batch: SinkBatch, own: str = "") -> Comparison:
        """The rows' columns beside those on record, which all folders together have.

        A batch that alone is there may be done again with other columns: what does not fit is dropped from the record.

        :param own: the name of the rows' own record, if they have one already.
        :raises InvalidRequest: the output must not get what the rows have.
        """
        from pyspark.sql.types import StructType

        lacks = [name for name in self.partition_by if name.lower() not in map(str.lower, rows.names)]
        if lacks:
            raise InvalidRequest([f"partition_by has {', '.join(lacks)}, and the rows do not. Put it in select."])
        records = [path for path in folders.found(f"{self.path}/{SCHEMAS}/*.json") if path.rpartition("/")[2] != own]
        known = [StructType.fromJson(json.loads(folders.read_lines(path)[0])) for path in records]
        merged = reduce(lambda one, other: Comparison(self.output, one, other).schema, known) if known else rows
        found = Comparison(self.output, merged, rows)
        try:
            found.require(self.evolve, self._cannot)
        except InvalidRequest:
            if self._keys(folders) != [batch.key]:
                raise
            for path in records if own else ():
                folders.remove(path)
            return Comparison(self.output, rows, rows)
        return found

    def _cannot(self, change: Change) -> str | None:
        """Files that are there stay as they are, so readers see old and new ones together."""
        if self.format == "csv":
            return "Readers of CSV find columns by their position. Write to another folder."
        if change.old is not None and self.format != "json":
            return (
                "Readers fail where files have two types of a column. Write to another folder, or, if no file has the "
                f"old type, remove {self.path}/{SCHEMAS}."
            )
        return None

    def _record(self, folders: Folders, compared: Comparison, batch: SinkBatch) -> None:
        """Put the columns on record, and look again: another driver may do the same, and with other types.

        A record is never changed, and there is one of each content. So two that write the same do not disturb each
        other.
        """
        text = compared.schema.json()
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        record = f"{self.path}/{SCHEMAS}/{name}"
        if folders.exists(record):
            return
        draft = f"{record}.{secrets.token_hex(4)}"
        folders.write_lines(draft, [text])
        try:
            folders.move(draft, record)
        except OSError:
            folders.remove(draft)
            if not folders.exists(record):
                raise
        try:
            self._compared(folders, compared.schema, batch, name)
        except InvalidRequest:
            folders.remove(record)
            raise
        for change in compared.changes:
            say(self.output, change)

    def _stage(self, folders: Folders, keyed: DataFrame, batch: SinkBatch, new: str) -> None:
        """Write to the folders of the key and split below ``new``; to none where there are no rows."""
        rows = keyed if self.partition_by else keyed.drop(*OWN_COLUMNS)
        writer = rows.write.format(self.format).mode("error").options(**dict(self.options))
        # Its folders are this write's alone: nothing there could be overwritten, dynamically or not.
        writer = writer.option("partitionOverwriteMode", "static")
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        spark = keyed.sparkSession
        if self.partition_by:
            # Else Spark sorts all rows by these columns, though most tasks have rows of one folder alone.
            with with_settings(spark, {"spark.sql.maxConcurrentOutputFileWriters": "1"}):
                writer.partitionBy(*self.partition_by, *OWN_COLUMNS).save(new)
            return
        own = f"{new}/{self._own_folders(batch)}"  # written as one folder: Spark need not ask each row for its own
        writer.save(own)
        if len(folders.found(f"{own}/part-*")) == 1 and self._read(spark, new, [own], keyed.schema).isEmpty():
            folders.remove(own)

    def _unhide(self, folders: Folders, staged: str) -> None:
        """Escape a folder's name that readers of the whole output would leave out: they read the same value of it."""
        for depth, column in enumerate(self.partition_by):
            for folder in folders.found(f"{staged}/{'*/' * depth}{column}=*{HIDDEN_END}"):
                folders.move(folder, f"{folder[:-1]}%5F")

    def _finish_others(self, folders: Folders, own: str, batch: SinkBatch) -> None:
        """What earlier attempts at this split have left: a swap that was begun is ended, all else is dropped."""
        left = [folder for folder in folders.found(f"{own}*") if _attempt(folder) < batch.attempt]
        if left:
            batch.look(self.output)
        for staging in sorted(left, key=_attempt):
            if folders.exists(f"{staging}/{JOURNAL}"):
                self._swap(folders, staging, batch)
            else:
                folders.remove(staging)

    def _swap(self, folders: Folders, staging: str, batch: SinkBatch) -> None:
        """Put the new folders in their place, and the old ones away. It may have been begun already.

        Where a rename is a copy, a swap that was killed may have left a part of a folder at both ends. So what lies in
        a place is put away to a name that nobody has begun to fill, and the new folder is moved whole.
        """
        new, old = folders.read_lines(f"{staging}/{JOURNAL}"), f"{staging}/old/{secrets.token_hex(4)}"
        for place in new:
            if folders.exists(f"{staging}/new/{place}"):
                if folders.exists(f"{self.path}/{place}"):
                    folders.move(f"{self.path}/{place}", f"{old}/{place}")
                folders.move(f"{staging}/new/{place}", f"{self.path}/{place}")
            elif not folders.exists(f"{self.path}/{place}"):
                self._require_own_swap(folders, staging, batch)
                raise OSError(f"{staging}/new/{place} is gone, and not in its place. No other folder was changed.")
        for folder in folders.found(f"{self.path}/{self._own_folders(batch)}"):
            if (place := self._place(folder)) not in new:
                self._require_own_swap(folders, staging, batch)  # else it may be a newer attempt's folder
                folders.move(folder, f"{old}/{place}")
        folders.remove(staging)

    def _require_own_swap(self, folders: Folders, staging: str, batch: SinkBatch) -> None:
        if not folders.exists(f"{staging}/{JOURNAL}"):
            raise overtaken(batch, self.output, "a newer attempt, which has ended this swap,", wrote=True)

    def _place(self, folder: str) -> str:
        """The last names of a folder's path, from the first partition column on."""
        return "/".join(folder.split("/")[-len(self.partition_by) - 2 :])

    def _levels(self) -> str:
        return "".join(f"{column}=*/" for column in self.partition_by)

    def _own_folders(self, batch: SinkBatch) -> str:
        return f"{self._levels()}{BATCH_COLUMN}={batch.key}/{SPLIT_COLUMN}={batch.split}"


def files(
    path: str,
    format: str = "parquet",
    partition_by: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    evolve: Evolve = "fail",
) -> FilesSink:
    """Write to ``<path>/[<partition columns>/]kafka_batch=<key>/kafka_split=<k>``.

    :param path: a folder of its own on any file system of Hadoop's; object stores too, though a rename copies there. A
        write is refused where other rows lie, such as a streaming query's: readers would miss one of the two.
    :param format: ``parquet``, ``orc``, ``json``, ``csv``, or ``avro`` with its package.
    :param partition_by: columns whose values become folders above those of the key, such as a date. Each write lists
        these folders once or twice.
    :param options: of Spark's writer and reader of that format, such as ``compression``.
    :param evolve: ``fail`` refuses rows with a new column. ``add`` writes it; readers of Parquet and ORC find it with
        ``mergeSchema``. A column that the rows lack is null.
    :raises InvalidRequest: the path is relative, or has a wildcard or a password in it; or the format is none of files.
    """
    columns = names("partition_by", partition_by)
    problems = []
    if format.lower() not in FORMATS:
        problems.append(f"format is {format!r}; files can be {', '.join(FORMATS)}. For tables there are other sinks.")
    if own := [column for column in columns if column.lower() in OWN_COLUMNS]:
        problems.append(f"partition_by has {', '.join(own)}: the key's folders come by themselves, below the others.")
    if odd := [column for column in columns if not re.fullmatch(r"[\w .-]+", column) or column.startswith(HIDDEN)]:
        problems.append(
            f"partition_by has {odd}; a column whose values become folders has a plain name, which begins with no '_' "
            "or '.': readers leave out such folders."
        )
    refuse(problems)
    check_evolve(evolve)
    path_output(path)
    return FilesSink(path.rstrip("/") or "/", format.lower(), columns, options_of(options, OWN_OPTIONS), evolve)


def _is_table(folders: Folders, path: str) -> bool:
    """Whether a table is seen there: whoever writes may have no right to look outside of the own folder."""
    from py4j.protocol import Py4JJavaError

    try:
        return any(folders.found(f"{path}/{table}") for table in _TABLES)
    except Py4JJavaError:
        return False


def _attempt(staging: str) -> int:
    return int(staging.rpartition("--")[2].partition("-")[0])
