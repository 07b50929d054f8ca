"""The contract of a sink, and what all sinks need to keep it.

A batch is written by its splits, each by a Spark driver of its own, and any of them may be done again: by a retry, by
another run, by a driver that was given up and wakes up late. So after ``sink(records, batch)`` the rows of that batch
key and split are exactly these records; if it raises, they are all old or all new; no other row is touched. The key's
columns are ``kafka_batch`` and ``kafka_split``. An output is never emptied first: the old rows have to stay where the
new ones cannot be read any more.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_kafka_offsets.errors import InvalidRequest, LateAttempt, refuse
from airflow_kafka_offsets.values.sql_text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_COLUMN = "kafka_batch"
SPLIT_COLUMN = "kafka_split"
OWN_COLUMNS = BATCH_COLUMN, SPLIT_COLUMN
HIDDEN = ("_", ".")
"""What names of files and folders begin with that readers leave out."""
DELETED = "kafka_deleted"
"""Of a table of entities: whether the newest record has deleted this one."""
NO_RECORDS = f"topic STRING, partition INT, offset BIGINT, {BATCH_COLUMN} STRING, {SPLIT_COLUMN} INT"

TRIES = 10
_KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")
_SAME_SCHEME = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}


class SinkBatch(Protocol):
    """Which rows are to be written, and by which attempt at them."""

    @property
    def key(self) -> str:
        """Of the batch: ``0000000007-20261122T022057-k3f9``, or of a window ``<from>--<to>-<pipeline>``."""

    @property
    def split(self) -> int: ...

    @property
    def attempt(self) -> int:
        """From 1, and higher with each attempt at this split of this batch."""

    @property
    def row_filter(self) -> str:
        """This key's and split's own rows, in SQL."""

    def look(self, output: str) -> None:
        """Raise if another attempt has taken this one's place; ``output`` changes next."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What a sink returns whose rows are not one a record, so that nothing can be read back.

    :ivar records: what it has merged into the rows that were there.
    """

    records: DataFrame


class Sink(Protocol):
    """Writes one split of one batch, as often as need be."""

    @property
    def output(self) -> str:
        """Names the output, the same for each way to write it down, and never with a password."""

    def __call__(self, records: DataFrame, batch: SinkBatch) -> DataFrame | Merged:
        """Write; the frame that reads back what the output holds now for this key and split.

        :raises LateAttempt: the output shows that a newer attempt has taken this one's place.
        """

    def keys(self, spark: SparkSession) -> list[str]:
        """The batch keys that the output holds, sorted; none where there is no output yet."""

    def written(self, spark: SparkSession, batch: SinkBatch) -> DataFrame | None:
        """What the output holds for this key and split; None for a sink whose rows are not one a record."""


def overtaken(batch: SinkBatch, output: str, by: str, wrote: bool = False) -> LateAttempt:
    """The error of a sink that finds a newer attempt's work in the output.

    :param by: what has been found.
    :param wrote: whether this attempt may have changed something.
    """
    return LateAttempt(f"Attempt {batch.attempt} at split {batch.split} of batch {batch.key}", by, output, wrote)


def check_batch(batch: SinkBatch) -> None:
    """The key becomes part of paths, of SQL and of names.

    :raises InvalidRequest: it is not one that this project makes.
    """
    if not _KEY.fullmatch(batch.key):
        raise InvalidRequest([f"{batch.key!r} is no batch key: letters, digits, '.', '_' and '-' only."])


def wait_for_others(tries: int) -> None:
    """Let writers that got in each other's way try again at different moments, and later each time."""
    time.sleep(random.uniform(0, 0.1 * 2**tries))


def write_among_others(write: Callable[[], object], in_the_way: Iterable[str]) -> None:
    """Write, and again while others commit in between. Each time anew: what was read for it does not hold any more.

    :param in_the_way: what the error of such a write has in it.
    """
    for tries in range(1, TRIES + 1):
        try:
            write()
            return
        except Exception as error:
            if tries == TRIES or not any(words in str(error) for words in in_the_way):
                raise
            wait_for_others(tries)


