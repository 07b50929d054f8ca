"""A server that speaks HTTP on loopback and keeps in its memory what it is given: the object stores of the tests.

Its port is asked for, and another one when it was taken meanwhile. It ends with its `with` block, or with the process
that started it.
"""

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import ClassVar, Self

from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.topics import wait_for

ATTEMPTS = 5


class HttpServer:
    """A server that runs in a `with` block.

    :ivar endpoint: its URL.
    """

    what: ClassVar[str]
    """In messages: the S3 server."""

    def __init__(self) -> None:
        self._log = Path(tempfile.mkstemp(prefix="server-", suffix=".log")[1])
        self._process: Leashed | None = None
        self.endpoint = ""

    @property
    def environment(self) -> dict[str, str]:
        """What a store's library reads: where the server is, and who asks."""
        raise NotImplementedError

    def command(self, port: int) -> list[str]:
        """Runs the server on this port of 127.0.0.1."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def create_bucket(self, name: str) -> None:
        """A bucket, which Azure calls a container."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        for attempt in range(1, ATTEMPTS + 1):
            (port,) = free_ports(1)
            self.endpoint = f"http://127.0.0.1:{port}"
            self._process = Leashed.start(self.command(port), env=self._environment_of_process(), log=self._log)
            try:
                wait_for(f"{self.what} answers", self._is_up)
                return self
            except RuntimeError:
                self.close()
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        self.close()
        self._log.unlink(missing_ok=True)

    def close(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _environment_of_process(self) -> dict[str, str]:
        return dict(os.environ)

    def _is_up(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            raise RuntimeError(f"{self.what} ended; its log:\n{self._log.read_text(errors='replace')[-3000:]}")
        try:
            with urllib.request.urlopen(self.endpoint, timeout=5):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False


def needed_program(name: str, what_for: str, install: str) -> str:
    """The path of a program that this machine has to have.

    :raises RuntimeError: it has none; says what to install.
    """
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(f"There is no `{name}` here, and {what_for} needs it. Install {install}.")
    return path
