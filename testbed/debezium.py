"""A real Debezium connector: changes of a PostgreSQL into topics of a Kafka, by Kafka Connect in standalone mode.

It runs in a `with` block, from the snapshot on. Nothing of it outlives the process that made it.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from testbed.broker import KafkaBroker
from testbed.broker_config import LOG4J, as_properties
from testbed.cache import Say, silent
from testbed.jars import broker_jars, debezium_jars
from testbed.java import Java
from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.postgres import PASSWORD, Postgres
from testbed.spark import QUICK

SETTINGS = {"wal_level": "logical", "wal_compression": "off"}
"""Of a PostgreSQL whose changes are read."""
_JSON = "org.apache.kafka.connect.json.JsonConverter"


class Debezium:
    """Reads all tables of the server's first database that have the given schema.

    :param name: of the connector; its topics are `<name>.<schema>.<table>`.
    :param config: of the connector, in addition to or instead of the testbed's.
    """

    def __init__(
        self,
        java: Java,
        broker: KafkaBroker,
        postgres: Postgres,
        name: str,
        schema: str,
        config: Mapping[str, str] | None = None,
        say: Say = silent,
    ) -> None:
        logging = [jar for jar in broker_jars(java, say) if jar.name.startswith("log4j")]
        self._java, self._jars = java, [*debezium_jars(java, say), *logging]
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="debezium-"))
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
        self._connector = {
            "name": name,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(postgres.port),
            "database.user": "postgres",
            "database.password": PASSWORD,
            "database.dbname": "postgres",
            "topic.prefix": name,
            "schema.include.list": schema,
            "plugin.name": "pgoutput",
            "slot.name": name.replace("-", "_"),
            "publication.name": name.replace("-", "_"),
            "publication.autocreate.mode": "filtered",
            "skipped.operations": "none",  # by default truncates are
            "decimal.handling.mode": "string",
            "signal.data.collection": f"{schema}.signals",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "poll.interval.ms": "50",
            **(config or {}),
        }
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
        if self._process is not None:
            self._process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
