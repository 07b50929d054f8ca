"""Kill a Spark driver in the middle of its write, and know that it was the middle.

A watcher looks for the first file that a task has finished, stops the driver's process at once (SIGSTOP), counts what
is there, and kills it (SIGKILL). What it saw is kept, so that who uses it can show that the fault really fired.
"""

import re
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
_FINISHED = re.compile(r".*/_temporary/0/task_[^/]+/(?:.*/)?(part-[^/]*\.parquet)")


@dataclass(frozen=True)
class Kill:
    """`files`: finished when the driver was stopped. `seen`: what `on_kill` returned then."""

    first_file: str
    files: int
    seen: Any


class SparkKiller:
    """A context in which the first Spark driver that writes below `output` is killed, once."""

    def __init__(self, output: Path, on_kill: Callable[[], Any] = lambda: None) -> None:
        self._output, self._on_kill = output, on_kill
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
            if not finished_files(self._output):
                continue
            drivers = spark_drivers()
            for driver in drivers:
                driver.send_signal(signal.SIGSTOP)
            files = finished_files(self._output)
            if drivers and files:
                self.kill = Kill(files[0], len(files), self._on_kill())
            for driver in drivers:
                driver.kill()
            return


def finished_files(output: Path) -> list[str]:
    """Files of finished tasks that the job has not yet moved to their place: `_temporary/0/task_*/…/part-*`."""
    with suppress(OSError):  # a folder went away while it was listed
        return sorted(match[1] for file in output.rglob("*.parquet") if (match := _FINISHED.fullmatch(str(file))))
    return []


def spark_drivers() -> list[psutil.Process]:
    """The Java processes of `spark-submit` below this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any("org.apache.spark.deploy.SparkSubmit" in word for word in process.cmdline()):
                found.append(process)
    return found


def end_children() -> None:
    """Kill what Spark and Airflow left below this process; whoever has an end of its own is ended before."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            process.kill()
