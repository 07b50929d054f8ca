"""Part 3: changes of customers into an entity table, deletes included."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.checks import rows_of_delta
from testbed.demo.airflow import DemoAirflow
from testbed.demo.shown import Claim, Row, step
from testbed.topics import Topics

PARTITIONS, CUSTOMERS = 3, 1_000
MOVED, DELETED, TOMBSTONES, BACK, NEW = (
    range(300),
    range(200, 400),
    range(400, 500),
    range(390, 410),
    range(1_000, 1_100),
)


class Customers:
    """:ivar current: the city of each customer who is not deleted, by id."""

    def __init__(self, kafka: Topics, topic: str, tables: Path, airflow: DemoAirflow) -> None:
        self.kafka, self.topic, self.tables, self.airflow = kafka, topic, tables, airflow
        self.rows: list[Row] = [("run", "changes produced", "rows of all changes", "customers", "deleted")]
        self.current: dict[str, str] = {}
        self.seen: set[str] = set()
        self.produced = 0

    def run(self) -> None:
        step(f"Topic {self.topic}: changes of customers")
        self.kafka.create_topic(self.topic, PARTITIONS)
        self._produce(range(CUSTOMERS), "Lyon")
        self._run(f"9: {CUSTOMERS:,} customers")
        self._produce(MOVED, "Porto")
        self._produce(DELETED, None)
        self._produce(TOMBSTONES, None, tombstone=True)
        self._produce(BACK, "Turin")
        self._produce(NEW, "Lyon")
        self._run("10: some move, some are deleted")

    def claims(self) -> list[Claim]:
        rows = rows_of_delta(self.tables / "current")
        found = sorted((row["id"], row["city"]) for row in rows if not row["kafka_deleted"])
        deleted = sorted(row["id"] for row in rows if row["kafka_deleted"])
        current, gone = sorted(self.current.items()), sorted(self.seen - set(self.current))
        changes = len(rows_of_delta(self.tables / "changes"))
        as_rows = f"{len(current):,} customers are one row each, with the newest city"
        return [
            (as_rows, found == current, f"{len(found):,} rows, or an older city"),
            (f"{len(gone):,} deleted customers are marked as deleted", deleted == gone, f"marked are {len(deleted):,}"),
            (f"the other table has all {self.produced:,} changes", changes == self.produced, f"it has {changes:,}"),
        ]

    def _produce(self, customers: range, city: str | None, *, tombstone: bool = False) -> None:
        """Change these customers.

        :param city: their city; None: they are deleted.
        :param tombstone: by a record without a value, instead of one that says so.
        """
        value = json.dumps({"op": "u" if city else "d", "name": "Ann", "city": city}).encode()
        keys = [str(number) for number in customers]
        change = None if tombstone else value
        self.kafka.produce(self.topic, [(int(key) % PARTITIONS, key, change, None) for key in keys])
        self.produced += len(keys)
        self.seen.update(keys)
        for key in keys:
            if city:
                self.current[key] = city
            else:
                self.current.pop(key, None)

    def _run(self, title: str) -> None:
        self.airflow.run(title, "entity_tables")
        rows = rows_of_delta(self.tables / "current")
        deleted = sum(row["kafka_deleted"] for row in rows)
        counts = (self.produced, len(rows_of_delta(self.tables / "changes")), len(rows) - deleted, deleted)
        self.rows.append((title, *(f"{count:,}" for count in counts)))
