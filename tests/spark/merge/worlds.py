"""Random worlds: a database whose changes Debezium sends, batches by good and bad code, and merges.

Events are `c`, `u`, `r`, `d`, `t` and tombstones, also alone, with placeholders, sent twice, and keys that change
partitions. Batches are written, left half written, written again, committed late. Merges run at once, one inside of
another; the log table is compacted; the entity table is restored, or dropped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from airflow_kafka_offsets.spark.errors import LateAttempt
from tests.spark.merge.logs import UNKNOWN, Log
from tests.spark.merge.scenes import stalled

Event = tuple[int | None, str | None, str | None, str | None, str | None]
"""Position, key, operation, name and doc."""
KINDS = ("sequence", "order_by", "windows")
KEYS = "abcd"


class World:
    """:ivar is_tidy: only good code writes, so that at the end the entity table is the database."""

    def __init__(self, log: Log, seed: int, kind: str) -> None:
        self.log, self.random, self.kind = log, random.Random(seed), kind
        self.by_lsn, self.is_tidy = kind != "sequence", seed % 2 == 0
        log.order_by = ["lsn"] if self.by_lsn else []
        self.partitions: list[list[Event]] = [[] for _ in range(1 if kind == "sequence" and seed % 3 else 3)]
        self.place: dict[str | None, int] = {}
        self.database: dict[str, tuple[str, str | None]] = {}
        self.sent: list[Event] = []
        self.lsn = 0
        self.ends: list[list[int]] = [[0] * len(self.partitions)]
        self.written: set[int] = set()
        self.committed: set[int] = set()

    def play(self, steps: int) -> None:
        for _ in range(steps):
            for _ in range(self.random.randrange(12)):
                self.change()
            self.step()
        self.plan(whole=True)
        for number in range(1, len(self.ends)):
            if number not in self.committed:
                self.run(number)
        self.merge()
        if self.is_tidy:
            found = {row["id"]: (row["name"], row["doc"]) for row in self.log.rows}
            assert found == self.database

    def step(self) -> None:
        r, newest = self.random, len(self.ends) - 1
        open_ = [number for number in range(1, newest + 1) if number not in self.committed]
        what = r.random()
        if what < 0.45:
            if self.kind == "windows" or not open_:
                open_ = [self.plan()]
            self.run(open_[-1], is_late=r.random() < 0.2)
        elif what < 0.6 and self.committed:  # a cleared run
            self.run(r.choice(sorted(self.committed)), is_late=r.random() < 0.2)
        elif what < 0.7 and self.written - self.committed:  # by window, one that was late
            number = r.choice(sorted(self.written - self.committed))
            self.run(number)
        elif what < 0.93 and self.committed:
            self.merge()
        elif self.committed and self.log.table.read(self.log.spark) is not None:
            self.disturb()

    def change(self) -> None:
        r, key = self.random, self.random.choice(KEYS)
        self.lsn += 1
        if r.random() < 0.04 and (self.by_lsn or len(self.partitions) == 1):
            self.database.clear()
            self.send(self.lsn, None, "t", None, None)
        elif r.random() < 0.06:  # the connector restarts: what it sent last comes again
            for event in self.sent[-r.randrange(1, 6) :]:
                self.deliver(event)
        elif key not in self.database:
            self.database[key] = (str(self.lsn), r.choice([None, str(self.lsn)]))
            self.send(self.lsn, key, "c", *self.database[key])
        elif r.random() < 0.3:
            del self.database[key]
            if self.by_lsn or r.random() < 0.7:  # else Kafka has compacted it away, and the tombstone is left
                self.send(self.lsn, key, "d", None, None)
            self.send(None, key, None, None, None)
        else:
            is_kept, op = r.random() < 0.6, r.choice("uuur")
            doc = self.database[key][1] if is_kept else r.choice([None, str(self.lsn)])
            self.database[key] = (str(self.lsn), doc)
            self.send(self.lsn, key, op, str(self.lsn), UNKNOWN if is_kept and op == "u" else doc)

    def send(self, *event: Any) -> None:
        self.sent.append(event)  # type: ignore[arg-type]
        self.deliver(event)  # type: ignore[arg-type]

    def deliver(self, event: Event) -> None:
        key = event[1]
        if key not in self.place or (self.by_lsn and self.random.random() < 0.2):
            self.place[key] = self.random.randrange(len(self.partitions))
        self.partitions[self.place[key]].append(event)

    def plan(self, *, whole: bool = False) -> int:
        last = self.ends[-1]
        ends = [len(p) if whole else self.random.randint(s, len(p)) for s, p in zip(last, self.partitions, strict=True)]
        self.ends.append(ends)
        return len(self.ends) - 1

    def rows(self, number: int, *, is_good: bool) -> Iterator[tuple[Any, ...]]:
        bounds = zip(self.ends[number - 1], self.ends[number], strict=True)
        for partition, (start, end) in enumerate(bounds):
            for offset in range(start, end):
                lsn, key, op, name, doc = self.partitions[partition][offset]
                if is_good or (offset + number) % 4:  # bad code finds some bad, and others' values wrong
                    value = name if is_good or offset % 3 or name is None else f"wrong {name}"
                    yield (offset, key, op, value, doc, lsn, partition, "orders")

    def run(self, number: int, *, is_late: bool = False) -> None:
        """:param is_late: half of it is written, and nobody commits that."""
        rows = [*self.rows(number, is_good=self.is_tidy or self.random.random() < 0.7)]
        if number in self.committed:
            self.log.replan(number)
        if is_late:
            self.log.write(number, rows[::2])
            if number in self.committed:  # else it would stop each merge until then
                self.merge()
                self.log.commit(number, rows)
            self.written.add(number)
        else:
            self.log.commit(number, rows)
            self.committed.add(number)

    def merge(self) -> None:
        r = self.random
        with ExitStack() as stack:
            if r.random() < 0.3:
                step = r.choice(["changes", "publish"])
                stack.enter_context(stalled(step, *(r.choice([self.merge_inside, self.correct]) for _ in range(2))))
            try:
                self.log.merge()
            except LateAttempt:
                return
        assert self.log.differences(at_receipt=True) == []

    def merge_inside(self) -> None:
        self.log.merge()

    def correct(self) -> None:
        if self.committed:
            number = self.random.choice(sorted(self.committed))
            self.log.commit(number, [*self.rows(number, is_good=True)])

    def disturb(self) -> None:
        merges = [c for c in self.log.entity_commits if c.receipt]
        what = self.random.choice(["compact", "restore", "drop"])
        if what == "restore" and len(merges) > 1:
            self.log.restore(self.random.randrange(1, min(4, len(merges))))
        elif what == "drop" and self.log.kind == "iceberg":
            self.log.spark.sql(f"DROP TABLE {self.log.table.name} PURGE")
        elif self.log.kind == "delta":  # compacted Iceberg files do not take a batch that is written again
            self.log.compact()
