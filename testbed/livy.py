"""A real Apache Livy on loopback, whose batches are `spark-submit` processes of this machine.

Livy 0.7.1 is the last that is on Maven Central. It is of the time of Spark 2.4 and Java 8; to start batches it needs
only `spark-submit`, so that it starts Spark 4 on Java 17 too, once Hadoop 2.7 may look into the JDK. Its interactive
sessions would need more.
"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from testbed.http_server import HttpServer
from testbed.jars import livy_jars
from testbed.java import Java

_OPENED = ("java.lang", "java.lang.reflect", "java.util", "java.net", "java.nio", "sun.nio.ch")


class LivyServer(HttpServer):
    """A Livy that runs in a `with` block.

    :param spark: variables of the processes that it starts, SPARK_HOME among them.
    """

    what = "Livy"

    def __init__(self, java: Java, spark: Mapping[str, str]) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="livy-"))
        self._java, self._spark = java, spark

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, port: int) -> list[str]:
        conf = self.folder / "conf"
        for folder in (conf, self.folder / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "livy.server.host": "127.0.0.1",
            "livy.server.port": port,
            "livy.spark.master": "local[2]",
            "livy.spark.scala-version": "2.13",
            "livy.file.local-dir-whitelist": "/",
        }
        (conf / "livy.conf").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        classes = ":".join(map(str, [conf, *livy_jars(self._java)]))
        return [str(self._java.executable), *opened, "-cp", classes, "org.apache.livy.server.LivyServer"]

    def _environment_of_process(self) -> dict[str, str]:
        own = {"LIVY_HOME": str(self.folder), "LIVY_CONF_DIR": str(self.folder / "conf")}
        return {**super()._environment_of_process(), **self._spark, **own}
