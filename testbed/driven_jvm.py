"""A JVM that Python drives by Py4J: Hadoop's mini clusters run in one.

It ends when it is closed, or with the process that started it.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from testbed.java import Java


class DrivenJvm:
    """
    :param folder: where it runs; what it prints is in `jvm.log` there.
    :param opened: packages of `java.base` that Hadoop looks into.
    """

    def __init__(self, java: Java, jars: Sequence[Path], folder: Path, opened: Sequence[str]) -> None:
        py4j = str(next((Path(pyspark.__file__).parent / "jars").glob("py4j*.jar")))
        self._log = (folder / "jvm.log").open("w")
        port, self._process = launch_gateway(
            classpath=os.pathsep.join([*map(str, jars), py4j]),
            jarpath=py4j,
            java_path=str(java.executable),
            javaopts=[*(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in opened), "-Xmx512m"],
            die_on_exit=True,
            redirect_stdout=self._log,
            redirect_stderr=self._log,
            cwd=str(folder),
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port), java_process=self._process)

    @property
    def classes(self) -> Any:
        """Java's packages and classes, by their names."""
        return self._gateway.jvm

    def close(self) -> None:
        self._gateway.shutdown()
        self._process.stdin.close()  # on which it waits
        self._process.wait(60)
        self._log.close()
