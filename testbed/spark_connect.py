"""A real Spark Connect server on loopback: the JVM is there, and its clients have none."""

import os
import socket
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from testbed.java import Java
from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.spark import SHORT_JOBS, spark_conf, spark_env
from testbed.topics import wait_for

ATTEMPTS = 3


class SparkConnectServer:
    """A server that runs in a `with` block.

    :param jvm: variables with options of its JVM, by default for short lives.
    :ivar remote: its address, for ``SparkSession.builder.remote``.
    :ivar port: the port of that.
    :ivar log: what it has said.
    """

    def __init__(
        self,
        java: Java,
        jars: Iterable[Path],
        settings: Mapping[str, str] | None = None,
        jvm: Mapping[str, str] = SHORT_JOBS,
    ) -> None:
        self._env = {**os.environ, **spark_env(java), **jvm}
        self._settings = {**spark_conf(jars), **(settings or {})}
        self.log = Path(tempfile.mkstemp(prefix="spark-connect-", suffix=".log")[1])
        self._process: Leashed | None = None
        self.port = 0

    @property
    def remote(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        for attempt in range(1, ATTEMPTS + 1):  # another process may be faster at a port
            (self.port,) = free_ports(1)
            settings = {
                **self._settings,
                "spark.connect.grpc.binding.port": str(self.port),
                "spark.connect.grpc.binding.address": "127.0.0.1",
            }
            command = [f"{self._env['SPARK_HOME']}/bin/spark-submit"]
            command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
            command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
            self._process = Leashed.start(command, env=self._env, log=self.log)
            try:
                wait_for("Spark Connect answers", self._is_up)
                return self
            except RuntimeError:
                self._process.stop()
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop()
        self.log.unlink(missing_ok=True)

    def _is_up(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            raise RuntimeError(f"Spark Connect ended; its log:\n{self.log.read_text(errors='replace')[-3000:]}")
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0
