"""Spark's part of a batch without Spark, for tests whose subject is what Airflow does around it.

It reads just the ranges of its split with a consumer, writes the values to ``<output>/kafka_batch=<key>/<split>.json``,
and puts attempts and reports on record as a Spark driver does. Where rows are decoded, a value that is no number counts
as set aside.
"""

import json
import os
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.pipeline_log import read_plan
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.plan.job_arguments import parse_job_arguments
from airflow_kafka_offsets.stores.open import open_store


def read_split(arguments: list[str]) -> None:
    """Plan → consumer → file → report; the output is the one that the plan names."""
    job = parse_job_arguments(arguments)
    store = open_store(job.store_uri)
    planned = read_plan(store, job.plan_object)
    assert planned is not None, job.plan_object
    plan = planned.plan
    assert (plan.plan_id, plan.batch is None, plan.asked.output is None) == (job.plan_id, False, False)
    attempt = begin(store, job.plan_object, plan, job.split, plan.asked.output)
    attempt.look()
    consumer = Consumer({"bootstrap.servers": job.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False})
    values: list[str] = []
    reads: dict[TopicPartition, PartitionRead] = {}
    try:
        for p in plan.splits[job.split]:
            tp = p.topic_partition
            consumer.assign([KafkaTopicPartition(tp.topic, tp.partition, p.start_offset)])
            offsets: list[int] = []
            bad = 0
            while not offsets or offsets[-1] < p.end_offset - 1:
                message = consumer.poll(30)
                assert message is not None, f"{tp} ends before {p.end_offset}"
                assert message.error() is None, message.error()
                offsets.append(message.offset())
                values.append(message.value().decode())
                bad += job.rows is not None and not values[-1].isdecimal()
            reads[tp] = PartitionRead(len(offsets), len(set(offsets)), offsets[0], offsets[-1], set_aside=bad)
    finally:
        consumer.close()
    attempt.look()
    file = Path(str(plan.asked.output)) / f"kafka_batch={plan.batch.key if plan.batch else ''}" / f"{job.split}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = file.with_suffix(".tmp")
    whole.write_text(json.dumps(values))
    os.replace(whole, file)
    attempt.report(ReadReport(plan.plan_id, job.split, attempt.number, "rows", reads, plan.asked.output, rows=job.rows))


def read_ranges(path: str, assign: str, starting_offsets: str, ending_offsets: str) -> None:
    """A job that knows of no batch: it reads what three options of Spark's source say, and writes one file."""
    starts, ends = json.loads(starting_offsets), json.loads(ending_offsets)
    servers = json.loads(json.loads(os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"])["bootstrap.servers"]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    values: list[str] = []
    try:
        for topic, partitions in json.loads(assign).items():
            for partition in map(str, partitions):
                consumer.assign([KafkaTopicPartition(topic, int(partition), starts[topic][partition])])
                position = starts[topic][partition]
                while position < ends[topic][partition]:
                    message = consumer.poll(30)
                    assert message is not None, f"{topic}[{partition}] ends at {position}"
                    position = message.offset() + 1
                    values.append(message.value().decode())
    finally:
        consumer.close()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(values))


def rows_of(output: Path) -> dict[str, list[str]]:
    """What a reader of the whole base folder finds: the values under each batch's key, sorted."""
    return {
        folder.name.removeprefix("kafka_batch="): sorted(
            value for file in folder.glob("*.json") for value in json.loads(file.read_text())
        )
        for folder in sorted(output.glob("kafka_batch=*"))
    }


def all_rows(output: Path) -> list[str]:
    return sorted(value for values in rows_of(output).values() for value in values)
