"""A real Airflow on several machines: CeleryExecutor, one process tree a machine, each with a home of its own.

What differs from machine to machine is HOME and AIRFLOW_HOME (with its logs), and nothing of one lies in the other's.
All else is the same everywhere. The machines are `control` (api-server, scheduler, dag-processor), `triggerer`, and
each worker.

Celery's provider is no part of the project's environment. What it needs beyond `requirements.lock` is pinned in
`celery.lock` and lies in a folder of its own in the user's cache, which is put before the environment's packages. No
pin of `requirements.lock` changes, and there is no second environment.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.ports import free_ports
from testbed.standalone import StandaloneAirflow

LOCK = Path(__file__).with_name("celery.lock")
CONTROL = ("api-server", "scheduler", "dag-processor")


def celery_packages(say: Say = silent) -> Path:
    """The folder with what `celery.lock` pins, for PYTHONPATH.

    :raises RuntimeError: it could not be installed.
    """

    def fill(folder: Path) -> None:
        say("Installing Celery and its provider (41 MB, once) …")
        options = ["--quiet", "--no-deps", "--require-hashes", "--python", sys.executable, "--target", str(folder)]
        command = [sys.executable, "-m", "uv", "pip", "install", *options, "-r", str(LOCK)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"testbed/celery.lock could not be installed:\n{done.stderr[-2000:]}")

    name = (
        f"celery-{sys.version_info.major}.{sys.version_info.minor}-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    )
    return whole_folder(name, fill, is_whole=lambda folder: (folder / "celery").is_dir(), say=say)


@dataclass
class CeleryAirflow(StandaloneAirflow):
    """See :class:`~testbed.standalone.StandaloneAirflow`, whose parts are those of several machines here.

    :param commands: the words after `airflow` of each part: its worker's are those of `celery worker`.
    :param own_settings: variables of one part alone; `None` takes one away.
    """

    commands: Mapping[str, list[str]] = field(default_factory=dict)
    own_settings: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def parts(self) -> list[str]:
        return list(self.commands)

    def command(self, part: str) -> list[str]:
        return self.commands[part]

    def environment_of(self, part: str) -> dict[str, str]:
        machine = self.machine_of(part)
        (machine / "home").mkdir(parents=True, exist_ok=True)
        workers_port, triggerers_port = free_ports(2)  # for logs; on machines of their own these are no question
        env: dict[str, str | None] = {
            **self._env,
            "HOME": str(machine / "home"),
            "AIRFLOW_HOME": str(machine / "airflow"),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(machine / "airflow" / "logs"),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(workers_port),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(triggerers_port),
            **self.own_settings.get(part, {}),
        }
        return {name: value for name, value in env.items() if value is not None}

    def machine_of(self, part: str) -> Path:
        """The folder with a part's `home` and `airflow`."""
        return self.home / "machines" / ("control" if part in CONTROL else part)

    def log_folders(self) -> list[Path]:
        return [self.machine_of(part) / "airflow" / "logs" for part in self.commands if part not in CONTROL[1:]]

    def part_of(self, pid: int) -> str:
        """Which part a process belongs to.

        :raises ProcessLookupError: it is gone.
        :raises KeyError: it is none of them.
        """
        session = os.getsid(pid)
        return next((name for name, part in self._parts.items() if part.pid == session), "") or _raise_key_error(pid)


def _raise_key_error(pid: int) -> str:
    raise KeyError(f"process {pid} is of no part of Airflow")
