"""MIT's Kerberos on loopback: a key distribution centre (KDC) with one realm, and keytabs for who is asked for.

Debian's packages have the programs. They are run by this user, with files of their own; nothing of the machine's
Kerberos is read or changed.
"""

import os
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.topics import wait_for

REALM = "TEST"
ATTEMPTS = 5
_PROGRAMS = ("kdb5_util", "kadmin.local", "krb5kdc")
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])  # which is not on each user's path


class KdcMissing(RuntimeError):
    """The programs are not installed."""


class Kdc:
    """A KDC that runs in a `with` block.

    :raises KdcMissing: naming what to install.
    """

    def __init__(self, folder: Path) -> None:
        missing = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
        if missing:
            raise KdcMissing(
                f"There is no {', '.join(missing)} here, MIT's Kerberos server. "
                "Install it: `apt install krb5-kdc krb5-admin-server krb5-user`."
            )
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.config = folder / "krb5.conf"
        """What a JVM is told by `-Djava.security.krb5.conf=`."""
        self._log = folder / "kdc.out"
        self._process: Leashed | None = None

    def keytab(self, name: str) -> Path:
        """The file that principal `name` logs in with; the principal is made where there is none."""
        file = self.folder / f"{name.replace('/', '-')}.keytab"
        if not file.exists():
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", name)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(file), name)
        return file

    def __enter__(self) -> Self:
        for attempt in range(1, ATTEMPTS + 1):
            (port,) = free_ports(1)
            self._configure(port)
            if attempt == 1:
                self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
            try:
                self._start(port)
                return self
            except RuntimeError:
                if attempt == ATTEMPTS or "in use" not in self._log.read_text():
                    raise
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop()

    def _start(self, port: int) -> None:
        env = {**os.environ, **self._environment()}
        self._process = process = Leashed.start(["krb5kdc", "-n", "-r", REALM], env=env, log=self._log)

        def answers() -> bool:
            if process.returncode is not None:
                raise RuntimeError(f"the KDC ended; its log:\n{self._log.read_text()[-3000:]}")
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
                return True
            return False

        wait_for("the KDC answers", answers)

    def _environment(self) -> dict[str, str]:
        profile = self.folder / "kdc.conf"
        return {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(profile), "PATH": _PATH}

    def _configure(self, port: int) -> None:
        self.config.write_text(f"""\
[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{port}
 }}
""")
        (self.folder / "kdc.conf").write_text(f"""\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {REALM} = {{
  database_name = {self.folder}/principal
  key_stash_file = {self.folder}/stash
  acl_file = {self.folder}/acl
 }}
[logging]
 kdc = STDERR
""")

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env={**os.environ, **self._environment()}, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{done.stderr[-3000:]}")
