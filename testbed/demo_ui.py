"""Airflow's pages over the database of an Airflow that has run here: an api-server, with a login of its own.

There is no scheduler, so nothing runs that the pages show, and a run that somebody starts there waits for ever.
"""

import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Self

import httpx

from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.standalone import AirflowFailed
from testbed.topics import wait_for

USER = "demo"
START_DEADLINE_S = 180.0


class AirflowUi:
    """It runs in a `with` block, on this machine's own address alone.

    :param home: AIRFLOW_HOME, whose settings are in the environment.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.log = home, home / "api-server.log"
        self.address = f"http://127.0.0.1:{free_ports(1)[0]}"
        self.password = secrets.token_urlsafe(9)

    def __enter__(self) -> Self:
        passwords = self.home / "passwords.json"
        passwords.write_text(json.dumps({USER: self.password}))
        own = {
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": self.address.rpartition(":")[2],
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        }
        command = [sys.executable, "-m", "airflow", "api-server"]
        self.server = Leashed.start(command, env={**os.environ, **own}, log=self.log, cwd=self.home)
        try:
            wait_for(f"Airflow's api-server answers (see {self.log})", self._answers, START_DEADLINE_S)
        except BaseException:
            self.server.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def wait(self) -> None:
        """What ends this is a signal's handler, which ends the server.

        :raises AirflowFailed: the server has ended by itself.
        """
        while True:
            self._require_alive()
            time.sleep(0.5)  # not Popen.wait(): it holds a lock, which the handler would wait for

    def _require_alive(self) -> None:
        if self.server.returncode is not None:
            raise AirflowFailed(f"Airflow's api-server has ended by itself: see {self.log}")

    def _answers(self) -> bool:
        self._require_alive()
        try:
            return httpx.get(f"{self.address}/api/v2/version", timeout=10).is_success
        except httpx.TransportError:
            return False
