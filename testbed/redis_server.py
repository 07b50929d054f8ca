"""A Redis on loopback: the broker of Celery's queues.

It is this machine's `redis-server` where there is one, else Debian's. With `appendonly` it writes each command to its
file, so that a queue outlives its server.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from testbed.cache import Say, silent
from testbed.debian_packages import unpacked
from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.topics import wait_for

ATTEMPTS = 5


class RedisServer:
    """A server that runs in a `with` block, on one port until then.

    :param options: its command line; `--port` is its own.
    """

    def __init__(self, options: Sequence[str] = ("--appendonly", "yes"), say: Say = silent) -> None:
        self._options = list(options)
        self._program, self._libraries = _find(say)
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self.port = 0
        self._process: Leashed | None = None

    def __enter__(self) -> Self:
        for attempt in range(1, ATTEMPTS + 1):
            (self.port,) = free_ports(1)
            try:
                self.start()
                return self
            except RuntimeError:
                if attempt == ATTEMPTS or "Address already in use" not in self._log():
                    self.close()
                    raise
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start it, after :meth:`kill` again on the same port, with what it had; returns when it answers."""
        command = [self._program, "--port", str(self.port), "--bind", "127.0.0.1", *self._options]
        path = os.pathsep.join(filter(None, [self._libraries, os.environ.get("LD_LIBRARY_PATH", "")]))
        env = {**os.environ, **({"LD_LIBRARY_PATH": path} if path else {})}
        self._process = Leashed.start(command, env=env, log=self.folder / "log", cwd=self.folder)
        wait_for("Redis answers", self._is_up)

    def kill(self) -> None:
        """SIGKILL. What it has written is kept."""
        assert self._process is not None
        self._process.kill()

    def close(self) -> None:
        if self._process is not None:
            self._process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_up(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            raise RuntimeError(f"Redis ended; its log:\n{self._log()[-3000:]}")
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")  # -LOADING while it reads its file
        except OSError:
            return False

    def _log(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""


def _find(say: Say) -> tuple[str, str]:
    """The program, and the folder of the libraries that it needs besides the system's."""
    installed = shutil.which("redis-server")
    if installed is not None:
        return installed, ""
    root = unpacked("redis-server", say)
    (library,) = root.glob("usr/lib/*/liblzf.so.1")
    return str(root / "usr/bin/redis-server"), str(library.parent)
