"""The truth, from the tables' files and from Kafka itself, without the package under test and without Spark."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.dataset as ds
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from testbed.topics import Topics


def files_of_delta(table: Path) -> dict[Path, dict[str, Any]]:
    """The data files that a reader of the table sees, by its log: those that were added and not removed.

    With each file the values of the columns that the table is partitioned by.
    """
    files: dict[str, dict[str, Any]] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "add" in action:
                files[action["add"]["path"]] = action["add"]["partitionValues"]
            files.pop(action.get("remove", {}).get("path"), None)
    return {table / unquote(path): values for path, values in files.items()}


def rows_of_delta(table: Path) -> list[dict[str, Any]]:
    """What a reader of the Delta table sees."""
    return [
        {**row, **values}
        for file, values in files_of_delta(table).items()
        for row in ds.dataset(file, format="parquet").to_table().to_pylist()
    ]


def column_of(table: Path, name: str) -> list[Any]:
    """The values of one column of a Delta table, of all its rows."""
    files = files_of_delta(table)
    return [value for file in files for value in ds.dataset(file).to_table(columns=[name])[name].to_pylist()]


def values_of(table: Path) -> list[int]:
    """The values of all rows, which are numbers, sorted."""
    return sorted(map(int, column_of(table, "value")))


def rows_by_batch(table: Path) -> dict[str, int]:
    """How many rows there are under each key of a batch."""
    return dict(Counter(column_of(table, "kafka_batch")))


def files_of_newest_batch(table: Path) -> int:
    """How many files Spark's tasks wrote for the batch with the highest number."""
    batches = [set(ds.dataset(file).to_table(columns=["kafka_batch"])["kafka_batch"].to_pylist())
               for file in files_of_delta(table)]  # fmt: skip
    return batches.count(max(batches, key=sorted, default=set()))


def duplicated_or_missing(table: Path, produced: int) -> tuple[int, int]:
    """Of the records 0 … produced-1, known by their values: how many are missing, and how many rows are too many."""
    numbers = values_of(table)
    return len(set(range(produced)) - set(numbers)), len(numbers) - len(set(numbers))


def committed_offsets(kafka: Topics, group: str, topic: str) -> dict[int, int]:
    """What the group holds, by partition."""
    admin = kafka.admin()
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, n) for n in kafka.offset_bounds(topic)])
    answer = admin.list_consumer_group_offsets([asked])[group].result(30)
    return {tp.partition: tp.offset for tp in answer.topic_partitions if tp.error is None and tp.offset >= 0}


def most_attempts(checkpoint_location: Path) -> tuple[str, int]:
    """The batch that was begun most often, and how often."""
    batches = Counter(file.parent.name for file in checkpoint_location.rglob("*.begun.json"))
    batch, attempts = batches.most_common(1)[0]
    return f"batch {int(batch)}", attempts
