"""The truth, from the output files and from Kafka itself, without the package under test."""

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from testbed.topics import Topics


def _files(output: Path) -> list[Path]:
    """The Parquet files that a reader of the base folder sees: not what a job that has not ended has staged."""
    hidden = ("_", ".")
    return [
        file
        for file in sorted(output.rglob("*.parquet"))
        if not any(part.startswith(hidden) for part in file.relative_to(output).parts)
    ]


def _batch_of(file: Path) -> str:
    return next(part.removeprefix("kafka_batch=") for part in file.parts if part.startswith("kafka_batch="))


def rows_by_batch(output: Path) -> dict[str, int]:
    """How many rows there are under each `kafka_batch=…`."""
    rows: dict[str, int] = {}
    for file in _files(output):
        rows[_batch_of(file)] = rows.get(_batch_of(file), 0) + ds.dataset(str(file)).count_rows()
    return rows


def files_of_newest_batch(output: Path) -> int:
    """How many files Spark's tasks wrote for the batch with the highest number."""
    files = _files(output)
    newest = max(map(_batch_of, files), default="")
    return sum(_batch_of(file) == newest for file in files)


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
    """The batch of which one split was begun most often, and how often."""
    splits = work_store.glob("pipelines/*/batches/*/*/reads/*")
    begun = [(len(list(split.glob("*.begun.json"))), split.parent.parent.name) for split in splits]
    attempts, number = max(begun)
    return f"batch {int(number)}", attempts
