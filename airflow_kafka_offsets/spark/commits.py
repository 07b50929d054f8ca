"""Which batches a merge takes, by the commits of the log.

The rows of an entity table say how far it is: the greatest ``kafka_batch`` is the newest batch that was merged, and so
were all before it that had rows. A merge takes the later ones, in order, up to the first that is not committed or is
being written again. Of the earlier ones it takes the batch of its own run, if that was committed more than once: it was
reprocessed, and only its own run knows. So no merge reads more of the log than what it merges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_offsets.spark.attempts import read_entries
from airflow_kafka_offsets.spark.errors import LateAttempt, OtherOutput
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.store import Store


@dataclass(frozen=True, slots=True)
class Committed:
    """A batch, as its entries say.

    :ivar pipeline: the folder of the pipeline.
    :ivar entry: the number of its last commit; 0: it has none.
    :ivar commits: how often it was committed.
    :ivar is_closed: whether its last entry is a commit, so that nobody writes it.
    :ivar output: where the last commit found its rows.
    """

    pipeline: str
    number: int
    key: str
    entry: int
    commits: int
    is_closed: bool
    output: str | None


def read_commits(store: Store, pipeline: str, number: int) -> Committed | None:
    """A batch of the log; ``None``: there is none of this number.

    :param pipeline: the folder of the pipeline.
    """
    folder = _folder(pipeline, number)
    entries = read_entries(store, folder, store.list(folder))
    if not entries:
        return None
    commits = {k: entry for k, entry in entries.items() if entry["entry"] == "commit"}
    last = max(commits, default=0)
    output = commits[last]["output"] if commits else None
    return Committed(pipeline, number, entries[1]["key"], last, len(commits), last == max(entries), output)


def read_again(store: Store, batch: Committed) -> Committed:
    """The batch as it is now; the same object if nothing was appended."""
    if store.get(f"{_folder(batch.pipeline, batch.number)}/{batch.entry + 1}.json") is None:
        return batch
    return read_commits(store, batch.pipeline, batch.number) or batch


def reached(store: Store, pipeline: str, merged: str | None, table: str) -> int:
    """The number of the newest batch that was merged; 0: none was.

    :param merged: the greatest ``kafka_batch`` in the entity table; ``None``: it has none.
    :param table: the entity table, as Spark's SQL takes it.
    :raises OtherOutput: the entity table has rows of another log.
    """
    number = _number(merged or "")
    if merged is not None and ((batch := read_commits(store, pipeline, number)) is None or batch.key != merged):
        raise OtherOutput(
            f"Cannot merge into {table}",
            f"It has rows of batch {merged}, and this log has no such batch",
            f"If all that this log has is newer: UPDATE {table} SET {BATCH_COLUMN} = NULL, `partition` = NULL",
        )
    return number


def unmerged(
    store: Store, pipeline: str, own: int, reached: int, written: Iterable[str], output: str
) -> list[Committed]:
    """The batches to merge, in order.

    :param own: the number of the batch of this run.
    :param reached: as :func:`reached` says.
    :param written: the keys of later batches in the log table, and perhaps of batches of another log.
    :param output: the log table.
    :raises OtherOutput: a batch up to this run's is in another table.
    :raises LateAttempt: a batch up to this run's is being written again.
    """
    mine = read_commits(store, pipeline, own)
    taken = [mine] if mine is not None and own <= reached and mine.commits > 1 else []
    for batch in [*taken, *_in_order(store, pipeline, written)]:
        if not batch.is_closed or batch.output != output:
            if batch.number <= own:
                _refuse(batch, output)
            break
        if batch not in taken:
            taken.append(batch)
    return taken


def _in_order(store: Store, pipeline: str, keys: Iterable[str]) -> Iterable[Committed]:
    for key in sorted(keys):
        batch = read_commits(store, pipeline, _number(key))
        if batch is not None and batch.key == key:
            yield batch


def _refuse(batch: Committed, output: str) -> None:
    what = f"Cannot merge batch {batch.number}"
    if not batch.is_closed:
        raise LateAttempt(what, "Its run is writing it again", "Let that run end, or clear it; then retry this task")
    cause = f"Its rows are in {batch.output}, and this run's sink is {output}"
    raise OtherOutput(what, cause, "Retry the merge task of the run that committed it; then this one")


def _folder(pipeline: str, number: int) -> str:
    return f"{pipeline}/batches/{number // 100:08}/{number:010}"


def _number(key: str) -> int:
    return int(key[:10]) if key[:10].isdecimal() else 0
