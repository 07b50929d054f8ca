"""The Python of the pages about sinks and jobs is run as it is printed; only where the output is, is the test's."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.jars import delta_jars, postgresql_jars, spark_jars
from testbed.java import Java
from testbed.postgres import PASSWORD, Postgres
from tests.docs.pages import DOCS, Block, blocks_of
from tests.spark.conftest import Plans, require_read
from tests.spark.sinks.conftest import A, rows
from tests.spark.sinks.lab import Lab


def printed(page: str) -> list[Block]:
    return [block for block in blocks_of(DOCS / page) if block.language == "python"]


JOBS = [
    block for page in ("foreachbatch.md", "time.md") for block in printed(page) if "\nfor_each_batch(" in block.code
]


SINKS = [block for block in printed("sinks.md") if "kafka_spark_batch(" not in block.code]  # tests/docs makes those


@pytest.mark.parametrize("block", SINKS, ids=str)
def test_a_sink_of_the_page_writes_a_batch(block: Block, lab: Lab, postgres: Postgres, tmp_path: Path) -> None:
    place = {"root": str(tmp_path), "name": "unused", "url": postgres.url, "password": PASSWORD}
    lab.ask("database", place=place, statement="CREATE SCHEMA IF NOT EXISTS sales")
    code = re.sub(r"(s3a://lake|abfss://[^/]+)/", f"{tmp_path}/", block.code)
    code = code.replace("jdbc:postgresql://db:5432/lake", postgres.url)
    assert lab.ask("page", code=code, rows=rows(0, 1, 2), key=A) == [A]


@pytest.fixture(scope="module")
def job_lab(java: Java, make_lab: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One whose Spark reads Kafka, too."""
    jars = ",".join(map(str, [*spark_jars(java), *delta_jars(java), *postgresql_jars(java)]))
    with make_lab(**{"spark.jars": jars, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("tables"))}) as lab:
        yield lab


@pytest.mark.parametrize("block", JOBS, ids=str)
def test_a_job_of_the_page_does_a_batch(
    block: Block, job_lab: Lab, plans: Plans, filled: Callable[..., str], tmp_path: Path
) -> None:
    batch = plans.batch({(filled(6), 0): (1, 5)})
    code = block.code.replace('"/lake/', f'"{tmp_path}/')
    job_lab.ask("page", code=code, argv=["job.py", *plans.arguments(batch)])
    require_read(batch)  # the report says that each record is there once
