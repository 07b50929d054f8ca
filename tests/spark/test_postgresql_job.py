"""docs/examples/postgresql_job.py under `spark-submit`, into a real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from testbed import jars
from testbed.java import Java
from testbed.postgres import PASSWORD, Postgres, rows_of
from testbed.spark import SMALL_QUERIES
from tests.spark.plans import PlannedBatch, Plans

JOB = Path(__file__).parents[2] / "docs" / "examples" / "postgresql_job.py"
TABLE = 'create table orders (topic text, partition int, "offset" bigint, value text, kafka_batch text)'


@pytest.mark.slow
def test_a_batch_replaces_its_rows_in_one_transaction_and_no_others(
    java: Java,
    postgres: Postgres,
    plans: Plans,
    filled: Callable[..., str],
    spark_environment: Mapping[str, str],
    spark_settings: Mapping[str, str],
) -> None:
    url, topic = postgres.new_database(), filled(10)
    rows_of(url, f"begin; {TABLE}; insert into orders values ('other', 0, 0, 'x', 'other'); commit; select 1")
    jdbc = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{url.rpartition('/')[2]}"
    database = {"ORDERS_JDBC_URL": jdbc, "ORDERS_DB_USER": "postgres", "ORDERS_DB_PASSWORD": PASSWORD}
    connectors = ",".join([spark_settings["spark.jars"], *map(str, jars.postgresql_jars(java))])
    conf = {**spark_settings, **SMALL_QUERIES, "spark.jars": connectors, "spark.log.level": "ERROR"}
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]

    def submit(batch: PlannedBatch) -> str:
        command = ["spark-submit", *options, str(JOB), "--table", "orders", *batch.arguments()]
        environment = {**os.environ, **spark_environment, **database}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout + done.stderr

    first, second = plans.batch({(topic, 0): (0, 6)}), plans.batch({(topic, 0): (6, 10)}, number=2)
    said = [submit(batch) for batch in (first, second)]
    first.plan({(topic, 0): (2, 6)})
    said.append(submit(first))

    assert [batch.problems() for batch in (first, second)] == [[], []]
    assert first.report()["output"] == f"postgresql:{jdbc.removeprefix('jdbc:postgresql://')}/orders"
    found = rows_of(url, 'select kafka_batch, "offset", value from orders order by 1, 2')
    keyed = [
        (batch.key, n, str(n)) for batch, offsets in ((first, range(2, 6)), (second, range(6, 10))) for n in offsets
    ]
    assert found == [*keyed, ("other", 0, "x")]
    tables = rows_of(url, "select tablename from pg_tables where schemaname = 'public'")
    assert tables == [("orders",)]  # nothing staged is left
    assert not any(PASSWORD in text for text in said)
