"""The truth, from the output files and from Kafka itself, without the package under test."""

from pathlib import Path
from urllib.parse import unquote

import pyarrow.compute as pc
import pyarrow.dataset as ds
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from testbed.topics import Topics


def _files(output: Path) -> list[Path]:
    """The Parquet files that count: not what an unfinished job left in `_temporary`."""
    return [file for file in sorted(output.rglob("*.parquet")) if "_temporary" not in file.parts]


def _run_of(file: Path) -> str:
    return next(unquote(part.removeprefix("run=")) for part in file.parts if part.startswith("run="))


def rows_by_run(output: Path) -> dict[str, int]:
    """How many rows there are under each `run=…`."""
    rows: dict[str, int] = {}
    for file in _files(output):
        rows[_run_of(file)] = rows.get(_run_of(file), 0) + ds.dataset(str(file)).count_rows()
    return rows


def partition_files(output: Path, run_id: str) -> int:
    """How many files a run's Spark tasks wrote."""
    return sum(_run_of(file) == run_id for file in _files(output))


def duplicated_or_missing(output: Path, produced: int) -> tuple[int, int]:
    """Of the records 0 … produced-1, known by their values: how many are missing, and how many rows are too many."""
    files = [str(file) for file in _files(output)]
    values = ds.dataset(files).to_table(columns=["value"])["value"]
    numbers = pc.cast(pc.cast(values, "string"), "int64")
    distinct = set(pc.unique(numbers).to_pylist())
    return len(set(range(produced)) - distinct), len(numbers) - len(distinct)


def committed_offsets(kafka: Topics, group: str, topic: str) -> dict[int, int]:
    """What the group holds, by partition."""
    admin = kafka.admin()
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, n) for n in kafka.offset_bounds(topic)])
    answer = admin.list_consumer_group_offsets([asked])[group].result(30)
    return {tp.partition: tp.offset for tp in answer.topic_partitions if tp.error is None and tp.offset >= 0}


def most_attempts(work_store: Path) -> tuple[str, int]:
    """The plan of which one split was begun most often, and how often."""
    begun = [(len(list(split.glob("begun.*.json"))), split.parent.name) for split in work_store.glob("reads/*/*")]
    attempts, plan_id = max(begun)
    return plan_id, attempts
