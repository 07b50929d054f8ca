"""Typed rows against the same job written by hand in PySpark: JSON records → Parquet.

    python -m benchmarks.typed_rows --records 5000000 --rounds 3

By hand: Spark's Kafka source, ``from_json``, the same columns, one write. It counts nothing, and what does not decode
becomes a row of nulls. Ours decodes, writes, counts what was written, and sets bad records aside. The cases: all
records good; one in a thousand bad; and all good with a ``where`` that leaves out half, which the job by hand has, too.
With a star the job by hand has the settings for fetches that `read_batch` sets without being asked.

Both sides run in one Spark session, in turn. The ratio is the median of the rounds' ratios, by the clock and by the
processor time of Spark's process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from airflow_kafka_offsets.plan.plan_json import spark_options
from airflow_kafka_offsets.spark import for_each_batch
from airflow_kafka_offsets.spark.kafka_source import FETCHES
from airflow_kafka_offsets.spark.row_sink import RowSink
from airflow_kafka_offsets.stores.objects import create_object
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition
from benchmarks.measured import say
from benchmarks.read import Bench, Run, bench
from tests.spark.conftest import require_read

SCHEMA = "id BIGINT, amount DECIMAL(10,2), kind STRING, at TIMESTAMP, note STRING"
HALF = "value.id % 2 = 0"
PARTITIONS = 10


@dataclass(frozen=True)
class Case:
    name: str
    bad_in: int | None
    where: str | None
    limit: float | None
    options: Mapping[str, str] = field(default_factory=dict)


CASES = (
    Case("all good", None, None, 1.10),
    Case("all good*", None, None, 1.10, FETCHES),
    Case("0.1 % bad*", 1_000, None, 2.0, FETCHES),
    Case("half left out*", None, HALF, None, FETCHES),
)


class TypedBench:
    """:param bench: the session, the broker and the folder."""

    def __init__(self, bench: Bench, records: int) -> None:
        self.bench, self.records = bench, records
        self.output = f"{bench.folder}/typed"
        self.ranges = dict.fromkeys(range(PARTITIONS), (0, records // PARTITIONS))

    def by_hand(self, case: Case) -> Run:
        from pyspark.sql import functions as f

        planned = self._planned(case)
        with self.bench._run() as run:
            reader = self.bench.spark.read.format("kafka").options(
                **spark_options(planned.log.plan.partitions), **case.options
            )
            records = reader.option("kafka.bootstrap.servers", self.bench.broker.bootstrap_servers).load()
            value = f.from_json(f.col("value").cast("string"), SCHEMA).alias("value")
            rows = records.select(value, "topic", "partition", "offset")
            rows = rows if case.where is None else rows.where(case.where)
            columns = ("value.*", "topic", "partition", "offset")
            rows.select(*columns).write.mode("overwrite").parquet(f"{self.output}/by_hand")
        return run

    def ours(self, case: Case) -> Run:
        planned = self._planned(case)
        definition = RowDefinition(value=FieldFormat("json", SCHEMA), where=case.where)
        create_object(self.bench.plans.store, definition.object_name, definition.to_dict())
        arguments = [*self.bench.plans.arguments(planned), "--rows", definition.digest]
        bad = {"format": "parquet", "path": f"{self.output}/bad", "limit": "100%"}
        to = RowSink({"format": "parquet", "path": f"{self.output}/ours"}, definition, bad)
        with self.bench._run() as run:
            for_each_batch(self.bench.spark, to, arguments)
        require_read(planned)
        return run

    def row(self, case: Case, rounds: int) -> str:
        self._fill(case)
        hand, ours = [], []
        for number in range(rounds):
            sides = [(self.by_hand, hand), (self.ours, ours)]
            for side, runs in sides[:: -1 if number % 2 else 1]:
                runs.append(side(case))
                say(f"{case.name} {side.__name__}: {runs[-1].seconds:.1f} s")
        ratio = statistics.median(mine.seconds / its.seconds for its, mine in zip(hand, ours, strict=True))
        processor = statistics.median(mine.processor / its.processor for its, mine in zip(hand, ours, strict=True))
        limit = "" if case.limit is None else f"{case.limit:.2f}: {'holds' if ratio <= case.limit else 'DOES NOT HOLD'}"
        return (
            f"| {case.name} | {self.records:,} | {rounds} | {statistics.median(r.seconds for r in hand):.1f} | "
            f"{statistics.median(r.seconds for r in ours):.1f} | {ratio:.2f} | {processor:.2f} | {limit} |"
        )

    def _planned(self, case: Case) -> object:
        return self.bench.plans.batch({(_topic(case), number): ends for number, ends in self.ranges.items()})

    def _fill(self, case: Case) -> None:
        broker, topic = self.bench.broker, _topic(case)
        if topic in broker.admin().list_topics(timeout=60).topics:
            return
        broker.create_topic(topic, PARTITIONS)
        began, each = time.perf_counter(), self.records // PARTITIONS
        settings = {"linger.ms": 50, "batch.size": 1_000_000, "queue.buffering.max.messages": 2_000_000, "acks": "1"}
        producer = Producer({**broker.client_config, **settings})
        note = "x" * 80
        for number in range(self.records):
            about = {"id": number, "amount": number % 1000 + 0.25, "kind": "order", "at": "2026-11-20T10:00:00Z"}
            value = json.dumps({**about, "note": note}).encode()
            if case.bad_in is not None and number % case.bad_in == 0:
                value = value[:-5]
            producer.produce(topic, value=value, partition=number // each)
            if number % 10_000 == 0:
                producer.poll(0)
                if len(producer) > 500_000:
                    producer.flush(60)
        if producer.flush(300):
            raise RuntimeError(f"{topic} was not filled")
        say(f"{self.records:,} records written in {time.perf_counter() - began:.0f} s")


def _topic(case: Case) -> str:
    return "bad-orders" if case.bad_in is not None else "orders"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, help="the broker's folder, which stays for another run")
    asked = parser.parse_args()
    print("| case | records | rounds | by hand, s | ours, s | ratio | processor | limit |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    with bench(asked.data) as running:
        typed = TypedBench(running, asked.records)
        for side in (typed.by_hand, typed.ours):  # classes are loaded, and Java has compiled what both need
            typed._fill(CASES[0])
            side(CASES[0])
        for case in CASES:
            print(typed.row(case, asked.rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
