"""A real Spark standalone cluster on this machine: a master and two workers, each a process of its own.

It takes drivers in cluster deploy mode through the master's REST server, as a cluster in production does: who submits
one may die, and the driver goes on. Nothing of it outlives the process that made it; drivers and executors are
children of the workers and end with them.

Spark refuses Python applications in this mode. A driver is one all the same if its main class is Spark's own
`PythonRunner`, whose first two arguments are the program and what to put on its PYTHONPATH: see `python_application`.
"""

import json
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.java import Java
from testbed.leash import Leashed
from testbed.other_user import as_user, give_to
from testbed.ports import free_ports
from testbed.spark import QUICK, spark_conf, spark_env
from testbed.topics import wait_for

ATTEMPTS = 3
PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"


class SparkClusterFailed(RuntimeError):
    """A process of the cluster ended by itself, or did not come up. The message ends with its log."""


@dataclass(frozen=True)
class Driver:
    """One driver, as the master lists it. `state` is Spark's: SUBMITTED, RUNNING, FINISHED, FAILED, KILLED, ERROR."""

    id: str
    state: str


@dataclass(frozen=True)
class Worker:
    """What a worker has for drivers and executors.

    :ivar user: whose its processes are, if this process is root; by default its own.
    """

    cores: int = 2
    memory: str = "2g"
    user: str | None = None


class SparkCluster:
    """A cluster that runs in a `with` block.

    :param python_path: put before PYTHONPATH of the drivers.
    """

    def __init__(self, java: Java, *, python_path: Path, workers: Sequence[Worker] = (Worker(), Worker())) -> None:
        self._env = {**os.environ, **spark_env(java), "SPARK_DAEMON_MEMORY": "256m", "PYTHONPATH": str(python_path)}
        self._env["SPARK_DAEMON_JAVA_OPTS"] = QUICK
        self._env.pop("SPARK_CONF_DIR", None)  # of those who submit
        self._workers = workers
        self.folder = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        self._processes: list[Leashed] = []
        self.rest_port = self._rpc_port = self._web_port = 0

    def __enter__(self) -> Self:
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._start()
                    return self
                except SparkClusterFailed:
                    self._stop()
                    if attempt == ATTEMPTS or "BindException" not in self._log("master"):
                        raise
        except BaseException:
            self.close()
            raise
        raise AssertionError("unreachable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def master(self) -> str:
        """The address to submit to."""
        return f"spark://127.0.0.1:{self.rest_port}"

    @property
    def client_master(self) -> str:
        """The address for drivers that run where they are submitted (client mode)."""
        return f"spark://127.0.0.1:{self._rpc_port}"

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection that submits here in cluster deploy mode, and asks the REST server for states."""
        extra = {"deploy-mode": "cluster", "rest-port": self.rest_port}
        return {"conn_type": "spark", "host": "spark://127.0.0.1", "port": self.rest_port, "extra": json.dumps(extra)}

    def drivers(self) -> list[Driver]:
        """All drivers that were ever submitted to this cluster, by the master's own list, oldest first."""
        state = self._state()
        found = [Driver(d["id"], d["state"]) for d in (*state["activedrivers"], *state["completeddrivers"])]
        return sorted(found, key=lambda driver: driver.id)  # driver-<time>-<number>

    def driver_log(self, driver_id: str) -> str:
        """What a driver printed."""
        files = sorted(self.folder.glob(f"worker-*/{driver_id}/std*"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def work_folder(self, number: int) -> Path:
        """Where a worker has its drivers (`driver-…`) and executors (`app-…/<number>`), and what they print."""
        return self.folder / f"worker-{number}"

    def _start(self) -> None:
        self._rpc_port, self._web_port, self.rest_port = free_ports(3)
        # Another process may be faster at a port: then fail, rather than be found on the next.
        options = {"rest.enabled": "true", "rest.port": self.rest_port}
        java_options = " ".join(f"-Dspark.master.{name}={value}" for name, value in options.items())
        ports = ["--host", "127.0.0.1", "--port", str(self._rpc_port), "--webui-port", str(self._web_port)]
        self._launch("master", "master.Master", ports, SPARK_MASTER_OPTS=f"{java_options} -Dspark.port.maxRetries=0")
        for number, worker in enumerate(self._workers):
            self._start_worker(number, worker)
        wait_for("the workers are registered", self._is_up)

    def _start_worker(self, number: int, worker: Worker) -> None:
        folder, env = self.work_folder(number), {}
        if worker.user:
            self.folder.chmod(0o755)
            folder.mkdir(exist_ok=True)
            give_to(worker.user, folder)
            env["SPARK_LOCAL_DIRS"] = str(folder)
        own = ["--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(folder)]
        size = ["--cores", str(worker.cores), "--memory", worker.memory]
        arguments = [*own, *size, f"spark://127.0.0.1:{self._rpc_port}"]
        self._launch(f"worker-{number}.log", "worker.Worker", arguments, worker.user, **env)

    def _launch(self, name: str, class_name: str, arguments: list[str], user: str | None = None, **env: str) -> None:
        command = as_user(user) if user else []
        command += [f"{self._env['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{class_name}", *arguments]
        log = self.folder / name
        self._processes.append(Leashed.start(command, env={**self._env, **env}, log=log, cwd=self.folder))

    def _is_up(self) -> bool:
        if any(process.returncode is not None for process in self._processes):
            raise SparkClusterFailed(f"Spark's cluster did not start; its master's log ends:\n{self._log('master')}")
        try:
            return int(self._state()["aliveworkers"]) == len(self._workers)
        except OSError:
            return False

    def _log(self, name: str) -> str:
        log = self.folder / name
        return log.read_text(errors="replace")[-3000:] if log.exists() else ""

    def _state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._web_port}/json/", timeout=30) as answer:
            state: dict[str, Any] = json.load(answer)
        return state

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()
        self._processes.clear()


def cluster_conf(jars: Iterable[Path]) -> dict[str, str]:
    """Settings of those who submit: small drivers and executors, with `jars` where they look for classes."""
    files = list(jars)
    class_path = os.pathsep.join(map(str, files))
    return {
        **spark_conf(files),
        "spark.master.rest.enabled": "true",  # submit through it
        # Not spark.jars: the class loader that a driver's wrapper gives them to is not PythonRunner's.
        "spark.jars": "",
        "spark.driver.extraClassPath": class_path,
        "spark.executor.extraClassPath": class_path,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.cores.max": "2",
    }


def python_application(program: Path, python_path: Path) -> tuple[str, str, list[str]]:
    """Application, main class and first arguments of a driver that runs a Python program in cluster deploy mode."""
    import pyspark

    any_jar = next(Path(pyspark.__file__).parent.glob("jars/spark-launcher_*.jar"))
    return str(any_jar), PYTHON_RUNNER, [str(program), str(python_path)]
