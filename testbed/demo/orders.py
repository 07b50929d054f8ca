"""Part 2: JSON orders, corrupt ones among them, into a Delta table by day, which somebody rolls back."""

from __future__ import annotations

import json
from pathlib import Path

from deltalake import DeltaTable

from testbed.checks import rows_of_delta
from testbed.dag_runs import RunResult
from testbed.demo.airflow import DemoAirflow
from testbed.demo.shown import Claim, Row, step
from testbed.topics import Topics

PARTITIONS, FIRST, MORE, LATER = 3, 5_000, 2_000, 1_000
ONE_BAD_IN = 500
WITH_DISCOUNT = "id BIGINT, amount DECIMAL(10,2), at TIMESTAMP, discount DECIMAL(10,2)"


class Orders:
    def __init__(self, kafka: Topics, topic: str, table: Path, airflow: DemoAirflow) -> None:
        self.kafka, self.topic, self.table, self.airflow = kafka, topic, table, airflow
        self.rows: list[Row] = [("run", "produced", "rows of the table", "bad records", "columns")]
        self.produced: list[bytes] = []

    def run(self) -> None:
        step(f"Topic {self.topic}: orders as JSON, one in {ONE_BAD_IN} is corrupt")
        self.kafka.create_topic(self.topic, PARTITIONS)
        self._produce(FIRST)
        self._run("5: orders into a Delta table")
        before = DeltaTable(self.table).version()
        self._produce(MORE, discount="0.50")
        added = self._run("6: a column is added", WITH_DISCOUNT)
        step("  Somebody rolls the table back")
        DeltaTable(self.table).restore(before)
        self._produce(LATER)
        self._run("7: the table has lost rows", WITH_DISCOUNT, "failed")
        step("  Refused, and nothing was written. It names run 6's batch: that run is cleared")
        self.airflow.clear("6", "typed_orders", added.run_id, "orders")
        self._count("6, cleared: its rows are back")
        self._run("8: the batch that was refused", WITH_DISCOUNT)

    def claims(self) -> list[Claim]:
        rows, bad = rows_of_delta(self.table), self._bad()
        ids = sorted(row["id"] for row in rows)
        good = sorted(json.loads(value)["id"] for value in self.produced if value.startswith(b"{"))
        days = sorted({str(row["day"]) for row in rows})
        discounts = sum(row.get("discount") is not None for row in rows)
        with_discount = sum(b"discount" in value for value in self.produced)
        total = f"{len(ids):,} rows + {bad} bad records = {len(self.produced):,} produced"
        return [
            (total, len(ids) + bad == len(self.produced), "they are not"),
            ("each good order is one row of the table", ids == good, "some are missing, or there twice"),
            ("the table has a partition for each of two days", len(days) == 2, f"its days are {days}"),
            (
                f"{with_discount:,} rows have a value in the new column",
                discounts == with_discount,
                f"{discounts:,} have",
            ),
        ]

    def _produce(self, count: int, **more: object) -> None:
        first = len(self.produced)
        values = [_order(first + number, more) for number in range(count)]
        self.produced += values
        self.kafka.produce_many(self.topic, count, partitions=PARTITIONS, value=lambda n: values[n])

    def _run(self, title: str, schema: str | None = None, state: str = "success") -> RunResult:
        result = self.airflow.run(title, "typed_orders", {"schema": schema} if schema else {}, state)
        self._count(title)
        return result

    def _count(self, title: str) -> None:
        rows = rows_of_delta(self.table)
        columns = ", ".join(dict.fromkeys(name for row in rows for name in row if not name.startswith("kafka")))
        self.rows.append((title, f"{len(self.produced):,}", f"{len(rows):,}", str(self._bad()), columns))

    def _bad(self) -> int:
        return len(rows_of_delta(Path(f"{self.table}_bad")))


def _order(number: int, more: dict[str, object]) -> bytes:
    if number % ONE_BAD_IN == ONE_BAD_IN - 1:
        return b"no json at all"
    at = f"2026-11-{20 + number % 2}T10:00:00Z"
    return json.dumps({"id": number, "amount": f"{1 + number % 90}.25", "at": at, **more}).encode()