def with_key(records: DataFrame, batch: SinkBatch, *more: str) -> DataFrame:
    """The records with the key's columns, which come first.

    Delta keeps minimum and maximum of a table's first 32 columns only. Without those of the key's columns each write
    would look for its old rows in every file of the table.

    :param more: columns that the sink adds besides.
    :raises InvalidRequest: the records have a column of such a name already; Spark's names have no case. Or the key is
        none of this project's.
    """
    from pyspark.sql import functions as f

    check_batch(batch)
    taken = [name for name in records.columns if name.lower() in {*OWN_COLUMNS, *more}]
    if taken:
        raise InvalidRequest(
            [f"The records have the column {', '.join(taken)}, which is the sink's own to write. Rename or drop it."]
        )
    return records.select(f.lit(batch.key).alias(BATCH_COLUMN), f.lit(batch.split).alias(SPLIT_COLUMN), "*")


def no_records(spark: SparkSession) -> DataFrame:
    """What is read back where the output has nothing of a key and split."""
    return spark.createDataFrame([], NO_RECORDS)


def quoted_table(table: str) -> str:
    """``lake.db.orders`` as Spark's SQL takes it; parts that are quoted already stay so."""
    return ".".join(quoted(part) for part in table_parts(table))


def table_parts(table: str) -> list[str]:
    """:raises InvalidRequest: it is no name, so that what is left of it would be another table's."""
    if not re.fullmatch(r"(?:`[^`]+`|[^.`]+)(?:\.(?:`[^`]+`|[^.`]+))*", table):
        raise InvalidRequest([f"{table!r} is no table's name: give table, schema.table or catalog.schema.table."])
    return [part.strip("`") for part in re.findall(r"`[^`]+`|[^.`]+", table)]


def table_output(table_format: str, table: str) -> str:
    """The name of a table as an output. Spark looks tables up without regard to case, so the name has none."""
    return f"{table_format}:{'.'.join(table_parts(table)).lower()}"


def path_output(path: str) -> str:
    """The name of a folder as an output: one folder, one name.

    :raises InvalidRequest: it is relative (then it depends on who asks), or has a wildcard or a password in it.
    """
    scheme, slashes, rest = path.rpartition("://")
    if not slashes and (found := re.fullmatch(r"(\w+):(/[^/].*|/)", path)):  # Hadoop writes file:/x for file:///x
        scheme, rest = found[1], found[2]
    problems = []
    if not scheme and not rest.startswith("/"):
        problems.append(f"{path!r} is a relative path. Give a path from the root, or one with its file system.")
    if re.search(r"[*?\[\]{}\\]", path) or re.search(r"(^|/)\.\.?(/|$)", rest):
        problems.append(f"{path!r} has a wildcard, '.' or '..' in it; an output is one folder.")
    if scheme and ":" in rest.split("/", 1)[0].rpartition("@")[0]:
        problems = ["The path has a password in it. Configure the file system instead: paths are logged."]
    refuse(problems)
    folder = re.sub(r"/+", "/", rest).rstrip("/") or "/"
    if not scheme:
        return folder
    return f"{_SAME_SCHEME.get(scheme.lower(), scheme.lower())}://{folder}"


def names(what: str, given: Iterable[str]) -> tuple[str, ...]:
    """A tuple of names, from any collection but a string, which would be taken for its letters.

    :raises InvalidRequest: it is a string.
    """
    if isinstance(given, str):
        raise InvalidRequest([f"{what} is the string {given!r}; give a list: [{given!r}]."])
    return tuple(given)


def options_of(given: Mapping[str, object] | None, taken: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
    """Options as a value of a frozen one.

    :raises InvalidRequest: one of them is ``taken``: the sink sets it itself.
    """
    refused = {name.lower() for name in taken}
    problems = [
        f"Option {name} is this sink's own to set. Leave it out." for name in given or () if name.lower() in refused
    ]
    refuse(problems)
    return tuple(sorted((name, as_option(value)) for name, value in (given or {}).items()))


def as_option(value: object) -> str:
    """A value as Spark's options have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
