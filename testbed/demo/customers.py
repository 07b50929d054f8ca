"""Part 3: changes of customers, as Debezium sends them, into an entity table; each run is one task."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.checks import rows_of_delta
from testbed.dag_runs import RunResult
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
        self.rows: list[Row] = [("run", "changes produced", "rows of all changes", "customers")]
        self.current: dict[int, str] = {}
        self.tasks: set[str] = set()
        self.produced = 0

    def run(self) -> None:
        step(f"Topic {self.topic}: changes of customers")
        self.kafka.create_topic(self.topic, PARTITIONS)
        self._produce(range(CUSTOMERS), "Lyon")
        first = self._run(f"9: {CUSTOMERS:,} customers")
        self._produce(MOVED, "Porto")
        self._produce(DELETED, None)
        self._produce(TOMBSTONES, None, tombstone=True)
        self._produce(BACK, "Turin")
        self._produce(NEW, "Lyon")
        self._run("10: some move, some are deleted")
        self.airflow.clear("9", "entity_tables", first.run_id, "customers")
        self._count("9, cleared: written and merged again")

    def claims(self) -> list[Claim]:
        found = {row["id"]: row["city"] for row in rows_of_delta(self.tables / "current")}
        changes = len(rows_of_delta(self.tables / "changes"))
        in_one = "each run was one task: resolve, Spark, commit and merge"
        as_rows = f"{len(self.current):,} customers are one row each, with the newest city; deleted ones have none"
        return [
            (in_one, self.tasks == {"customers"}, f"there were {self.tasks}"),
            (as_rows, found == self.current, f"{len(found):,} rows, or an older city"),
            (f"the other table has all {self.produced:,} changes", changes == self.produced, f"it has {changes:,}"),
        ]

    def _produce(self, customers: range, city: str | None, *, tombstone: bool = False) -> None:
        """Change these customers.

        :param city: their city; None: they are deleted.
        :param tombstone: by a record without a value, instead of one that says so.
        """
        records = []
        for key in customers:
            event = {"op": "u" if city else "d", "after": {"id": key, "name": "Ann", "city": city} if city else None}
            value = None if tombstone else json.dumps(event).encode()
            records.append((key % PARTITIONS, json.dumps({"id": key}), value, None))
            if city:
                self.current[key] = city
            else:
                self.current.pop(key, None)
        self.kafka.produce(self.topic, records)
        self.produced += len(records)

    def _run(self, title: str) -> RunResult:
        result = self.airflow.run(title, "entity_tables")
        self.tasks |= {task.task_id for task in result.tasks}
        self._count(title)
        return result

    def _count(self, title: str) -> None:
        counts = (self.produced, *(len(rows_of_delta(self.tables / name)) for name in ("changes", "current")))
        self.rows.append((title, *(f"{count:,}" for count in counts)))
