"""A real YARN on this machine: resource manager and node manager of Hadoop's own `MiniYARNCluster`, in one JVM.

It is there for what only YARN does to a Spark job: its node manager expands variables in a container's command. The
JVM ends with its `with` block, or with the process that started it; its containers with it.
"""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from testbed.driven_jvm import DrivenJvm
from testbed.jars import yarn_jars
from testbed.java import Java
from testbed.spark import spark_conf

_OPENED = ("java.lang", "java.lang.reflect", "java.util", "java.net", "java.nio", "sun.nio.ch")
_SETTINGS = {
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
}
_CAPACITY = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"


class YarnCluster:
    """A cluster that runs in a `with` block. Its resource manager has no REST API, whose jars are not here."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self.folder = Path(tempfile.mkdtemp(prefix="yarn-"))
        self._jvm: DrivenJvm | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables of who submits to it."""
        return {"HADOOP_CONF_DIR": str(self.folder / "conf")}

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection that submits here in cluster deploy mode."""
        return {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}

    def printed(self) -> str:
        """What the containers have printed."""
        files = sorted(self.folder.glob("target/**/container_*/std*"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._jvm is not None:
            self._jvm.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        home = Path(pyspark.__file__).parent
        jars = [*yarn_jars(self._java), *(home / "jars").glob("*.jar")]
        self._jvm = DrivenJvm(self._java, jars, self.folder, opened=_OPENED)
        hadoop = self._jvm.classes.org.apache.hadoop.yarn
        conf = hadoop.conf.YarnConfiguration()
        for name, value in {**_SETTINGS, "yarn.resourcemanager.scheduler.class": _CAPACITY}.items():
            conf.set(name, value)
        cluster = hadoop.server.MiniYARNCluster("yarn", 1, 1, 1)
        cluster.init(conf)
        cluster.start()
        cluster.waitForNodeManagersToConnect(60_000)
        self._write(cluster.getConfig())

    def _write(self, conf: Any) -> None:
        """What clients read: where the resource manager is, and that files are those of this machine."""
        assert self._jvm is not None
        folder = self.folder / "conf"
        folder.mkdir()
        out = self._jvm.classes.java.io.FileOutputStream(str(folder / "yarn-site.xml"))
        conf.writeXml(out)
        out.close()
        (folder / "core-site.xml").write_text(
            "<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>\n"
        )


def yarn_conf(jars: Iterable[Path], staging: Path) -> dict[str, str]:
    """Settings of those who submit to it: Spark's own jars are where they are, containers are small."""
    not_in_a_container = {"spark.driver.host", "spark.driver.bindAddress", "spark.master"}
    settings = {name: value for name, value in spark_conf(jars).items() if name not in not_in_a_container}
    home = Path(pyspark.__file__).parent
    return {
        **settings,
        "spark.yarn.jars": f"local:{home}/jars/*",
        "spark.yarn.stagingDir": staging.as_uri(),
        "spark.yarn.maxAppAttempts": "1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
    }
