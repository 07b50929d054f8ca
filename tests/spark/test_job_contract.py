"""docs/job-contract.md: the Python job and the Java job (docs/examples/ReportBatch.java) pass the same suite."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Batch, Sink, for_each_batch
from testbed.broker import KafkaBroker
from testbed.java import Java
from testbed.java_compiler import compile_jar
from testbed.spark import QUICK, SMALL_QUERIES
from tests.spark.plans import PlannedBatch, Plans, encode

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
OURS = "delta:/lake/orders"
Filled = Callable[..., str]


class JobFailed(Exception):
    """What the job said when it stopped."""


class Job(Protocol):
    """A job that overwrites the folder of its batch and reads it back."""

    def run(self, task: Mapping[str, Any]) -> None:
        """:raises JobFailed:"""


@dataclass
class PythonJob:
    spark: SparkSession

    def run(self, task: Mapping[str, Any]) -> None:
        try:
            for_each_batch(self.spark, Folder(task), task["arguments"])
        except Exception as error:
            raise JobFailed(str(error)) from error


class Folder(Sink):
    def __init__(self, task: Mapping[str, Any]) -> None:
        self.task, self.output = task, str(task["output"])

    def write(self, batch: Batch, rows: DataFrame) -> DataFrame:
        folder = f"{self.task['folder']}/kafka_batch={batch.key}"
        written = rows.select("topic", "partition", "offset").where(self.task["where"])
        written.write.mode("overwrite").parquet(folder)
        for name, text in self.task["meanwhile"].items():
            Path(name).write_text(text)
        return batch.spark.read.parquet(folder)


@dataclass
class JavaJob:
    process: subprocess.Popen[str]

    def run(self, task: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(task)}\n")
        self.process.stdin.flush()
        if words := json.loads(self.next("ENDED ")):
            raise JobFailed(words)

    def next(self, beginning: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line.removeprefix(beginning)
        raise AssertionError("the Java driver has ended")


@pytest.fixture(scope="module")
def java_job(
    java: Java,
    spark_jars: list[Path],
    spark_settings: Mapping[str, str],
    spark_environment: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[JavaJob]:
    import pyspark

    folder = tmp_path_factory.mktemp("java")
    sources = [ROOT / "docs" / "examples" / "ReportBatch.java", ROOT / "tests" / "spark" / "jobs" / "Lines.java"]
    classpath = [*sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar")), *spark_jars]
    jar = compile_jar(java, sources, classpath, folder / "job.jar")
    conf = {**spark_settings, **SMALL_QUERIES, "spark.driver.extraJavaOptions": QUICK, "spark.log.level": "OFF"}
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    process = subprocess.Popen(
        ["spark-submit", *options, "--class", "Lines", str(jar)],
        env={**os.environ, **spark_environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "errors").open("w"),
        text=True,
        cwd=folder,
    )
    job = JavaJob(process)
    job.next("READY")
    yield job
    process.communicate(timeout=60)


@dataclass
class Driver:
    """The job in one of its languages, on folders of the test's own."""

    job: Job
    folder: Path

    def do(
        self,
        batch: PlannedBatch,
        arguments: list[str] | None = None,
        where: str = "true",
        output: str = OURS,
        meanwhile: Mapping[str, str] | None = None,
    ) -> None:
        """`where`: which rows are written. `meanwhile`: files that appear after the write."""
        task = {"where": where, "output": output, "folder": str(self.folder), "meanwhile": meanwhile or {}}
        self.job.run({"arguments": batch.arguments() if arguments is None else arguments, **task})

    def offsets(self, batch: PlannedBatch) -> list[tuple[str, int, int]]:
        import pyarrow.parquet as pq

        table = pq.read_table(self.folder / f"kafka_batch={batch.key}", columns=["topic", "partition", "offset"])
        return sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


@pytest.fixture(params=["python", pytest.param("java", marks=pytest.mark.slow)])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    if request.param == "java":
        return Driver(request.getfixturevalue("java_job"), tmp_path / "out")
    return Driver(PythonJob(request.getfixturevalue("spark")), tmp_path / "out")


# ── what is read and reported ─────────────────────────────────────────────────────────────────────────────────────────


def test_exactly_the_planned_records_are_written_and_reported(driver: Driver, plans: Plans, filled: Filled) -> None:
    topic, other = filled(40, partitions=2), filled(5)
    ranges = {(topic, 0): (3, 9), (topic, 1): (7, 7), (other, 0): (0, 5)}
    batch = plans.batch(ranges, skips=[((topic, 0), (5, 6)), ((topic, 0), (7, 8))], pipeline="orders%2F0-of-2")
    driver.do(batch, arguments=["--mine", "x", *batch.arguments()])
    assert batch.problems() == []
    assert driver.offsets(batch) == sorted([*((topic, 0, n) for n in (3, 4, 6, 8)), *((other, 0, n) for n in range(5))])
    counts = {"rows": 4, "bad": 0, "filtered": 0, "offsets": 4, "gaps": 0, "first": 3, "last": 8}
    assert batch.counts((topic, 0)) == counts
    assert (batch.report()["job"], batch.report()["output"]) == (None, OURS)
    assert not list(batch.folder.glob(".*")), "there are no drafts, and no files of checksums"


