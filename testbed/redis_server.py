"""A Redis on loopback: the broker of Celery's queues.

It is this machine's `redis-server` where there is one. Else it is Debian's package, pinned in `debian.lock`, fetched by
apt and unpacked in the user's cache: nothing is installed, and nobody has to be root. With `appendonly` it writes each
command to its file, so that a queue outlives its server.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from testbed.cache import Say, silent, whole_folder
from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.topics import wait_for

LOCK = Path(__file__).with_name("debian.lock")
ATTEMPTS = 5


class RedisMissing(RuntimeError):
    """There is none, and Debian's could not be had."""


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
    pins = [line.split() for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    name = "redis-" + hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]

    def fill(folder: Path) -> None:
        say("Fetching Redis from Debian (1.4 MB, once) …")
        _unpack(pins, folder)

    root = whole_folder(name, fill, is_whole=lambda folder: (folder / "usr/bin/redis-server").exists(), say=say)
    (library,) = root.glob("usr/lib/*/liblzf.so.1")
    return str(root / "usr/bin/redis-server"), str(library.parent)


def _unpack(pins: list[list[str]], folder: Path) -> None:
    """:raises RedisMissing: not Debian, another version of it, no network, or not what is pinned."""
    remedy = (
        "Install it (`apt install redis-server`, `brew install redis`), or pin what apt has in testbed/debian.lock."
    )
    with tempfile.TemporaryDirectory(prefix="debian-") as downloads:
        command = ["apt-get", "download", *(f"{name}:amd64={version}" for name, version, _ in pins)]
        try:
            done = subprocess.run(command, cwd=downloads, capture_output=True, text=True)
        except FileNotFoundError:
            raise RedisMissing(f"There is no `redis-server` here, and no apt to fetch it.\n{remedy}") from None
        if done.returncode:
            raise RedisMissing(f"There is no `redis-server` here, and `{' '.join(command)}` failed:\n"
                               f"{done.stderr[-1000:]}{remedy}")  # fmt: skip
        files = sorted(Path(downloads).glob("*.deb"))
        if sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files) != sorted(pin[2] for pin in pins):
            raise RedisMissing(f"What came is not what testbed/debian.lock pins (SHA-256 differs).\n{remedy}")
        for file in files:
            subprocess.run(["dpkg", "-x", str(file), str(folder)], check=True)
