"""A Spark driver that is killed at a moment: its Python and its JVM at once, by SIGKILL.

``python -m tests.spark.killed_driver MOMENT SETTINGS FOLDER ARGUMENTS…``: the settings of the session as JSON, the
folder of the table, and the arguments of the batch. A table's files are watched; all other moments are calls.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.merge import Merge, merge_batches
from airflow_kafka_offsets.spark.sinks.iceberg import IcebergTable
from airflow_kafka_offsets.spark.sinks.table import TableSink
from airflow_kafka_offsets.spark.store import HadoopStore
from testbed.leash import Leashed
from testbed.topics import wait_for

ROOT = Path(__file__).parents[2]
IN_THE_WRITE = "in the write"
CALLS: Mapping[str, tuple[type, str, str, bool]] = {
    "before it begins": (HadoopStore, "put", "begun", False),
    "begun": (HadoopStore, "put", "begun", True),
    "before the table is made": (TableSink, "_create_table", "", False),
    "the table is made": (TableSink, "_create_table", "", True),
    "before the table is marked": (TableSink, "_ensure_mark", "", False),
    "staged": (IcebergTable, "_staged", "", True),
    "written": (HadoopStore, "put", "report", False),
    "reported": (HadoopStore, "put", "report", True),
    "before bad records are written": (TableSink, "write", "role='/bad'", False),
    "before the merge": (Merge, "publish", "", False),
    "before it is published": (SparkSession, "sql", "fast_forward", False),
    "merged": (Merge, "publish", "", True),
}
"""By moment: the method, what its object or its first argument has in it, and whether the call has ended."""
_JOBS: Mapping[bool, Callable[..., Any]] = {False: write_batch, True: merge_batches}


def run_and_kill(
    moment: str, settings: Mapping[str, str], folder: Path, arguments: Sequence[str], *, merge: bool = False
) -> None:
    """Run a driver until it kills itself. Nothing of it is left then.

    :param folder: of the output.
    """
    job = {**settings, "spark.master": "local[1]"}  # one task after the other
    command = [sys.executable, "-m", "tests.spark.killed_driver", moment, json.dumps(job), str(folder), str(merge)]
    said = folder.parent / "killed_driver.log"
    driver = Leashed.start([*command, *arguments], env=dict(os.environ), log=said, cwd=ROOT)
    try:
        wait_for("the driver has ended", lambda: driver.returncode is not None, 300)
    finally:
        driver.kill()
    assert driver.returncode == 128 + signal.SIGKILL, f"{driver.returncode}: {said.read_text()[-4000:]}"


def kill() -> None:
    os.killpg(0, signal.SIGKILL)


def kill_at_call(owner: type, method: str, name: str, has_ended: bool) -> None:
    called = getattr(owner, method)

    def killed(self: Any, first: Any, *more: Any) -> Any:
        is_meant = name in f"{self} {first}"
        if is_meant and not has_ended:
            kill()
        answer = called(self, first, *more)
        if is_meant:
            kill()
        return answer

    setattr(owner, method, killed)


def kill_at_file(folder: Path) -> None:
    """As soon as a data file is in the folder that is not there now."""
    never, before = threading.Event(), set(folder.rglob("*.parquet"))

    def watch() -> None:
        while set(folder.rglob("*.parquet")) <= before:
            never.wait(0.001)
        kill()

    threading.Thread(target=watch, daemon=True).start()


def main(moment: str, settings: str, folder: str, merge: str, *arguments: str) -> None:
    session = SparkSession.builder.config(map=json.loads(settings)).getOrCreate()
    if moment == IN_THE_WRITE:
        kill_at_file(Path(folder))
    else:
        kill_at_call(*CALLS[moment])
    _JOBS[merge == "True"](session, arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
