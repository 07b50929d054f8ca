"""Part 4: a morning of hourly windows in random order, three at a time, while late records arrive.

The windows run in a whole Airflow with a scheduler. Records of hours that have been read already keep arriving.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from testbed.checks import rows_by_batch, values_of
from testbed.demo.shown import Claim, Row, each_record_once, step
from testbed.standalone import StandaloneAirflow
from testbed.topics import Topics

DAG_ID, PARTITIONS = "kafka_backfill_by_timestamp", 3
HOURS, AN_HOUR, LATE = 6, 500, 120
WAVES = ((0, 3), (3, 6))
DEADLINE_S = 1800.0


class Hours:
    def __init__(self, kafka: Topics, topic: str, output: Path, airflow: StandaloneAirflow) -> None:
        self.kafka, self.topic, self.output, self.airflow = kafka, topic, output, airflow
        self.day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
        self.order = random.sample(range(HOURS), HOURS)
        self.rows: list[Row] = [("windows", "late records meanwhile", "rows", "produced")]
        self.produced = 0

    def run(self) -> None:
        step(f"Topic {self.topic}: a morning of records; Airflow's scheduler runs a window for each hour")
        self.kafka.create_topic(self.topic, PARTITIONS)
        for hour in range(HOURS):
            self._produce(hour, AN_HOUR)
        self.airflow.wait_for_dag(DAG_ID)
        for begin, end in WAVES:
            wave = self.order[begin:end]
            step(f"  Hours {', '.join(map(str, wave))}")
            runs = [self._start(hour) for hour in wave]
            late = 0
            for hour in random.sample(self.order[: end - 1], 2):  # while the windows of this wave are read
                self._produce(hour, LATE)
                late += LATE
            self._wait(runs)
            self._row(f"{begin + 1} to {end}", late)
        # A record that comes late is in the next window that is planned to end after it: here the one behind them all.
        step("  The hour after them")
        self._wait([self._start(HOURS)])
        self._row("the next hour", 0)

    def claims(self) -> list[Claim]:
        hours = len(rows_by_batch(self.output))
        return [
            *each_record_once(self.output, self.produced),
            (f"each of {HOURS} hours has a batch of its own", hours >= HOURS, f"{hours} have"),
        ]

    def _produce(self, hour: int, count: int) -> None:
        first, start = self.produced, round((self.day + timedelta(hours=hour)).timestamp() * 1000)
        self.kafka.produce_many(
            self.topic,
            count,
            partitions=PARTITIONS,
            value=lambda n: b"%d" % (first + n),
            timestamp_ms=lambda n: start + n * 3_600_000 // count,
        )
        self.produced += count

    def _start(self, hour: int) -> str:
        begin = self.day + timedelta(hours=hour)
        return self.airflow.trigger(DAG_ID, interval=(begin, begin + timedelta(hours=1)))

    def _wait(self, runs: list[str]) -> None:
        def ended() -> bool:
            states: Mapping[str, str] = self.airflow.runs(DAG_ID)
            if failed := [run for run in runs if states.get(run) == "failed"]:
                raise TimeoutError(f"run {failed[0]} failed: {self.airflow.tasks(DAG_ID, failed[0])}")
            return all(states.get(run) == "success" for run in runs)

        self.airflow.wait_until("the windows are read", ended, DEADLINE_S)

    def _row(self, which: str, late: int) -> None:
        self.rows.append((which, f"{late:,}", f"{len(values_of(self.output)):,}", f"{self.produced:,}"))
