"""One pipeline of the matrix: its runs, its faults, and the count at the end, without the package under test."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from testbed import checks
from testbed.broker import KafkaBroker
from testbed.dag_runs import (
    ROOT,
    RunResult,
    clear_tasks,
    continue_run,
    load_dag,
    newest_run,
    retry_lost_tasks,
    run_and_lose_the_worker,
    run_dag,
)
from testbed.leash import Leashed, state_of
from testbed.spark_killer import spark_drivers
from testbed.topics import wait_for

DAG_FILE, PARTITIONS, RECORDS = Path(__file__).parent / "dags" / "faults.py", 3, 3000
GROUP, ONE_TASK, WITH_MERGE, BY_WINDOW = (
    "faults",
    "faults_of_one_task",
    "faults_of_one_task_and_merge",
    "faults_of_a_window",
)


@dataclass
class Scene:
    """
    :ivar dag_id: one of the DAGs of ``dags/faults.py``.
    :ivar log: the folder of the pipeline in the checkpoint location.
    :ivar said: what tasks have logged since it was asked before.
    """

    dag_id: str
    broker: KafkaBroker
    topic: str
    group: str
    output: Path
    log: Path
    said: Callable[[], str]
    produced: int = 0

    def produce(self, timestamp_ms: int | None = None) -> None:
        first = self.produced
        self.broker.produce_many(
            self.topic,
            RECORDS,
            partitions=PARTITIONS,
            value=lambda n: b"%d" % (first + n),
            timestamp_ms=None if timestamp_ms is None else lambda _: timestamp_ms,
        )
        self.produced += RECORDS

    # ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _dag(self) -> Any:
        return load_dag(DAG_FILE, self.dag_id)

    def task(self, step: str) -> str:
        """The task that has a step of the run: in the group each has one."""
        return f"orders.{step}" if self.dag_id == GROUP else "orders"

    @property
    def _conf(self) -> dict[str, str]:
        return {"topic": self.topic, "group": self.group, "output": str(self.output)}

    def run(self, logical_date: datetime | None = None) -> RunResult:
        return run_dag(self._dag, conf=self._conf, logical_date=logical_date)

    def tries(self, run: RunResult, step: str) -> int:
        return next(task.tries for task in run.tasks if task.task_id == self.task(step))

    def run_refused(self, error: str) -> RunResult:
        """A run whose resolve task fails with that error, and changes neither the output nor the group."""
        before = self.state
        self.said()
        run = self.run()
        assert run.states(self.task("resolve")) == ["failed"]
        assert error in self.said()
        assert self.state == before
        return run

    def run_and_lose_the_worker(self, when: str, name: str) -> str:
        """A run in a process that kills itself there (`dags/faults.py`). Its id; Airflow believes that it runs."""
        command = [sys.executable, "-m", "tests.faults.dags.faults", self.dag_id, json.dumps(self._conf), when, name]
        said = Path(f"{self.output}.worker.log")
        worker = Leashed.start(command, env=dict(os.environ), log=said, cwd=ROOT)
        try:
            wait_for("the worker has ended", lambda: worker.returncode is not None, 300)
        finally:
            worker.kill()
        is_there = any(re.search(name, str(file)) for file in self.log.rglob("*.json"))
        assert is_there == (when == "after"), said.read_text()[-4000:]
        return newest_run(self.dag_id)

    def run_and_lose_all(self, there: Callable[[Scene], bool]) -> str:
        """The same, but the worker is killed with all its children as soon as that is so."""
        log = Path(f"{self.output}.worker.log")
        return run_and_lose_the_worker(DAG_FILE, self._dag, lambda: there(self), log, self._conf)

    def retry(self, run_id: str) -> RunResult:
        """The scheduler misses the worker: the task that it had is retried, and the run goes on."""
        assert len(retry_lost_tasks(self._dag, run_id)) == 1
        return continue_run(self._dag, run_id)

    def clear(self, run_id: str) -> RunResult:
        clear_tasks(self._dag, run_id, self.task("resolve"))
        return continue_run(self._dag, run_id)

    # ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def at(self, there: Callable[[Scene], bool], act: Callable[[], None]) -> Iterator[None]:
        """Act once, as soon as it is so."""
        over, errors, has_acted = threading.Event(), list[BaseException](), threading.Event()

        def watch() -> None:
            while not over.wait(0.002):
                with suppress(OSError):  # a folder went away while it was listed
                    if there(self):
                        break
            else:
                return
            has_acted.set()
            try:
                act()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=watch, name="fault", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert has_acted.is_set(), "the moment never came"
        assert errors == []

    def kill_spark(self, not_yet: Callable[[Scene], bool]) -> None:
        """SIGKILL the JVM of the driver and the Python below it. :param not_yet: shows that it was in time."""
        drivers = spark_drivers()
        for process in [*drivers, *(child for driver in drivers for child in driver.children(recursive=True))]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        wait_for("it is dead", lambda: all(state_of(f"/proc/{driver.pid}") in "ZX" for driver in drivers))
        assert drivers, "no driver was running"
        assert not not_yet(self), "killed too late"

    # ── the count ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def ends(self) -> dict[int, int]:
        return {partition: end for partition, (_, end) in self.broker.offset_bounds(self.topic).items()}

    @property
    def state(self) -> tuple[list[int], dict[int, int]]:
        """What a reader of the whole output finds, and what the group holds."""
        return checks.values_of(self.output), checks.committed_offsets(self.broker, self.group, self.topic)

    def assert_exact(self, batches: int) -> None:
        """Each record is in each table once, the group is at the log's ends, and no batch is missing or unfinished."""
        assert self.state == (list(range(self.produced)), self.ends)
        self.assert_whole(batches)
        if self.dag_id == WITH_MERGE:
            assert checks.values_of(Path(f"{self.output}.current")) == list(range(self.produced))

    def assert_whole(self, batches: int) -> None:
        folders = sorted(self.log.glob("batches/*/*"))
        assert [int(folder.name) for folder in folders] == list(range(1, batches + 1))
        for folder in folders:
            newest = max((file for file in folder.glob("*.json") if file.stem.isdigit()), key=lambda f: int(f.stem))
            assert json.loads(newest.read_text())["entry"] == "commit"
