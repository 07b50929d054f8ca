"""Trino in a process of its own, without its server: its parser, planner and operators over tables in memory.

PySpark's Py4J is the way to it, so nothing is compiled. It runs in a `with` block; its JVM ends with the process that
made it.
"""

import os
from collections.abc import Sequence
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from testbed.cache import Say, silent
from testbed.jars import pyspark_jars, trino_jars
from testbed.java import Java
from testbed.spark import QUICK


class Trino:
    """Its catalog and schema are `memory.default`."""

    def __init__(self, java: Java, say: Say = silent) -> None:
        self._java, self._jars = java, trino_jars(java, say)
        self._gateway: Any = None
        self._runner: Any = None

    def __enter__(self) -> Self:
        (py4j,) = (jar for jar in pyspark_jars() if jar.name.startswith("py4j-"))
        port, token = launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join(map(str, self._jars)),
            javaopts=[*QUICK.split(), "-Xmx512m"],
            java_path=str(self._java.executable),
            die_on_exit=True,
            enable_auth=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        trino, maps = self._gateway.jvm.io.trino, self._gateway.jvm.java.util
        session = trino.testing.TestingSession.testSessionBuilder().setCatalog("memory").setSchema("default").build()
        self._runner = trino.testing.LocalQueryRunner.create(session)
        self._runner.createCatalog("memory", trino.plugin.memory.MemoryConnectorFactory(), maps.HashMap())
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()

    def sql(self, query: str) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """The names of the columns and the rows; what Python has no type for is its text."""
        found = self._runner.execute(query)
        names = list(found.getColumnNames())
        return names, [tuple(row.getField(n) for n in range(len(names))) for row in found.getMaterializedRows()]
