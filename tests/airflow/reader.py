"""Spark's part of a batch without Spark, for tests whose subject is what Airflow does around it.

It is a job of another language, so to speak: it follows docs/job-contract.md with a consumer, and writes the values to
``<output>/kafka_batch=<key>/part.json``. It names its output as the packaged job names a Delta table there.
"""

import json
import os
import secrets
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from airflow_kafka_offsets.store.objects import create_object, read_object
from airflow_kafka_offsets.store.open import open_store

JOB = str(Path(__file__).parent / "jobs" / "reader_job.py")
SUBMIT = """#!/bin/sh
while [ "${1##*/}" != reader_job.py ]; do shift; done
exec %s "$@"
"""


def submitting(folder: Path, name: str = "spark-submit", path: str | None = None) -> dict[str, str]:
    """Variables with which a program of that name, in the folder, runs ``jobs/reader_job.py`` with Python.

    :param path: the rest of the PATH; by default this process's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(SUBMIT % sys.executable)
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{path or os.environ['PATH']}", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


def read_batch(arguments: list[str], output: str, *, is_reported: bool = True) -> None:
    """Plan → attempt → consumer → file → report."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=False))
    root, folder = given["--plan"].split("/batches/")
    store_uri, pipeline = root.rsplit("/", 1)
    store, batch = open_store(store_uri), f"{pipeline}/batches/{folder.rpartition('/')[0]}"
    plan = read_object(store, f"{pipeline}/batches/{folder}")
    ranges = read_object(store, f"{batch}/{plan['ranges']['name']}")
    begun = [name for name in store.list(batch) if name.endswith(".begun.json")]
    attempt = max([0, *(int(name.partition("-")[0]) for name in begun)]) + 1
    about = {"version": 1, "plan_id": plan["plan_id"], "job": None, "output": f"delta:{output}"}
    name = f"{batch}/{attempt}-{secrets.token_hex(4)}"
    assert create_object(store, f"{name}.begun.json", about)
    values: list[str] = []
    counts = {}
    for topic, columns in ranges["ranges"].items():
        read = {
            partition: consume(given["--bootstrap-servers"], topic, partition, start, end)
            for partition, start, end in zip(columns["partition"], columns["start"], columns["end"], strict=True)
            if start < end
        }
        values += [value for records in read.values() for value in records.values()]
        rows, nothing = [len(records) for records in read.values()], [0] * len(read)
        counts[topic] = {"partition": [*read], "rows": rows, "offsets": rows} | dict.fromkeys(
            ("bad", "filtered", "gaps"), nothing
        )
        counts[topic] |= {"first": [min(r) for r in read.values()], "last": [max(r) for r in read.values()]}
    write(Path(output) / f"kafka_batch={plan['key']}" / "part.json", values)
    if is_reported:
        assert create_object(store, f"{name}.report.json", {**about, "counts": counts})


def read_options(assign: str, starting_offsets: str, ending_offsets: str, key: str, output: str) -> None:
    """A job that knows of no batch: it reads what three options of Spark's source say."""
    extra = json.loads(json.loads(os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"])
    starts, ends = json.loads(starting_offsets), json.loads(ending_offsets)
    values: list[str] = []
    for topic, partitions in json.loads(assign).items():
        for number in partitions:
            bounds = starts[topic][str(number)], ends[topic][str(number)]
            values += consume(extra["bootstrap.servers"], topic, number, *bounds).values()
    write(Path(output) / f"kafka_batch={key}" / "part.json", values)


def consume(servers: str, topic: str, partition: int, start: int, end: int) -> dict[int, str]:
    """The values in ``[start, end)``, by offset."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    values: dict[int, str] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        while max([start - 1, *values]) < end - 1:
            message = consumer.poll(30)
            assert message is not None, f"{topic}-{partition} ends before {end}"
            assert message.error() is None, message.error()
            values[message.offset()] = message.value().decode()
    finally:
        consumer.close()
    return values


def write(file: Path, values: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = file.with_suffix(".tmp")
    whole.write_text(json.dumps(values))
    os.replace(whole, file)


def rows_of(output: Path) -> dict[str, list[int]]:
    """What a reader of the whole base folder finds: the values under each batch's key, sorted."""
    return {
        folder.name.removeprefix("kafka_batch="): sorted(
            int(value) for file in folder.glob("*.json") for value in json.loads(file.read_text())
        )
        for folder in sorted(output.glob("kafka_batch=*"))
    }
