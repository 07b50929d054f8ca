"""Kill a Spark driver in the middle of its write, and know that it was the middle.

A watcher looks for the first new file of a Delta table that a task has finished, stops the driver's process at once
(SIGSTOP), counts what is there, and kills it (SIGKILL). What it saw is kept, so that who uses it can show that the
fault really fired. The table's log has none of these files before all of them are written.
"""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

POLL_S = 0.002


@dataclass(frozen=True)
class Kill:
    """`files`: finished when the driver was stopped. `seen`: what `on_kill` returned then."""

    files: int
    seen: Any


class SparkKiller:
    """A context in which the first Spark driver that writes files of `table` is killed, once."""

    def __init__(self, table: Path, on_kill: Callable[[], Any] = lambda: None) -> None:
        self._table, self._on_kill, self._before = table, on_kill, set(table.glob("*.parquet"))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="spark-killer", daemon=True)
        self.kill: Kill | None = None

    def __enter__(self) -> "SparkKiller":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(POLL_S):
            if not self._finished():
                continue
            drivers = spark_drivers()
            for driver in drivers:
                driver.send_signal(signal.SIGSTOP)
            files = self._finished()
            if drivers and files:
                self.kill = Kill(len(files), self._on_kill())
            for driver in drivers:
                driver.kill()
            return

    def _finished(self) -> list[Path]:
        """Whole files of Parquet: their last bytes say so."""
        with suppress(OSError):  # a file went away while it was read
            new = set(self._table.glob("*.parquet")) - self._before
            return [file for file in new if file.read_bytes()[-4:] == b"PAR1"]
        return []


def spark_drivers() -> list[psutil.Process]:
    """The Java processes of `spark-submit` below this process, without a Spark Connect server."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            words = " ".join(process.cmdline())
            if "org.apache.spark.deploy.SparkSubmit" in words and "SparkConnectServer" not in words:
                found.append(process)
    return found


def end_children() -> None:
    """Kill what Spark and Airflow left below this process; whoever has an end of its own is ended before."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            process.kill()