def test_a_batch_without_records_is_written_and_reported(driver: Driver, plans: Plans) -> None:
    batch = plans.batch({("nowhere", 0): (4, 4)})
    driver.do(batch)
    assert (batch.problems(), driver.offsets(batch)) == ([], [])


def test_offsets_that_have_no_record_are_reported_as_gaps(driver: Driver, plans: Plans, with_transactions: str) -> None:
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    driver.do(batch)
    assert (batch.problems(), batch.counts((with_transactions, 0))["gaps"]) == ([], 5)


def test_a_row_that_is_lost_is_no_gap(driver: Driver, plans: Plans, with_transactions: str) -> None:
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    driver.do(batch, where="offset != 3")
    assert batch.problems() == [f"{(with_transactions, 0)}: 6 offsets and 0 gaps of 12"]


def test_records_that_are_gone_fail_the_job(driver: Driver, plans: Plans, filled: Filled, broker: KafkaBroker) -> None:
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    broker.delete_records({(topic, 0): 4})
    with pytest.raises(JobFailed):
        driver.do(batch)
    assert (batch.attempts, batch.names("report")) == ([1], [])


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_later_attempt_at_the_batch_replaces_a_wrong_one(driver: Driver, plans: Plans, filled: Filled) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    driver.do(batch, where="offset != 4")
    assert batch.problems() != []
    driver.do(batch)
    assert (batch.attempts, batch.problems(), len(driver.offsets(batch))) == ([1, 2], [], 10)


@pytest.mark.parametrize(
    "name", ["1-other.begun.json", "12-other.begun.json", "2.json", "3.json"], ids=["same", "higher", "plan", "commit"]
)
def test_a_job_that_has_lost_its_place_reports_nothing(driver: Driver, plans: Plans, filled: Filled, name: str) -> None:
    batch = plans.batch({(filled(3), 0): (0, 3)})
    if name == "3.json":
        batch.continued()
    entry = {"2.json": "plan", "3.json": "commit"}.get(name)
    late = encode({"version": 1, "plan_id": "x", "job": None, "output": None, "entry": entry}).decode()
    with pytest.raises(JobFailed, match=r"stops|begun since"):
        driver.do(batch, batch.arguments(entry=1), meanwhile={str(batch.folder / name): late})
    assert batch.names("report") == []


@pytest.mark.parametrize("last", ["plan", "commit"])
def test_a_late_job_begins_nothing(driver: Driver, plans: Plans, last: str) -> None:
    batch = plans.batch({("nowhere", 0): (0, 0)})
    batch = batch.plan({("nowhere", 0): (0, 0)}) if last == "plan" else batch.append("commit")
    with pytest.raises(JobFailed, match="stops"):
        driver.do(batch, batch.arguments(entry=1))
    assert (batch.attempts, driver.folder.exists()) == ([], False)


def test_a_run_that_continues_a_batch_leaves_its_driver_the_place(driver: Driver, plans: Plans, filled: Filled) -> None:
    """It appends the same plan with its own name."""
    batch = plans.batch({(filled(3), 0): (0, 3)}).continued()
    driver.do(batch, batch.arguments(entry=1))
    assert batch.problems() == []


@pytest.mark.parametrize(
    ("planned", "refused"), [(None, False), (OURS, False), ("delta:/old", True)], ids=["any", "the same", "another"]
)
def test_another_output_than_the_pipelines_is_refused_before_the_attempt(
    driver: Driver, plans: Plans, planned: str | None, refused: bool
) -> None:
    batch = plans.batch({("nowhere", 0): (0, 0)}, output=planned, identity=4)
    batch.begun(1, "delta:/older")
    if not refused:
        driver.do(batch)
        assert batch.attempts == [1, 2]
        return
    with pytest.raises(JobFailed, match=f"writes {OURS}, .* writes delta:/old") as raised:
        driver.do(batch)
    assert batch.attempts == [1]
    act = json.loads(re.findall(r"with the conf (.*)", str(raised.value))[0])["kafka_offsets"]
    assert act == {"pipeline": "orders", "after": 4, "reason": "why", "acknowledge": {"output": OURS}}


# ── objects and arguments ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["1.json", "1-*.ranges.json"])
@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda data: data[:-9], "cut off or altered"),
        (lambda data: data.replace(b'"version":1', b'"version":2'), "cut off or altered"),
        (None, "is not there"),
    ],
    ids=["torn", "altered", "missing"],
)
def test_a_damaged_plan_is_refused(driver: Driver, plans: Plans, name: str, spoil: Any, cause: str) -> None:
    batch = plans.batch({("nowhere", 0): (0, 0)})
    (file,) = batch.folder.glob(name)
    data = file.read_bytes()
    file.unlink()
    if spoil is not None:
        file.write_bytes(spoil(data))
    with pytest.raises(JobFailed, match=cause):
        driver.do(batch)
    assert batch.attempts == []


def test_a_job_without_arguments_is_refused(driver: Driver, plans: Plans) -> None:
    with pytest.raises(JobFailed, match="started without arguments"):
        driver.do(plans.batch({("nowhere", 0): (0, 0)}), arguments=[])
