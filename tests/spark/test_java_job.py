"""docs/examples/ReportBatch.java has nothing of this package: it is compiled, submitted, and verified like our jobs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.stores.open import open_store
from testbed.java import Java
from testbed.java_compiler import compile_jar
from testbed.spark import s3a_conf
from testbed.spark_cluster import QUICK
from tests.spark.conftest import Plans, attempts, planned_anew, proofs, require_read
from tests.stores.kinds import BUCKET, s3_server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "ReportBatch.java"
Filled = Callable[..., str]
Submit = Callable[..., tuple[int, str]]


@pytest.fixture(scope="session")
def job(java: Java, spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, and jobs of bad manners that use it, against Spark's own jars."""
    import pyspark

    spark = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    sources = [EXAMPLE, *sorted(Path(__file__).with_name("jobs").glob("*.java"))]
    return compile_jar(java, sources, [*spark, *spark_jars], tmp_path_factory.mktemp("java") / "job.jar")


@pytest.fixture
def settings(spark_settings: Mapping[str, str]) -> dict[str, str]:
    return {**spark_settings, "spark.driver.extraJavaOptions": QUICK, "spark.sql.shuffle.partitions": "1"}


@pytest.fixture
def submit(job: Path, settings: Mapping[str, str], spark_environment: Mapping[str, str], tmp_path: Path) -> Submit:
    """`submit(arguments, main=…, conf=…)`: a driver in a process of its own; its status and its words."""

    def run(arguments: list[str], main: str = "ReportBatch", conf: Mapping[str, str] | None = None) -> tuple[int, str]:
        options = [word for pair in {**settings, **(conf or {})}.items() for word in ("--conf", "=".join(pair))]
        command = ["spark-submit", *options, "--class", main, str(job), "--output", str(tmp_path / "out"), *arguments]
        environment = {**os.environ, **spark_environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    return run


def rows_of(batch: StoredBatch, output: Path, split: int = 0) -> list[int]:
    """The offsets in the folder of a split."""
    name = batch.log.plan.batch
    assert name is not None
    table = ds.dataset(str(output / f"kafka_batch={name.key}" / f"kafka_split={split}")).to_table()
    return sorted(table["offset"].to_pylist())


def test_the_operator_submits_a_jar_and_its_report_is_verified_like_ours(
    job: Path,
    settings: Mapping[str, str],
    spark_environment: Mapping[str, str],
    plans: Plans,
    filled: Filled,
    tmp_path: Path,
    airflow: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = filled(100, partitions=2)
    batch = plans.batch({(topic, 0): (3, 40), (topic, 1): (0, 50)})
    for name, value in spark_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_JAVA", '{"conn_type": "spark", "host": "local[2]"}')
    operator = SparkSubmitPlanOperator(
        task_id="spark",
        conn_id="spark_java",
        application=str(job),
        java_class="ReportBatch",
        application_args=["--output", str(tmp_path / "out"), *plans.arguments(batch)],
        conf=dict(settings),
        packages="",
    )
    context: Any = {}
    operator.execute(context)
    require_read(batch)
    assert (attempts(batch), proofs(batch)) == ([1], ["rows"])
    assert rows_of(batch, tmp_path / "out") == sorted([*range(3, 40), *range(50)])

    planned_anew(batch, plans.plan({(topic, 0): (3, 40)}, batch=batch.log.plan.batch))
    with pytest.raises(ReadNotVerified, match=f"read plan {batch.log.plan.plan_id}, not "):
        require_read(batch)


def test_as_many_rows_as_records_and_one_of_them_twice_is_refused(
    submit: Submit, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    status, words = submit(plans.arguments(batch), main="LosesOne")
    assert status == 0, words[-3_000:]
    assert len(rows_of(batch, tmp_path / "out")) == 10
    with pytest.raises(ReadNotVerified, match="twice: 10 rows for 9 different offsets"):
        require_read(batch)


def test_of_two_splits_the_one_that_nobody_has_reported_is_named(submit: Submit, plans: Plans, filled: Filled) -> None:
    topic = filled(20, partitions=2)
    batch = plans.batch({(topic, 0): (0, 10), (topic, 1): (0, 10)}, splits=2)
    status, words = submit(plans.arguments(batch, split=1))
    assert status == 0, words[-3_000:]
    with pytest.raises(ReadNotVerified, match="split 0: no Spark job has begun to read it") as refused:
        require_read(batch)
    assert "split 1" not in str(refused.value)


def test_a_job_of_a_plan_that_was_replaced_stops_before_it_begins(
    submit: Submit, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    late = plans.arguments(batch)
    planned_anew(batch, plans.plan({(topic, 0): (0, 8)}, batch=batch.log.plan.batch))
    status, words = submit(late)
    assert (status, "was planned anew: nothing was begun" in words) == (1, True), words[-3_000:]
    assert (attempts(batch), (tmp_path / "out").exists()) == ([], False)


def test_records_that_are_gone_stop_it_before_it_begins(
    submit: Submit, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    plans.broker.delete_records({(topic, 0): 4})
    status, words = submit(plans.arguments(batch))
    assert (status, "records are gone from Kafka. Nothing was begun" in words) == (1, True), words[-3_000:]
    assert (attempts(batch), (tmp_path / "out").exists()) == ([], False)


def test_a_late_driver_that_has_not_written_takes_nothing_from_the_newer_one(
    submit: Submit, plans: Plans, filled: Filled
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    status, words = submit([*plans.arguments(batch), "before"], main="Overtaken")
    assert (status, "late: Another job does split 0" in words) == (0, True), words[-3_000:]
    require_read(batch)
    assert attempts(batch) == [1, 2]


def test_where_a_late_driver_has_written_too_nothing_is_verified_until_the_split_is_written_anew(
    submit: Submit, plans: Plans, filled: Filled
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    status, words = submit([*plans.arguments(batch), "after"], main="Overtaken")
    assert (status, "write it anew" in words) == (1, True), words[-3_000:]
    with pytest.raises(ReadNotVerified, match="attempt 3 began and has not reported"):
        require_read(batch)


def test_where_offsets_have_no_record_the_output_is_compared_and_the_work_store_may_be_on_s3(
    submit: Submit, plans: Plans, with_transactions: str, s3a_jars: list[Path], spark_jars: list[Path], tmp_path: Path
) -> None:
    server = s3_server()
    store = open_store(f"s3://{BUCKET}/{tmp_path.name}")
    on_s3 = Plans(store, plans.broker)  # type: ignore[arg-type]
    batch = on_s3.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    conf = {**s3a_conf(server.endpoint), "spark.jars": ",".join(map(str, [*spark_jars, *s3a_jars]))}
    status, words = submit(on_s3.arguments(batch), conf=conf)
    assert status == 0, words[-3_000:]
    require_read(batch)
    assert (proofs(batch), rows_of(batch, tmp_path / "out")) == (["compared"], [0, 1, 2, 3, 4, 10, 11])
