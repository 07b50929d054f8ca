"""The truth, from the output files and from Kafka itself, without the package under test.

An output is a folder, or `s3a://…` on the server that the environment names.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fsspec
import pyarrow.compute as pc
import pyarrow.dataset as ds
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from testbed.topics import Topics

Place = Path | str


def names_below(place: Place) -> tuple[Any, list[str]]:
    """The file system, and the path of every file below `place`, sorted."""
    server = os.environ.get("AWS_ENDPOINT_URL")
    # fsspec gives the same file system for the same arguments, even if the environment names another server by now.
    address = {"endpoint_url": server} if server and str(place).startswith("s3") else {}
    system, root = fsspec.core.url_to_fs(str(place), **address)
    system.invalidate_cache()
    return system, sorted(system.find(root))


def _files(output: Place) -> tuple[Any, list[str]]:
    """The Parquet files that a reader of the base folder sees: not what a job that has not ended has staged."""
    system, names = names_below(output)
    root = system._strip_protocol(str(output))
    hidden = ("_", ".")
    return system, [
        name
        for name in names
        if name.endswith(".parquet") and not any(p.startswith(hidden) for p in name.removeprefix(root).split("/"))
    ]


def _batch_of(file: str) -> str:
    return next(part.removeprefix("kafka_batch=") for part in file.split("/") if part.startswith("kafka_batch="))


def rows_by_batch(output: Place) -> dict[str, int]:
    """How many rows there are under each `kafka_batch=…`."""
    rows: Counter[str] = Counter()
    system, files = _files(output)
    for file in files:
        rows[_batch_of(file)] += ds.dataset(file, filesystem=system).count_rows()
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


def files_of_newest_batch(output: Place) -> int:
    """How many files Spark's tasks wrote for the batch with the highest number."""
    _, files = _files(output)
    newest = max(map(_batch_of, files), default="")
    return sum(_batch_of(file) == newest for file in files)


def duplicated_or_missing(output: Place, produced: int) -> tuple[int, int]:
    """Of the records 0 … produced-1, known by their values: how many are missing, and how many rows are too many."""
    system, files = _files(output)
    values = ds.dataset(files, filesystem=system).to_table(columns=["value"])["value"]
    numbers = pc.cast(pc.cast(values, "string"), "int64")
    distinct = set(pc.unique(numbers).to_pylist())
    return len(set(range(produced)) - distinct), len(numbers) - len(distinct)


def committed_offsets(kafka: Topics, group: str, topic: str) -> dict[int, int]:
    """What the group holds, by partition."""
    admin = kafka.admin()
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, n) for n in kafka.offset_bounds(topic)])
    answer = admin.list_consumer_group_offsets([asked])[group].result(30)
    return {tp.partition: tp.offset for tp in answer.topic_partitions if tp.error is None and tp.offset >= 0}


def most_attempts(work_store: Place) -> tuple[str, int]:
    """The batch of which one split was begun most often, and how often."""
    _, names = names_below(work_store)
    # …/<batch>/<split>-<attempt>-<random>.begun.json
    splits = (name.rpartition("-")[0].rpartition("-")[0] for name in names if name.endswith(".begun.json"))
    split, attempts = Counter(splits).most_common(1)[0]
    return f"batch {int(split.split('/')[-2])}", attempts
