"""What a real Debezium connector sends, for the tests to replay: ``python -m tests.spark.merge.record_debezium``.

PostgreSQL, Kafka Connect and Kafka are the testbed's. Of each table there are the records of its topic and the rows
that it has in the end, as ``tests/spark/merge/debezium/<table>.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from testbed.broker import KafkaBroker
from testbed.debezium import SETTINGS, Debezium
from testbed.java import Java, find_java
from testbed.postgres import Postgres, rows_of
from testbed.topics import wait_for

FOLDER = Path(__file__).with_name("debezium")
TABLES = ("customers", "notes", "stock")
Record = tuple[str | None, str | None]
"""Key and value."""

_COLUMNS = "name text, doc text, photo bytea, balance numeric(10, 2), born date, primary key (id)"
_LONG = "repeat('{0}', 2500)"  # not in the row itself, so an update that leaves it alone does not send it
BEFORE = [
    "create schema shop",
    "create table shop.signals (id varchar(42) primary key, type varchar(32), data varchar(2048))",
    f"create table shop.customers (id bigint, {_COLUMNS})",
    f"create table shop.notes (id bigint, {_COLUMNS})",
    "alter table shop.notes replica identity full",
    "create table shop.stock (shop text, item int, count int, primary key (shop, item))",
    *(
        f"alter table shop.{table} alter column {column} set storage external"
        for table in ("customers", "notes")
        for column in ("doc", "photo")
    ),
    *(
        f"insert into shop.{table} values (1, 'Ann', {_LONG.format('x')}, decode({_LONG.format('ab')}, 'hex'), 1.50, "
        "'1990-01-02'), (2, 'Bob', 'short', null, null, null), (3, 'Cem', null, null, 0, null)"
        for table in ("customers", "notes")
    ),
    "insert into shop.stock values ('Lyon', 1, 10), ('Lyon', 2, 20), ('Porto', 1, 30)",
]


def _changes(table: str) -> list[str]:
    return [
        f"insert into shop.{table} values (4, 'Dee', {_LONG.format('y')}, null, 12345678.90, null)",
        f"update shop.{table} set name = 'Anna' where id = 1",
        f"update shop.{table} set doc = {_LONG.format('z')} where id = 4",
        f"update shop.{table} set name = 'Dea', born = '2001-02-03' where id = 4",
        f"update shop.{table} set id = 20 where id = 2",
        f"delete from shop.{table} where id = 3",
        f"delete from shop.{table} where id = 20",
        f"insert into shop.{table} values (3, 'Cem II', null, null, null, null)",
        f"alter table shop.{table} add column note text",
        f"alter table shop.{table} drop column born",
        f"update shop.{table} set note = 'new' where id = 1",
    ]


CHANGES = [
    *_changes("customers"),
    *_changes("notes"),
    "update shop.stock set count = count + 1 where shop = 'Lyon'",
    "update shop.stock set item = 3 where shop = 'Porto'",
    "truncate shop.customers",
    f"insert into shop.customers (id, name, doc) values (1, 'Ann again', {_LONG.format('w')}), (5, 'Eve', null)",
    "update shop.customers set name = 'Ann at last' where id = 1",
    "insert into shop.signals values ('1', 'execute-snapshot', "
    """'{{"type": "incremental", "data-collections": ["shop.notes"]}}')""".replace("{{", "{").replace("}}", "}"),
]
LAST = "insert into shop.stock values ('end', 0, 0)"


@dataclass
class Recorded:
    """:ivar records: of each table; :ivar rows: what it has in the end, columns that it has lost left out."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    rows: dict[str, list[dict[str, object]]] = field(default_factory=dict)


@contextmanager
def changed(java: Java, broker: KafkaBroker, **config: str) -> Iterator[tuple[Postgres, str]]:
    """A database that was changed, and the name of the connector, which has sent all of it."""
    with ExitStack() as stack:
        postgres = stack.enter_context(Postgres(java, settings=SETTINGS))
        postgres.change(*BEFORE)
        connector = stack.enter_context(Debezium(java, broker, postgres, "shop", "shop", config))
        wait_for("the snapshot is there", lambda: length(broker, "shop.shop.stock") == 3)
        postgres.change(*CHANGES)
        wait_for("the incremental snapshot is there", lambda: length(broker, "shop.shop.notes") >= 3 + 12 + 3)
        postgres.change(LAST)
        wait_for("all has been sent", lambda: length(broker, "shop.shop.stock") == 3 + 2 + 3 + 1)
        yield postgres, connector.name


def record(java: Java, broker: KafkaBroker, **config: str) -> Recorded:
    found = Recorded()
    with changed(java, broker, **config) as (postgres, name):
        for table in TABLES:
            found.records[table] = list(read_topic(broker, f"{name}.shop.{table}"))
            query = f"select json_agg(t) from shop.{table} t"
            ((found.rows[table],),) = rows_of(postgres.sqlalchemy_url, query)
    return found


def length(broker: KafkaBroker, topic: str) -> int:
    try:
        return broker.offset_bounds(topic)[0][1]
    except Exception:  # it is not there yet
        return 0


def read_topic(broker: KafkaBroker, topic: str) -> Iterator[Record]:
    consumer = Consumer({**broker.client_config, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        for _ in range(length(broker, topic)):
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            key, value = (None if part is None else part.decode() for part in (message.key(), message.value()))
            yield key, value
    finally:
        consumer.close()


def main() -> None:
    java = find_java(print)
    for folder, with_schema in ((FOLDER, "false"), (FOLDER / "with_schema", "true")):
        folder.mkdir(exist_ok=True)
        more = {f"{part}.converter.schemas.enable": with_schema for part in ("key", "value")}
        more |= {f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")}
        with KafkaBroker(java=java) as broker:
            found = record(java, broker, **more)
        for table in TABLES if with_schema == "false" else ("stock",):
            lines = ",\n".join(json.dumps(each) for each in found.records[table])
            text = f'{{"records": [\n{lines}\n], "rows": {json.dumps(found.rows[table])}}}\n'
            (folder / f"{table}.json").write_text(text)


if __name__ == "__main__":
    main()
