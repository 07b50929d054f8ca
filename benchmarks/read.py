"""The packaged job with its proof, beside a plain read with the same fetch settings.

``python -m benchmarks.read`` (``make bench-read``): 10 million records of 200 bytes in 100 partitions, into a
Delta and into an Iceberg table. Both sides read the same ranges in one Spark session. Ours also looks at the checkpoint
location, writes under the batch's key, proves each offset by the table's own commit, and reports. The processor time of
Spark's tasks is shown, too: other processes disturb it less.
"""

from __future__ import annotations

import random
import sys

from benchmarks.measured import Way, options, show, take_turns, within
from benchmarks.spark_session import FORMATS, TASKS, started

TOPIC, VALUE_BYTES, MOST = "read", 200, 1.06


def main() -> int:
    parser = options(__doc__, rounds=3)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=100)
    asked = parser.parse_args()
    noise = random.Random(1).randbytes(1_000_000)

    def value(number: int) -> bytes:
        at = number * 7_919 % (len(noise) - VALUE_BYTES)
        return noise[at : at + VALUE_BYTES]

    rows = []
    for kind in FORMATS:
        with started() as bench:  # in a JVM of its own: its memory is not enough for one format behind the other
            bench.fill(TOPIC, asked.partitions, asked.records, value)
            plain = Way("plain read", bench.by_hand(TOPIC, kind, lambda records: records))
            ours = Way("with its proof", bench.ours(TOPIC, kind))
            take_turns([plain, ours], asked.rounds, pid=bench.pid)
            times, tasks = ours.times(plain), ours.part_times(plain, TASKS)
            seconds = f"{plain.median_s:.1f}", f"{ours.median_s:.1f}"
            per_core = bench.per_core(TOPIC, ours.median_s)
            rows.append((kind, *seconds, f"{times:.2f}", f"{tasks:.2f}", within(times, MOST), *per_core))
    what = f"{asked.records:,} records of {asked.partitions:,} partitions into"
    columns = (
        what, "plain, s", "with its proof, s", "times", "tasks' processor, times", "at most", "records/s a core",
        "MB/s a core",
    )  # fmt: skip
    sentence = (
        "The proof that each record is in the output once takes the difference: to observe, and to hash the plan."
    )
    show("read", "The read with its proof", columns, rows, sentence, "pyspark", write=asked.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
