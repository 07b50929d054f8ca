"""A merge into an entity table, beside the MERGE that one writes by hand in ``foreachBatch``.

``python -m benchmarks.merges``: batches of 1 million changes over 200,000 keys, a tenth of them deletes, into Delta and
into Iceberg. By hand: the newest row of each key of the batch, and one MERGE. It keeps no receipt, does not see that a
batch was written again, and knows no placeholder. Both read the same batch of the same log table.
"""

from __future__ import annotations

import sys
from functools import partial

from benchmarks.measured import Run, Way, options, show, take_turns, within
from benchmarks.spark_session import FORMATS, TASKS, Bench, started
from tests.spark.merge.logs import UNKNOWN, Log

MOST = 2.0
OPTIONS = {"as it comes": None, "with placeholders": UNKNOWN}


def main() -> int:
    parser = options(__doc__, rounds=5)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=200_000)
    asked = parser.parse_args()
    rows = []
    for kind in FORMATS:
        with started() as bench:  # in a JVM of its own: its memory is not enough for one format behind the other
            for number, (name, placeholder) in enumerate(OPTIONS.items()):
                log = Log(bench.spark, bench.folder / f"log_{number}", kind.lower(), placeholder=placeholder)
                if placeholder is None:
                    log.truncate_when = None
                by_hand, ours = ways(bench, log, asked.changes, asked.keys)
                take_turns([by_hand, ours], asked.rounds, before=partial(write, log, asked.changes, asked.keys))
                seconds = f"{by_hand.median_s:.1f}", f"{ours.median_s:.1f}"
                times, tasks = ours.times(by_hand), ours.part_times(by_hand, TASKS)
                rows.append((f"{kind}, {name}", *seconds, f"{times:.2f}", f"{tasks:.2f}", within(tasks, MOST)))
    what = f"{asked.changes:,} changes, {asked.keys:,} keys"
    columns = (what, "by hand, s", "ours, s", "times", "tasks' processor, times", "at most")
    sentence = (
        "Ours also looks into the histories of both tables, reads the batch's keys first, and of these keys, from the "
        "entity table, the place and what placeholders stand for."
    )
    show("merges", "A merge beside one by hand", columns, rows, sentence, "pyspark", write=asked.write)
    return 0


def write(log: Log, changes: int, keys: int) -> None:
    """The next batch, committed."""
    number = len(log.batches) + 1
    rows = log.spark.range(changes).selectExpr(
        "id AS offset",
        f"CAST(xxhash64(id, {number}) % {keys} AS STRING) AS id",
        "CASE WHEN id % 10 = 0 THEN 'd' ELSE 'u' END AS kafka_op",
        f"concat('name ', {number}, ' ', id) AS name",
        f"CASE WHEN id % 3 = 0 THEN '{UNKNOWN}' ELSE repeat(CAST(id AS STRING), 10) END AS doc",
        "id AS lsn",
        "0 AS partition",
        "'orders' AS topic",
    )
    log.commit(number, rows)


def ways(bench: Bench, log: Log, changes: int, keys: int) -> tuple[Way, Way]:
    spark, name = bench.spark, log.sink.name.replace("log", "by_hand")
    log.folder.mkdir(parents=True)
    write(log, changes, keys)
    log.merge()
    spark.sql(f"CREATE TABLE {name} USING {log.kind} AS SELECT * FROM {log.table.name}")

    def merge(run: Run) -> None:
        key = log.batches[len(log.batches)].key
        with bench.measured(run):
            batch = f"{log.sink.name} WHERE kafka_batch = '{key}'"
            newest = spark.sql(f"SELECT max_by(struct(*), offset) AS r FROM {batch} GROUP BY id").select("r.*")
            newest.createOrReplaceTempView("newest")
            spark.sql(
                f"MERGE INTO {name} AS t USING newest AS s ON t.id = s.id "
                "WHEN MATCHED AND s.kafka_op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET * "
                "WHEN NOT MATCHED AND s.kafka_op != 'd' THEN INSERT *"
            )

    def ours(run: Run) -> None:
        with bench.measured(run):
            merged = log.merge()
        assert len(merged) == 1, merged

    return Way("by hand", merge), Way("ours", ours)


if __name__ == "__main__":
    sys.exit(main())
