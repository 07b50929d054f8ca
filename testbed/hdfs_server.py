"""A real HDFS on this machine: Hadoop's own `MiniDFSCluster`, one or two name nodes and a data node, in one JVM.

It checks rights, and believes every user's name. Who started it is its superuser.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

from testbed.cache import Say, silent
from testbed.driven_jvm import DrivenJvm
from testbed.jars import hdfs_jars
from testbed.java import Java

_OPENED = ("java.lang", "java.lang.reflect", "java.util")
GROUP = "pipelines"  # the users airflow and spark are in it
_SETTINGS = {
    "dfs.ls.limit": "100",  # so that a listing has pages
    "dfs.client.failover.proxy.provider.minidfs-ns": (  # of data nodes, where there are two name nodes
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    ),
    "hadoop.user.group.static.mapping.overrides": f"airflow={GROUP};spark={GROUP};mallory=",
}


class HdfsServer:
    """A cluster that runs in a `with` block.

    :param name_nodes: with two, the first is active and the second stands by.
    :ivar folder: one that everybody may write to.
    :ivar addresses: of each name node's WebHDFS, host and port.
    """

    folder = "/work-stores"

    def __init__(self, java: Java, name_nodes: int = 1, say: Say = silent) -> None:
        self._java, self._say, self._count = java, say, name_nodes
        self._home = Path(tempfile.mkdtemp(prefix="hdfs-"))
        self._jvm: DrivenJvm | None = None
        self.cluster: Any = None
        self.addresses: list[str] = []

    @property
    def endpoint(self) -> str:
        """The URL of the first name node."""
        return f"http://{self.addresses[0]}"

    @property
    def uri(self) -> str:
        """What Hadoop's clients call it."""
        return str(self.cluster.getURI(0).toString())

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._jvm is not None:
            self._jvm.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def owners(self, folder: str) -> dict[str, str]:
        """Every file below a folder, and the user that wrote it."""
        assert self._jvm is not None
        found = self.cluster.getFileSystem(0).listFiles(self._jvm.classes.org.apache.hadoop.fs.Path(folder), True)
        owners = {}
        while found.hasNext():
            status = found.next()
            owners[status.getPath().toUri().getPath()] = status.getOwner()
        return owners

    def stop_name_node(self, number: int = 0) -> None:
        """What it had is kept for :meth:`start_name_node`."""
        self.cluster.shutdownNameNode(number)

    def start_name_node(self, number: int = 0) -> None:
        """It is the active one."""
        self.cluster.restartNameNode(number)
        if self._count > 1:
            self.cluster.transitionToActive(number)
        self.cluster.waitActive(number)

    def safe_mode(self, on: bool) -> None:
        """Whether the active name node takes nothing that is to be written."""
        assert self._jvm is not None
        action = self._jvm.classes.org.apache.hadoop.fs.SafeModeAction
        self.cluster.getFileSystem(0).setSafeMode(action.ENTER if on else action.LEAVE)

    def give_over(self) -> None:
        """The second name node is the active one from now on."""
        self.cluster.transitionToStandby(0)
        self.cluster.transitionToActive(1)

    def _start(self) -> None:
        self._jvm = DrivenJvm(self._java, hdfs_jars(self._java, self._say), self._home, opened=_OPENED)
        hadoop = self._jvm.classes.org.apache.hadoop
        conf = hadoop.conf.Configuration()
        for name, value in {**_SETTINGS, "hdfs.minidfs.basedir": str(self._home / "data")}.items():
            conf.set(name, value)
        hadoop.security.Groups.getUserToGroupsMappingServiceWithLoadedConfiguration(conf)  # kept from its first use on
        builder = hadoop.hdfs.MiniDFSCluster.Builder(conf).numDataNodes(1)
        if self._count > 1:
            builder = builder.nnTopology(hadoop.hdfs.MiniDFSNNTopology.simpleHATopology())
        self.cluster = builder.build()
        if self._count > 1:
            self.cluster.transitionToActive(0)
        self.cluster.waitActive()
        ports = [self.cluster.getNameNode(n).getHttpAddress().getPort() for n in range(self._count)]
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        system = self.cluster.getFileSystem(0)
        folder = hadoop.fs.Path(self.folder)
        system.mkdirs(folder)
        system.setPermission(folder, hadoop.fs.permission.FsPermission("777"))
