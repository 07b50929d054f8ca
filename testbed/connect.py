"""Kafka Connect in standalone mode, with one connector. It runs in a `with` block, and nothing of it outlives the
process that made it.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from testbed.broker import KafkaBroker
from testbed.broker_config import LOG4J, as_properties
from testbed.cache import Say, silent
from testbed.jars import broker_jars, connect_jars
from testbed.java import Java
from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.spark import QUICK

_JSON = "org.apache.kafka.connect.json.JsonConverter"


class Connect:
    """A worker with one connector.

    :param name: of the connector.
    :param jars: of the connector.
    :param config: of the connector.
    :ivar log: what the worker prints.
    """

    def __init__(
        self,
        java: Java,
        broker: KafkaBroker,
        name: str,
        jars: Sequence[Path],
        config: Mapping[str, str],
        say: Say = silent,
    ) -> None:
        logging = [jar for jar in broker_jars(java, say) if jar.name.startswith("log4j")]
        self._java, self._jars = java, [*connect_jars(java, say), *jars, *logging]
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="connect-"))
        self.log = self.folder / "log"
        (port,) = free_ports(1)
        self._worker = {
            "bootstrap.servers": broker.bootstrap_servers,
            "listeners": f"http://127.0.0.1:{port}",
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "1000",
        }
        self._connector = {"name": name, **config}
        self._process: Leashed | None = None

    def __enter__(self) -> Self:
        files = {"worker": self._worker, "connector": self._connector}
        for name, settings in files.items():
            (self.folder / f"{name}.properties").write_text(as_properties(settings))
        (self.folder / "log4j2.properties").write_text(LOG4J)
        command = [str(self._java.executable), *QUICK.split(), "-Xmx512m", "-Djava.awt.headless=true"]
        command += [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"]
        command += ["-cp", os.pathsep.join(map(str, self._jars)), "org.apache.kafka.connect.cli.ConnectStandalone"]
        command += [str(self.folder / f"{name}.properties") for name in files]
        self._process = Leashed.start(command, env={**os.environ, **self._java.env}, log=self.log)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """By SIGKILL, with whatever it has begun."""
        if self._process is not None:
            self._process.kill()
