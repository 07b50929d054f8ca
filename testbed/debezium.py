"""Real Debezium connectors: changes of a database into topics of a Kafka, from the snapshot on."""

from collections.abc import Mapping

from testbed.broker import KafkaBroker
from testbed.cache import Say, silent
from testbed.connect import Connect
from testbed.jars import debezium_jars, debezium_mysql_jars
from testbed.java import Java
from testbed.mariadb import MariaDB
from testbed.postgres import PASSWORD, Postgres

SETTINGS = {"wal_level": "logical", "wal_compression": "off"}
"""Of a PostgreSQL whose changes are read."""
_ALIKE = {
    "skipped.operations": "none",  # by default truncates are
    "decimal.handling.mode": "string",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
    "poll.interval.ms": "50",
}


class Debezium(Connect):
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
        settings = {
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
            "signal.data.collection": f"{schema}.signals",
            **_ALIKE,
            **(config or {}),
        }
        super().__init__(java, broker, name, debezium_jars(java, say), settings, say)


class DebeziumOfMySQL(Connect):
    """Debezium's connector of MySQL, which reads all tables of one database of a MariaDB.

    :param name: of the connector; its topics are `<name>.<database>.<table>`.
    """

    def __init__(
        self, java: Java, broker: KafkaBroker, server: MariaDB, name: str, database: str, say: Say = silent
    ) -> None:
        settings = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "debezium",
            "database.password": PASSWORD,
            "database.server.id": "2",
            "topic.prefix": name,
            "database.include.list": database,
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(server.folder / f"{name}.history"),
            "signal.data.collection": f"{database}.signals",
            **_ALIKE,
        }
        super().__init__(java, broker, name, debezium_mysql_jars(java, say), settings, say)
