"""What Debezium's connector of MySQL sends, for the tests to replay: ``python -m tests.spark.merge.record_mysql``.

The server is a MariaDB. Of the servers of this protocol it is the one that Debian has.
"""

from __future__ import annotations

import json

from testbed.broker import KafkaBroker
from testbed.debezium import DebeziumOfMySQL
from testbed.java import find_java
from testbed.mariadb import MariaDB
from testbed.topics import wait_for
from tests.spark.merge.record_debezium import FOLDER, length, read_topic

TOPIC = "shop.shop.customers"
BEFORE = [
    "create database shop",
    "create table shop.signals (id varchar(42) primary key, type varchar(32), data varchar(2048))",
    "create table shop.customers (id bigint primary key, name text, doc text, photo blob, balance decimal(10, 2), "
    "born date)",
    "insert into shop.customers values (1, 'Ann', repeat('x', 100), x'abcd', 1.50, '1990-01-02'), "
    "(2, 'Bob', 'short', null, null, null), (3, 'Cem', null, null, 0, null)",
]
CHANGES = [
    "insert into shop.customers values (4, 'Dee', repeat('y', 100), null, 12345678.90, null)",
    "update shop.customers set name = 'Anna' where id = 1",
    "update shop.customers set doc = repeat('z', 100) where id = 4",
    "update shop.customers set name = 'Dea', born = '2001-02-03' where id = 4",
    "update shop.customers set id = 20 where id = 2",
    "delete from shop.customers where id = 3",
    "delete from shop.customers where id = 20",
    "insert into shop.customers values (3, 'Cem II', null, null, null, null)",
    "alter table shop.customers add column note text",
    "alter table shop.customers drop column born",
    "update shop.customers set note = 'new' where id = 1",
    "truncate table shop.customers",
    "insert into shop.customers (id, name, doc, photo, balance) values (1, 'Ann again', 'w', x'0102', 2.50), "
    "(2, 'Eve', 'v', null, null), (3, 'Fay', null, null, 7)",
    "update shop.customers set name = 'Ann at last' where id = 1",
    "update shop.customers set id = id + 1 order by id desc",  # keys are deleted and created in one event of the server
]
CHANGED = 15 + 1 + 1 + 3 + 1 + 3 * 3
"""How many records there are then: up to the new columns, and for each statement behind them."""
SNAPSHOT = json.dumps({"type": "incremental", "data-collections": ["shop.customers"]})
ROW = (
    "json_object('id', id, 'name', name, 'doc', doc, 'photo', concat('\\\\x', lower(hex(photo))), 'balance', balance, "
    "'note', note)"
)


def main() -> None:
    java = find_java(print)
    with MariaDB() as server, KafkaBroker(java=java) as broker:
        server.sql(*BEFORE)
        with DebeziumOfMySQL(java, broker, server, "shop", "shop", print):
            wait_for("the snapshot is there", lambda: length(broker, TOPIC) == 3)
            server.sql(*CHANGES)
            wait_for("the changes are there", lambda: length(broker, TOPIC) == CHANGED)
            server.sql(f"insert into shop.signals values ('1', 'execute-snapshot', '{SNAPSHOT}')")
            wait_for("the incremental snapshot is there", lambda: length(broker, TOPIC) == CHANGED + 3)
            server.sql("update shop.customers set name = 'Eva' where id = 3")
            wait_for("all has been sent", lambda: length(broker, TOPIC) == CHANGED + 4)
            lines = ",\n".join(map(json.dumps, read_topic(broker, TOPIC)))
        rows = [json.loads(row) for row in server.sql(f"select {ROW} from shop.customers")]
    (FOLDER / "mysql.json").write_text(f'{{"records": [\n{lines}\n], "rows": {json.dumps(rows)}}}\n')


if __name__ == "__main__":
    main()
