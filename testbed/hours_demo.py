"""The third part of `make demo`: a day of hourly windows, in random order, three at a time, late records in between.

The windows run in a whole Airflow (scheduler, PostgreSQL), each as a Spark job. Records of hours that have been read
already keep arriving. What is said at the end is counted from the output's files.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from testbed.cache import Say
from testbed.checks import rows_by_batch, values_of
from testbed.standalone import StandaloneAirflow
from testbed.topics import Topics

DAG_ID, PARTITIONS = "kafka_backfill_by_timestamp", 3
HOURS, AN_HOUR, LATE = 24, 500, 120
WAVES = ((0, 8), (8, 16), (16, 24))
DEADLINE_S = 1800.0

# Three windows at once are as many Spark drivers as a small machine can bear; and it is busy, so nobody is impatient.
AT_ONCE = {
    "AIRFLOW__CORE__PARALLELISM": "3",
    "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "3",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "300",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "120",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "300",
    "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",  # only the runs that the demo starts: none of the hour that it is
}


class HoursOfADay:
    def __init__(self, kafka: Topics, topic: str, output: Path, say: Say) -> None:
        self.kafka, self.topic, self.output, self.say = kafka, topic, output, say
        self.day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
        self.order = random.sample(range(HOURS), HOURS)
        self.rows: list[tuple[str, ...]] = [("windows", "in this order", "late since", "rows in all", "produced")]
        self.produced = 0

    def run(self, airflow: StandaloneAirflow) -> None:
        for hour in range(HOURS):
            self._produce(hour, AN_HOUR)
        airflow.wait_for_dag(DAG_ID)
        for begin, end in WAVES:
            wave = self.order[begin:end]
            runs = [self._start(airflow, hour) for hour in wave]
            late = 0
            for hour in random.sample(self.order[: end - 4], 4):  # while the windows of this wave are read
                self._produce(hour, LATE)
                late += LATE
            self._wait(airflow, runs)
            self._row(f"{begin + 1} to {end}", " ".join(map(str, wave)), late)
        # A record that comes late is in the next window that ends after it: here the first one of the next day.
        self._wait(airflow, [self._start(airflow, HOURS)])
        self._row("the next hour", str(HOURS), 0)

    def wrong(self) -> dict[str, str]:
        """For each claim what speaks against it; empty where it holds."""
        found, batches = values_of(self.output), rows_by_batch(self.output)
        missing, more = self.produced - len(set(found)), len(found) - len(set(found))
        return {
            f"every one of {self.produced:,} records is in the output, whenever it came": f"{missing} missing"
            * bool(missing),
            "none is there twice": f"{more} are" * bool(more),
            f"each of {HOURS} hours has a batch of its own": "" if len(batches) >= HOURS else f"{len(batches)} batches",
        }

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

    def _start(self, airflow: StandaloneAirflow, hour: int) -> str:
        begin = self.day + timedelta(hours=hour)
        return airflow.trigger(DAG_ID, interval=(begin, begin + timedelta(hours=1)))

    def _wait(self, airflow: StandaloneAirflow, runs: list[str]) -> None:
        def ended() -> bool:
            states: Mapping[str, str] = airflow.runs(DAG_ID)
            if failed := [run for run in runs if states.get(run) == "failed"]:
                raise TimeoutError(f"run {failed[0]} failed: {airflow.tasks(DAG_ID, failed[0])}")
            return all(states.get(run) == "success" for run in runs)

        airflow.wait_until("the windows are read", ended, DEADLINE_S)

    def _row(self, which: str, order: str, late: int) -> None:
        self.say(f"  read the windows of hour {order}")
        cells = (f"{late:,}", f"{len(values_of(self.output)):,}", f"{self.produced:,}")
        self.rows.append((which, order, *cells))
