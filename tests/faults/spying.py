"""To see the moment on the disk, and to find the process to kill."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from testbed.kafka_proxy import NotFired

if TYPE_CHECKING:
    from tests.faults.scene import Scene

POLL_S = 0.005


@dataclass
class Seen:
    """Whether the awaited file came, and what was done then."""

    pattern: str
    found: Path | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout_s: float = 600.0) -> Path:
        """Return when it came and the deed is done.

        :raises NotFired: it did not come, or the deed failed.
        """
        if not self.done.wait(timeout_s) or self.error is not None or self.found is None:
            raise NotFired(f"{self.pattern}: found {self.found}") from self.error
        return self.found

    def proof(self) -> str:
        name = re.sub(r"-[0-9a-f]{8}(-[-0-9a-f]*)?", "-…", self.wait(0.0).name)  # Spark's uuid, or an attempt's
        return f"when {name} was there"


@contextmanager
def when_file(folder: Path, pattern: str, deed: Callable[[Path], object]) -> Iterator[Seen]:
    """In the block, do `deed` once, as soon as a file below `folder` matches."""
    seen, over = Seen(pattern), threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            found: list[Path] = []
            with suppress(OSError):  # a folder went away while it was listed
                found = sorted(folder.glob(pattern))
            if found:
                seen.found = found[0]
                try:
                    deed(found[0])
                except BaseException as error:
                    seen.error = error
                seen.done.set()
                return

    thread = threading.Thread(target=watch, name=f"when {pattern}", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def driver(scene: "Scene", split: int = 0) -> psutil.Process:
    """The Java process of the newest Spark driver of this scene that reads that split.

    :raises NotFired: there is none.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            is_driver = "org.apache.spark.deploy.SparkSubmit" in words and str(scene.job) in words
            if is_driver and f"--split {split} " in " ".join(words):
                found.append(process)
    if not found:
        raise NotFired("no Spark driver runs")
    return max(found, key=lambda process: process.create_time())


def task_process(scene: "Scene", name: str) -> psutil.Process:
    """The process that runs the newest try of a task of the scene's last run.

    :raises NotFired: there is none.
    """
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        pid = scene.airflow.task_pid(scene.runs[-1].dag_id, scene.runs[-1].run_id, f"orders.{name}")
        if pid is not None and psutil.pid_exists(pid):
            return psutil.Process(pid)
    raise NotFired(f"no process runs {name}")
