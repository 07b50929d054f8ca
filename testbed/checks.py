"""The truth, from the output files and from Kafka itself, without the package under test."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.dataset as ds
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from testbed.topics import Topics


def parquet_files(output: Path) -> Iterator[Path]:
    """The files that a reader of the base folder sees: not what a job that has not ended has staged."""
    for file in sorted(output.rglob("*.parquet")):
        if not any(part.startswith(("_", ".")) for part in file.relative_to(output).parts):
            yield file


def _batch_of(file: Path) -> str:
    return next(part.removeprefix("kafka_batch=") for part in file.parts if part.startswith("kafka_batch="))


def rows_by_batch(output: Path) -> dict[str, int]:
    """How many rows there are under each `kafka_batch=…`."""
    rows: Counter[str] = Counter()
    for file in parquet_files(output):
        rows[_batch_of(file)] += ds.dataset(file).count_rows()
    return dict(rows)


def rows_of_delta(table: Path) -> list[dict[str, Any]]:
    """What a reader of the Delta table sees, by its log: the rows of the files that were added and not removed."""
    files: dict[str, dict[str, Any]] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "add" in action:
                files[action["add"]["path"]] = action["add"]["partitionValues"]
            files.pop(action.get("remove", {}).get("path"), None)
    return [
        {**row, **values}
        for path, values in files.items()
        for row in ds.dataset(table / unquote(path), format="parquet").to_table().to_pylist()
    ]


def values_of(output: Path) -> list[int]:
    """The values of all rows, which are numbers, sorted."""
    return sorted(
        int(value)
        for file in parquet_files(output)
        for value in ds.dataset(file).to_table(columns=["value"])["value"].to_pylist()
    )


def files_of_newest_batch(output: Path) -> int:
    """How many files Spark's tasks wrote for the batch with the highest number."""
    batches = [_batch_of(file) for file in parquet_files(output)]
    return batches.count(max(batches, default=""))


def duplicated_or_missing(output: Path, produced: int) -> tuple[int, int]:
    """Of the records 0 … produced-1, known by their values: how many are missing, and how many rows are too many."""
    numbers = values_of(output)
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
