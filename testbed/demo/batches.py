"""Part 1: batches in sequence into a Delta table, with a killed Spark and a group that somebody has moved."""

import json
from collections.abc import Mapping
from pathlib import Path

from testbed.checks import committed_offsets, files_of_newest_batch, most_attempts, rows_by_batch
from testbed.dag_runs import RunResult
from testbed.demo.airflow import DemoAirflow
from testbed.demo.shown import Claim, DemoFailed, Row, each_record_once, step
from testbed.spark_killer import SparkKiller
from testbed.topics import Topics

PARTITIONS, FILLED = 6, 5  # the sixth partition stays empty
FIRST, LATER = 84_000, 8_000


class Batches:
    def __init__(self, kafka: Topics, topic: str, output: Path, airflow: DemoAirflow) -> None:
        self.kafka, self.topic, self.output, self.airflow = kafka, topic, output, airflow
        self.rows: list[Row] = [("run", "Spark jobs", "new rows", "rows", "committed", "produced")]
        self.produced = 0

    def run(self) -> None:
        step(f"Topic {self.topic}: {PARTITIONS} partitions, one of them empty; {FIRST:,} records")
        self.kafka.create_topic(self.topic, PARTITIONS)
        self._produce(FIRST)
        self._killed_run("1: Spark is killed half-way", expected=FIRST)
        self._plain_run("2: nothing new", expected=0, jobs=0)
        self._produce(LATER)
        self._moved_group("3: somebody has moved the group", "4: with the conf that it prints", expected=LATER)

    def claims(self) -> list[Claim]:
        ends = {number: end for number, (_, end) in self.kafka.offset_bounds(self.topic).items()}
        committed = self._committed()
        at_the_end = f"the consumer group is at the end of each partition, {ends}"
        return [
            *each_record_once(self.output, self.produced),
            (at_the_end, committed == ends, f"it is at {committed}"),
        ]

    def _produce(self, count: int) -> None:
        first = self.produced
        self.kafka.produce_many(self.topic, count, partitions=FILLED, value=lambda n: str(first + n).encode())
        self.produced += count

    def _plain_run(self, title: str, *, expected: int, jobs: int = 1) -> None:
        before = self._total()
        self._row(title, self._run(title, {}), before, expected, jobs)

    def _killed_run(self, title: str, *, expected: int) -> None:
        before, committed = self._total(), self._committed()
        with SparkKiller(self.output, on_kill=self._committed) as killer:
            result = self._run(title, {"min_partitions": 16})
        kill, files = killer.kill, files_of_newest_batch(self.output)
        if kill is None or not 1 <= kill.files < files:
            raise DemoFailed(f"run {title}: Spark was not killed in the middle of its {files} files, but at {kill}")
        step(f"  Killed when {kill.files} of {files} files were written, and nothing was committed")
        if kill.seen != committed:
            raise DemoFailed(f"run {title}: the group moved before the output was verified: {committed} → {kill.seen}")
        batch, attempts = most_attempts(self.airflow.checkpoint_location)
        if attempts != 2:
            raise DemoFailed(f"run {title}: {batch} was begun {attempts} times, expected 2; see {self.airflow.log}")
        step(f"  Airflow's retry read {batch} again, from the same offsets")
        self._row(title, result, before, expected, jobs=2)

    def _moved_group(self, refused: str, accepted: str, *, expected: int) -> None:
        """A run that is refused, and one with the conf that the first one has printed."""
        before = self._total()
        self.kafka.move_group(self.topic, self.topic, 0, 0)
        self._row(refused, self._run(refused, {}, "failed"), before, expected=0, jobs=0)
        conf = self.airflow.printed_conf()
        step(f"  Refused, and nothing was overwritten. It prints: {json.dumps(conf)}")
        conf["kafka_offsets"]["reason"] = "another program has moved the group by mistake"
        self._row(accepted, self._run(accepted, conf), before, expected)

    def _run(self, title: str, conf: Mapping[str, object], state: str = "success") -> RunResult:
        return self.airflow.run(title, "hourly_batch", conf, state)

    def _row(self, title: str, result: RunResult, before: int, expected: int, jobs: int = 1) -> None:
        """Add the run to the table.

        :param before: rows in the output before the run.
        :raises DemoFailed: the run did not add the expected rows with so many Spark jobs.
        """
        spark = [task for task in result.tasks if task.task_id == "orders.spark" and task.state == "success"]
        started, total = sum(task.tries for task in spark), self._total()
        if (started, total - before) != (jobs, expected):
            was = f"{started} Spark jobs and {total - before} new rows, expected {jobs} and {expected}"
            raise DemoFailed(f"run {title}: {was}; see {self.airflow.log}")
        counts = (started, total - before, total, sum(self._committed().values()), self.produced)
        self.rows.append((title, *(f"{count:,}" for count in counts)))

    def _total(self) -> int:
        """Rows that a reader of the table finds."""
        return sum(rows_by_batch(self.output).values())

    def _committed(self) -> dict[int, int]:
        return committed_offsets(self.kafka, self.topic, self.topic)
