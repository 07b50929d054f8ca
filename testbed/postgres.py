"""One real PostgreSQL 17 server for a test: loopback, a port of its own, data in a temporary folder.

The binaries are those of `io.zonky.test.postgres`, from Maven Central; nothing has to be installed. PostgreSQL refuses
to run as root, so there it runs as `nobody`, whose the folder is; a test's own temporary folder will not do, because
only root may enter it. Nothing of the server outlives the process that made it.
"""

import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import sqlalchemy

from testbed.cache import Say, silent
from testbed.jars import fetch, pinned
from testbed.java import Java
from testbed.leash import Leashed
from testbed.other_user import as_user, give_to
from testbed.ports import free_ports
from testbed.topics import wait_for

ATTEMPTS = 5
PASSWORD = "let me in"  # of the testbed's own server: tests look that it is not shown
_UNPRIVILEGED = "nobody"
# Faster, and as safe against the death of a client, which is what tests play. Not against a power cut.
_SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off", "shared_buffers": "32MB"}


class PostgresFailed(RuntimeError):
    """It did not start. The message ends with its log."""


class Postgres:
    """A server that runs in a `with` block. Its user is `postgres`, and so is its first database."""

    def __init__(self, java: Java, say: Say = silent, settings: Mapping[str, str] | None = None) -> None:
        system = f"{platform.system()}-{platform.machine()}".lower().replace("aarch64", "arm64")
        (self._archive,) = fetch(
            java,
            f"postgresql-17.11-{system}",
            pinned(f"postgresql-{system}"),
            "PostgreSQL 17.11 (15 MB, once)",
            say=say,
        )
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.port = 0
        self._settings = {**_SETTINGS, **(settings or {})}
        self._databases = 0
        self._process: Leashed | None = None

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def new_database(self) -> str:
        """An empty database for an Airflow; its URL for SQLAlchemy."""
        self._databases += 1
        name = f"airflow_{self._databases}"
        self.change(f"create database {name}")
        return self._url_of(name)

    @property
    def properties(self) -> dict[str, str]:
        return {"user": "postgres", "password": PASSWORD}

    def __enter__(self) -> Self:
        try:
            self._unpack()
            self._initialize()
            for attempt in range(1, ATTEMPTS + 1):
                (self.port,) = free_ports(1)
                try:
                    self._start()
                    return self
                except PostgresFailed:
                    if attempt == ATTEMPTS or "could not bind" not in self._log():
                        raise
        except BaseException:
            self.close()
            raise
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGQUIT)  # at once, whoever is connected; it gives its shared memory back
            self._process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def sqlalchemy_url(self) -> str:
        return self._url_of("postgres")

    def _url_of(self, database: str) -> str:
        return f"postgresql+psycopg2://postgres:{quote(PASSWORD)}@127.0.0.1:{self.port}/{database}"

    def change(self, *statements: str) -> None:
        """Each in a transaction of its own, in the first database."""
        engine = sqlalchemy.create_engine(self.sqlalchemy_url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))
        engine.dispose()

    def _unpack(self) -> None:
        with zipfile.ZipFile(self._archive) as jar:
            (name,) = (name for name in jar.namelist() if name.endswith(".txz"))
            with jar.open(name) as content, tarfile.open(fileobj=content, mode="r:xz") as tar:
                tar.extractall(self.folder / "dist")  # what is pinned by its digest
        self.folder.chmod(0o755)
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        give_to(_UNPRIVILEGED, data)

    def _initialize(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        initdb = [str(self.folder / "dist" / "bin" / "initdb"), "-D", str(self.folder / "data"), "-U", "postgres"]
        options = ["--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync", "--locale=C", "--encoding=UTF8"]
        done = subprocess.run(
            [*as_user(_UNPRIVILEGED), *initdb, *options], capture_output=True, text=True, cwd=self.folder
        )
        if done.returncode:
            raise PostgresFailed(f"initdb failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def _start(self) -> None:
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        server = [str(self.folder / "dist" / "bin" / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        self._process = Leashed.start(
            [*as_user(_UNPRIVILEGED), *server, *settings], env=dict(os.environ), log=log, cwd=self.folder
        )
        wait_for("PostgreSQL answers", self._is_up)

    def _is_up(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            raise PostgresFailed(f"PostgreSQL ended; its log:\n{self._log()[-3000:]}")
        return "ready to accept connections" in self._log()

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


def rows_of(url: str, query: str, **values: Any) -> list[tuple[Any, ...]]:
    """What a database answers; `:name` in the query stands for a value."""
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(sqlalchemy.text(query), values)]
    engine.dispose()
    return found
