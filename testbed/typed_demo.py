"""The second part of `make demo`: JSON orders, corrupt ones among them, into a Delta table by day.

What is said at the end is counted from the table's own log and files, from the folder of bad records, and from Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from testbed.checks import rows_by_batch, rows_of_delta
from testbed.dag_runs import RunResult
from testbed.topics import Topics

PARTITIONS, FIRST, MORE = 3, 5_000, 2_000
ONE_BAD_IN = 500
SCHEMA = "id BIGINT, amount DECIMAL(10,2), at TIMESTAMP"
WITH_DISCOUNT = f"{SCHEMA}, discount DECIMAL(10,2)"

Run = Callable[[str, dict[str, object]], RunResult]


class TypedOrders:
    """:param run: runs the DAG `kafka_typed_orders`; its first argument is the run's title."""

    def __init__(self, kafka: Topics, topic: str, table: Path, run: Run) -> None:
        self.kafka, self.topic, self.table, self._run = kafka, topic, table, run
        self.rows: list[tuple[str, ...]] = [("run", "produced", "rows of the table", "bad records", "columns")]
        self.produced: list[bytes] = []

    def run(self) -> None:
        self._produce(FIRST)
        self._row("8: JSON orders, one in 500 is corrupt", {})
        self._produce(MORE, discount="0.50")
        self._row("9: the orders have a discount", {"schema": WITH_DISCOUNT})

    def wrong(self) -> dict[str, str]:
        """For each claim what speaks against it; empty where it holds."""
        ids = sorted(row["id"] for row in rows_of_delta(self.table))
        good = sorted(json.loads(value)["id"] for value in self.produced if value.startswith(b"{"))
        bad, days = self._bad(), {str(row["day"]) for row in rows_of_delta(self.table)}
        discounts = sum(row.get("discount") is not None for row in rows_of_delta(self.table))
        with_discount = sum(b"discount" in value for value in self.produced)
        return {
            f"{len(ids):,} rows + {bad} bad records = {len(self.produced):,} produced": (
                "" if len(ids) + bad == len(self.produced) else "they are not"
            ),
            "each good order is one row of the table": "" if ids == good else "some are missing, or there twice",
            "the table has a partition for each day": "" if len(days) == 2 else f"its days are {sorted(days)}",
            "the new column has its values": "" if discounts == with_discount else f"{discounts} of {with_discount}",
        }

    def _produce(self, count: int, **more: object) -> None:
        first = len(self.produced)
        values = [_order(first + number, more) for number in range(count)]
        self.produced += values
        self.kafka.produce_many(self.topic, count, partitions=PARTITIONS, value=lambda n: values[n])

    def _row(self, title: str, conf: dict[str, object]) -> None:
        self._run(title, conf)
        rows = rows_of_delta(self.table)
        columns = ", ".join(name for row in rows[-1:] for name in row if not name.startswith("kafka"))
        self.rows.append((title, f"{len(self.produced):,}", f"{len(rows):,}", str(self._bad()), columns))

    def _bad(self) -> int:
        return sum(rows_by_batch(Path(f"{self.table}_bad")).values())


def _order(number: int, more: dict[str, object]) -> bytes:
    if number % ONE_BAD_IN == ONE_BAD_IN - 1:
        return b"no json at all"
    at = f"2026-11-{20 + number % 2}T10:00:00Z"
    return json.dumps({"id": number, "amount": f"{1 + number % 90}.25", "at": at, **more}).encode()
