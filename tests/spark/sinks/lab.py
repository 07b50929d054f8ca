"""The parent's side: a driver in a child process, asked through a socket, that may be killed at any step."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[3]
ANSWER_S = 300.0  # then it hangs


class Killed(Exception):
    """The driver has gone without an answer."""


class Failed(Exception):
    """The driver answered with an error; `name` is its class."""

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        super().__init__(f"{name}: {message}")


class Lab:
    """A driver that runs in a `with` block. It starts with the first question."""

    def __init__(self, conf: Mapping[str, str], environment: Mapping[str, str], folder: Path) -> None:
        self._conf, self._environment, self._folder = dict(conf), dict(environment), folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin to start; the first question waits until it has."""
        ours, theirs = socket.socketpair()
        with theirs, (self._folder / "drivers.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.sinks.child", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=self._folder,
                env={**os.environ, **self._environment, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        ours.settimeout(ANSWER_S)
        self._lines = ours.makefile("rw", encoding="utf-8")
        ours.close()
        self._send(self._conf)
        self._is_ready = False

    def ask(self, do: str, **arguments: Any) -> Any:
        """:raises Killed: the driver is gone. :raises Failed: with its error."""
        if self._process is None:
            self.start()
        if not self._is_ready:
            self._receive()
            self._is_ready = True
        self._send({"do": do, **arguments})
        return self._receive()

    def close(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._lines.close()
            self._process = None

    def _send(self, message: object) -> None:
        self._lines.write(json.dumps(message) + "\n")
        self._lines.flush()

    def _receive(self) -> Any:
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            line = ""
        if not line:
            with suppress(subprocess.TimeoutExpired):
                assert self._process is not None
                self._process.wait(10)
            self.close()
            raise Killed((self._folder / "drivers.log").read_text(errors="replace")[-2000:])
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"], answer["message"])
        return answer["ok"]
