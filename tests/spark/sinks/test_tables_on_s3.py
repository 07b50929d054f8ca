"""Tables on S3, where a PUT overwrites: two drivers, of which one has its commit's PUT answered by 503.

Each split is a driver of its own. The other one commits before the PUT is sent again.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed.cache import Say
from testbed.checks import names_below
from testbed.dynamodb_server import DynamoDBServer
from testbed.http_proxy import HttpProxy
from testbed.jars import delta_dynamodb_jars, s3a_jars
from testbed.java import Java
from testbed.postgres import PASSWORD, Postgres
from testbed.spark import s3a_conf
from tests.spark.sinks.conftest import A, B, Output, rows, seen
from tests.spark.sinks.lab import Failed, Lab
from tests.spark.sinks.outputs import conf
from tests.stores.kinds import BUCKET, s3_server

ROOT = f"s3a://{BUCKET}/tables"
COLUMNS = (
    "kafka_batch STRING, kafka_split INT, topic STRING, partition INT, offset BIGINT, dt DATE, value STRING, id INT"
)
COMMIT = r"(_delta_log/.*\.json|metadata/\d+-[^/]*\.metadata\.json)"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def proxy() -> Iterator[HttpProxy]:
    with HttpProxy(s3_server().endpoint) as running:
        yield running


@pytest.fixture(scope="module")
def labs(
    make_lab: Callable[..., Lab], java: Java, say: Say, proxy: HttpProxy, postgres: Postgres
) -> Iterator[list[Lab]]:
    """Two drivers; the first one's requests to S3 go through the proxy."""
    jars = [conf(java, Path())["spark.jars"], *map(str, [*s3a_jars(java, say), *delta_dynamodb_jars(java, say)])]
    catalog = "spark.sql.catalog.jdbc"
    settings = {
        "spark.jars": ",".join(jars),
        "spark.sql.catalog.lake.warehouse": f"{ROOT}/lake",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": postgres.url,
        f"{catalog}.jdbc.user": "postgres",
        f"{catalog}.jdbc.password": PASSWORD,
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"{ROOT}/jdbc",
    }
    with (
        make_lab(**settings, **s3a_conf(proxy.url)) as proxied,
        make_lab(**settings, **s3a_conf(s3_server().endpoint)) as plain,
    ):
        yield [proxied, plain]


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[DynamoDBServer]:
    with DynamoDBServer() as server:
        yield server


@pytest.fixture
def outputs_of(labs: list[Lab]) -> Callable[[str], list[Output]]:
    """`outputs_of(kind)`: a new one, as each driver has it."""
    place = {"root": ROOT, "name": f"t{next(_numbers)}"}
    return lambda kind: [Output(kind, place, lab) for lab in labs]


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("delta", "spark.delta.logStore.s3a.impl=io.delta.storage.S3DynamoDBLogStore"),
        ("delta table", "spark.delta.logStore.s3a.impl=io.delta.storage.S3DynamoDBLogStore"),
        ("upsert delta", "spark.delta.logStore.s3a.impl=io.delta.storage.S3DynamoDBLogStore"),
        ("iceberg", "a catalog of type jdbc, rest"),
    ],
)
def test_what_lets_two_drivers_overwrite_each_other_is_refused_before_anything_is_written(
    kind: str, remedy: str, outputs_of: Callable[[str], list[Output]]
) -> None:
    output, _ = outputs_of(kind)
    if kind == "delta table":  # its database is on S3; the table is not there yet
        output.lab.ask("sql", statement=f"CREATE DATABASE on_s3 LOCATION '{ROOT}'")
        output.place = {**output.place, "name": f"on_s3.{output.place['name']}"}
    with pytest.raises(
        Failed, match=f"InvalidRequest: .*two drivers overwrite each other's commit.*{re.escape(remedy)}"
    ):
        output.write(A, rows(0))
    assert not [name for name in names_below(f"s3://{BUCKET}/tables")[1] if output.place["name"].split(".")[-1] in name]


def test_a_delta_table_that_is_there_is_refused_too(outputs_of: Callable[[str], list[Output]]) -> None:
    output, _ = outputs_of("delta")
    output.lab.ask("sql", statement=_created(output, {}))
    with pytest.raises(Failed, match="two drivers overwrite each other's commit"):
        output.write(A, rows(0))


@pytest.mark.parametrize("kind", ["delta", "iceberg of a jdbc catalog"])
def test_two_drivers_have_all_rows_in_a_table_that_excludes_two_writers(
    kind: str, outputs_of: Callable[[str], list[Output]], proxy: HttpProxy, dynamodb: DynamoDBServer
) -> None:
    first, second = outputs_of(kind)
    if kind == "delta":
        coordinator = {"dynamoDBTableName": "commits", "dynamoDBEndpoint": dynamodb.endpoint}
        properties = {
            "delta.coordinatedCommits.commitCoordinator-preview": "dynamodb",
            "delta.coordinatedCommits.commitCoordinatorConf-preview": json.dumps(coordinator),
        }
        first.lab.ask("sql", statement=_created(first, properties))
    first.write(B, rows(5))
    meanwhile: list[Any] = []

    def is_the_commit(method: str, path: str) -> bool:
        ours = method == "PUT" and re.search(f"/{first.place['name']}/{COMMIT}", path) is not None
        if ours and not meanwhile:
            meanwhile.append(second.write(A, rows(1), split=1))
        return ours

    proxy.faults, proxy.meant = [503], is_the_commit
    try:
        read = first.write(A, rows(0), split=0)["read"]
    finally:
        proxy.disarm()
    assert (read, meanwhile[0]["read"]) == (seen(rows(0)), seen(rows(1))), "each finds its own rows"
    assert second.view() == {f"{A}/0": seen(rows(0)), f"{A}/1": seen(rows(1)), f"{B}/0": seen(rows(5))}


def _created(output: Output, properties: Mapping[str, str]) -> str:
    given = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    return (
        f"CREATE TABLE delta.`{ROOT}/{output.place['name']}` ({COLUMNS}) USING delta PARTITIONED BY (kafka_split) "
        + (f"TBLPROPERTIES ({given})" if given else "")
    )
