"""A disk that hangs at one file: it is swapped for a FIFO, so that whoever reads it waits until it is given back.

With it a process can be stopped at a known place between two of its writes, and killed there.
"""

import errno
import os
import time
from pathlib import Path

import psutil


class HangingFile:
    """Between `hang()` and `give_back()`, readers of `path` wait."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept = path.with_name(f".{path.name}.kept")
        self._writer: int | None = None

    def hang(self) -> None:
        fifo = self.path.with_name(f".{self.path.name}.fifo")
        os.mkfifo(fifo)
        os.link(self.path, self._kept)
        os.replace(fifo, self.path)

    def wait_for_reader(self, timeout_s: float = 60.0) -> psutil.Process:
        """The process that waits in a read of the file.

        :raises TimeoutError: nobody reads it.
        """
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            try:  # opening it for writing works only while somebody reads; open, it gives the reader nothing
                self._writer = self._writer or os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                time.sleep(0.005)
                continue
            for process in psutil.process_iter():
                if process.pid != os.getpid() and self._is_open_in(process.pid):
                    return process
        raise TimeoutError(f"nobody reads {self.path}")

    def give_back(self) -> None:
        """The file as it was; a reader that still waits reads nothing."""
        os.replace(self._kept, self.path)
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None

    def _is_open_in(self, pid: int) -> bool:
        try:
            return any(os.readlink(f"/proc/{pid}/fd/{fd}") == str(self.path) for fd in os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            return False
