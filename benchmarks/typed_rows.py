"""Typed rows, beside the same job written by hand: JSON and Avro records into a table.

``python -m benchmarks.typed_rows`` (``make bench-read``): records in 10 partitions, into Delta and into Iceberg. By
hand: ``from_json`` or ``from_avro``, the same columns, the same filter, one write. It counts nothing, and what does not
decode becomes a row of nulls; once with our fetch settings, and once as people write it, with Kafka's own. Ours
decodes, writes, puts bad records into an output of their own, proves and reports.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from airflow_kafka_offsets.rows.config import Avro, BadRecords, Json, Rows
from airflow_kafka_offsets.spark.source import FETCHES
from benchmarks.measured import Way, options, say, show, take_turns, within
from benchmarks.spark_session import FORMATS, TASKS, Bench, started

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SCHEMA = "id BIGINT, amount DECIMAL(10,2), kind STRING, at TIMESTAMP, note STRING"
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
FIELDS = {"id": "long", "amount": DECIMAL, "kind": "string",
          "at": {"type": "long", "logicalType": "timestamp-micros"}, "note": "string"}  # fmt: skip
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in FIELDS.items()]})
NOTE, AT = "x" * 80, "2026-11-20T10:00:00Z"
PARTITIONS = 10


class Case(NamedTuple):
    """
    :ivar topic: which records; :ivar most: how many times as long as by hand with our fetch settings.
    :ivar most_as_written: how many times as long as people's own; ``None``: not compared.
    """

    name: str
    topic: str
    where: str | None
    most: float | None
    most_as_written: float | None = None


CASES = (
    Case("all good", "orders", None, 1.15, 0.88),
    Case("0.1 % bad", "orders-with-bad", None, 1.45),
    Case("half filtered", "orders", "value.id % 2 = 0", 1.15, 0.80),
    Case("Avro", "orders-avro", None, None),
)


def main() -> int:
    parser = options(__doc__, rounds=3)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--cases", nargs="+", default=[case.name for case in CASES])
    asked = parser.parse_args()
    cases, rows = [case for case in CASES if case.name in asked.cases], []
    with started() as bench:
        for topic in sorted({case.topic for case in cases}):
            bench.fill(topic, PARTITIONS, asked.records, VALUES[topic])
        for kind in FORMATS:
            for case in cases:
                say(f"{kind}: {case.name}")
                rows.append((f"{kind}: {case.name}", *measure(bench, kind, case, asked.rounds)))
    columns = (
        f"of {asked.records:,} records", "by hand, s", "ours, s", "times", "tasks' processor, times", "at most",
        "with Kafka's fetch settings, s", "times", "at most", "records/s a core", "MB/s a core",
    )  # fmt: skip
    sentence = (
        "Ours also finds text that is not UTF-8, keeps bad records and proves that each record is there once; with bad "
        "records it reads Kafka once more, and decodes little then."
    )
    show("typed_rows", "Typed rows beside a job by hand", columns, rows, sentence, "pyspark", write=asked.write)
    return 0


def measure(bench: Bench, kind: str, case: Case, rounds: int) -> tuple[str, ...]:
    def definition() -> Rows:
        value = Avro(AVRO) if case.name == "Avro" else Json(SCHEMA)
        return Rows(value=value, where=case.where, bad=BadRecords(bench.new_table(kind, "bad")))

    def hand(fetches: Mapping[str, str]) -> Callable[..., None]:
        return bench.by_hand(case.topic, kind, by_hand(case), fetches)

    same, ours = Way("by hand", hand(FETCHES)), Way("ours", bench.ours(case.topic, kind, definition))
    written = [Way("with Kafka's fetch settings", hand({}))] if case.most_as_written else []
    take_turns([same, *written, ours], rounds, pid=bench.pid)
    times, tasks = ours.times(same), ours.part_times(same, TASKS)
    beside = ("", "", "")
    if case.most_as_written:
        as_written = ours.times(written[0])
        beside = f"{written[0].median_s:.1f}", f"{as_written:.2f}", within(as_written, case.most_as_written)
    return (
        f"{same.median_s:.1f}", f"{ours.median_s:.1f}", f"{times:.2f}", f"{tasks:.2f}",
        "" if case.most is None else within(times, case.most), *beside, *bench.per_core(case.topic, ours.median_s),
    )  # fmt: skip


def order(number: int) -> bytes:
    about = {"id": number, "amount": number % 1000 + 0.25, "kind": "order", "at": AT, "note": NOTE}
    return json.dumps(about).encode()


def cut_off(number: int) -> bytes:
    return order(number)[: -5 if number % 1000 == 0 else None]


def avro(number: int) -> bytes:
    amount = (number % 1000 * 100 + 25).to_bytes(4, "big")
    return b"".join(
        (_long(number), _long(4), amount, _long(5), b"order", _long(1_795_255_200_000_000), _long(80), NOTE.encode())
    )


VALUES: Mapping[str, Callable[[int], bytes]] = {"orders": order, "orders-with-bad": cut_off, "orders-avro": avro}


def _long(value: int) -> bytes:
    """As Avro writes it: seven bits a byte, the lowest first."""
    value, written = value << 1, bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def by_hand(case: Case) -> Callable[[DataFrame], DataFrame]:
    def rows(records: DataFrame) -> DataFrame:
        decoded = records.select(_decoded(case).alias("value"), "topic", "partition", "offset")
        kept = decoded if case.where is None else decoded.where(case.where)
        return kept.select("value.*", "topic", "partition", "offset")

    return rows


def _decoded(case: Case) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    return from_avro("value", AVRO) if case.name == "Avro" else f.from_json(f.col("value").cast("string"), SCHEMA)


if __name__ == "__main__":
    sys.exit(main())
