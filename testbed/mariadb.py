"""A MariaDB server with a binary log, on loopback, from the `mariadbd` and the `mariadb` that this machine has.

Debian's `mariadb-server-core` and `mariadb-client-core` have them. Only recordings need one, so nothing is downloaded.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.postgres import PASSWORD
from testbed.topics import wait_for

VERSION = "--version=5.7.19-MariaDB"
"""A MySQL whose statements MariaDB knows, for clients that ask for the version."""
_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
_SCRIPTS = Path("/usr/share/mysql")


class MariaDB:
    """A server that runs in a `with` block. Its user is `debezium`, who may do everything."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
        (self.port,) = free_ports(1)
        self._socket = self.folder / "socket"
        self._server = ["mariadbd", "--no-defaults", f"--datadir={self.folder / 'data'}", "--user=root"]
        self._process: Leashed | None = None

    def __enter__(self) -> Self:
        (self.folder / "data").mkdir()
        grant = f"grant all on *.* to debezium@'%' identified by '{PASSWORD}' with grant option;"
        script = ["create database mysql;", "use mysql;", *((_SCRIPTS / name).read_text() for name in _TABLES)]
        script += ["flush privileges;", grant]
        subprocess.run([*self._server, "--bootstrap"], input="\n".join(script), text=True, check=True)
        options = [VERSION, "--server-id=1", "--log-bin=bin", "--binlog-format=ROW", "--binlog-row-image=FULL"]
        options += ["--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self._socket}"]
        self._process = Leashed.start([*self._server, *options], env=dict(os.environ), log=self.folder / "log")
        wait_for("MariaDB answers", lambda: "ready for connections" in (self.folder / "log").read_text())
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, *statements: str) -> list[str]:
        """Each in a transaction of its own. The lines of the answers."""
        client = ["mariadb", "--no-defaults", f"--socket={self._socket}", "--user=debezium", f"--password={PASSWORD}"]
        options = ["--batch", "--raw", "--skip-column-names"]
        run = subprocess.run([*client, *options], input=";\n".join(statements), text=True, capture_output=True)
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()
