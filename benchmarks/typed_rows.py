"""Typed rows, beside the same job written by hand with the same fetch settings: JSON records into a table.

``python -m benchmarks.typed_rows`` (``make bench-read``): 5 million records in 10 partitions, into Delta and into
Iceberg. By hand: ``from_json``, the same columns, the same filter, one write. It counts nothing, and what does not
decode becomes a row of nulls. Ours decodes, writes, puts bad records into an output of their own, reads back, counts
and reports.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_kafka_offsets.rows.config import BadRecords, Json, Rows
from benchmarks.measured import Way, options, say, show, take_turns, within
from benchmarks.spark_session import FORMATS, Bench, started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "id BIGINT, amount DECIMAL(10,2), kind STRING, at TIMESTAMP, note STRING"
PARTITIONS = 10
GOOD, WITH_BAD = "orders", "orders-with-bad"
CASES = (
    ("all good", GOOD, None, 1.10),
    ("0.1 % bad", WITH_BAD, None, 1.7),
    ("half filtered", GOOD, "value.id % 2 = 0", 1.2),
)


def main() -> int:
    parser = options(__doc__, rounds=5)
    parser.add_argument("--records", type=int, default=5_000_000)
    asked = parser.parse_args()
    rows = []
    with started() as bench:
        bench.fill(GOOD, PARTITIONS, asked.records, lambda _, number: order(number))
        bench.fill(
            WITH_BAD, PARTITIONS, asked.records, lambda _, number: order(number)[: -5 if number % 1000 == 0 else None]
        )
        for kind, (name, topic, where, most) in itertools.product(FORMATS, CASES):
            say(f"{kind}: {name}")
            by_hand, ours = ways(bench, topic, kind, where)
            take_turns([by_hand, ours], asked.rounds, pid=bench.pid)
            times, processor = ours.times(by_hand), ours.processor_times(by_hand)
            seconds = f"{by_hand.median_s:.1f}", f"{ours.median_s:.1f}"
            rows.append((f"{kind}: {name}", *seconds, f"{times:.2f}", f"{processor:.2f}", within(times, most)))
    columns = (f"of {asked.records:,} records", "by hand, s", "ours, s", "times", "processor, times", "at most")
    sentence = (
        "Ours also finds text that is not UTF-8, and reads its output back; with bad records it reads Kafka once more, "
        "and decodes little then."
    )
    show("typed_rows", "Typed rows beside a job by hand", columns, rows, sentence, "pyspark", write=asked.write)
    return 0


def order(number: int) -> bytes:
    about = {"id": number, "amount": number % 1000 + 0.25, "kind": "order", "at": "2026-11-20T10:00:00Z"}
    return json.dumps({**about, "note": "x" * 80}).encode()


def ways(bench: Bench, topic: str, kind: str, where: str | None) -> tuple[Way, Way]:
    def definition() -> Rows:
        return Rows(value=Json(SCHEMA), where=where, bad=BadRecords(bench.new_table(kind, "bad")))

    ours = Way("ours", bench.ours(topic, kind, definition))
    return Way("by hand", bench.by_hand(topic, kind, by_hand(where))), ours


def by_hand(where: str | None) -> Callable[[DataFrame], DataFrame]:
    def rows(records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        value = f.from_json(f.col("value").cast("string"), SCHEMA).alias("value")
        decoded = records.select(value, "topic", "partition", "offset")
        kept = decoded if where is None else decoded.where(where)
        return kept.select("value.*", "topic", "partition", "offset")

    return rows


if __name__ == "__main__":
    sys.exit(main())
