"""The files sink's contract on S3, with each committer that people configure: the same tests as on a disk.

A step of Hadoop's file system cannot be cut off there; ``tests/airflow/test_on_s3.py`` kills a driver half-way.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.cache import Say
from testbed.jars import s3a_committer_jars, s3a_jars
from testbed.java import Java
from testbed.spark import s3a_conf
from tests.spark.sinks.conftest import Output
from tests.spark.sinks.lab import Lab
from tests.spark.sinks.outputs import conf
from tests.spark.sinks.test_contract import (  # noqa: F401  the tests themselves, collected here once more
    test_a_batch_that_is_done_again_with_other_rows_replaces_them_and_no_others,
    test_old_rows_stay_if_the_source_fails_or_the_attempt_is_overtaken,
    test_what_is_written_is_read_back_and_its_key_is_listed,
)
from tests.stores.kinds import BUCKET, s3_server

pytestmark = pytest.mark.parametrize("kind", ["files", "files by date"])

CLOUD = "org.apache.spark.internal.io.cloud"
COMMITTERS = {
    "rename": {},  # Hadoop's own, Spark's default
    "directory": {"spark.hadoop.fs.s3a.committer.name": "directory"},
    "magic": {"spark.hadoop.fs.s3a.committer.name": "magic"},
}
_numbers = itertools.count()


@pytest.fixture(scope="module", params=COMMITTERS)
def lab(request: pytest.FixtureRequest, make_lab: Callable[..., Lab], java: Java, say: Say) -> Iterator[Lab]:
    jars = [*conf(java, Path())["spark.jars"].split(","), *map(str, s3a_jars(java, say))]
    settings = {**s3a_conf(s3_server().endpoint), **COMMITTERS[request.param]}
    if COMMITTERS[request.param]:
        jars += map(str, s3a_committer_jars(java, say))
        settings |= {
            "spark.sql.sources.commitProtocolClass": f"{CLOUD}.PathOutputCommitProtocol",
            "spark.sql.parquet.output.committer.class": f"{CLOUD}.BindingParquetOutputCommitter",
        }
    with make_lab(**settings, **{"spark.jars": ",".join(jars)}) as running:
        yield running


@pytest.fixture
def output_of(lab: Lab) -> Callable[[str], Output]:
    place = {"root": f"s3a://{BUCKET}/sinks", "name": f"t{next(_numbers)}"}
    return lambda kind: Output(kind, place, lab)
