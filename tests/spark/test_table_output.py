"""The example jobs into tables, killed between their write and their report, repeated, planned anew, and woken late."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.offsets.job import job_arguments
from airflow_kafka_offsets.offsets.model import OffsetRange
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.verify import verify_reads
from airflow_kafka_offsets.spark import plan_job
from airflow_kafka_offsets.stores.runs import replace_plan
from testbed.jars import delta_jars, iceberg_jars
from testbed.java import Java
from testbed.spark_cluster import QUICK
from tests.spark.conftest import StoredPlans

ROOT = Path(__file__).parents[2]
DELTA_JOB = ROOT / "dags" / "jobs" / "kafka_to_delta.py"
ICEBERG_JOB = ROOT / "dags" / "jobs" / "kafka_to_iceberg.py"
DYING = ROOT / "tests" / "spark" / "jobs" / "dies_before_its_report.py"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # of 50, for a table of one file
}

Submit = Callable[..., tuple[int, str]]


@pytest.fixture
def submit(
    spark_environment: Mapping[str, str], spark_settings: Mapping[str, str], spark_jars: list[Path], tmp_path: Path
) -> Submit:
    """`submit(program, *arguments, jars=[], conf={})`: a driver in a process of its own; its status and its words."""

    def run(*words: object, jars: list[Path], conf: Mapping[str, str]) -> tuple[int, str]:
        quick = {"spark.driver.extraJavaOptions": QUICK, "spark.log.level": "WARN", "spark.sql.shuffle.partitions": "1"}
        settings = {**spark_settings, **quick, **conf, "spark.jars": ",".join(map(str, [*spark_jars, *jars]))}
        options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        done = subprocess.run(
            ["spark-submit", *options, *map(str, words)],
            env={**os.environ, **spark_environment, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def planned_anew(plans: StoredPlans, arguments: list[str], end: int) -> list[str]:
    """What a `re_plan` of that run, which has begun, makes: the arguments of the successor, which ends at `end`."""
    old = plan_job(arguments).plan
    (partition,) = old.partitions
    longer = replace(partition, range=OffsetRange(partition.start_offset, end))
    assert old.run is not None
    plan = replace(old, partitions=(longer,), replaces=old.plan_id, starts_all_splits=True)
    stored = replace_plan(plans.store, old.run, plan)
    return job_arguments(stored.name, plan.plan_id, 0, plans.store.uri, plans.bootstrap_servers)


def verify(plans: StoredPlans, arguments: list[str]) -> OffsetPlan:
    plan = plan_job(arguments).plan
    verify_reads(plan, plans.attempts(plan))
    return plan


def delta_offsets(table: Path) -> Counter[int]:
    """Which offsets are in the table, and how often: by the table's own log, without Spark."""
    files: set[str] = set()
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        files -= {action["remove"]["path"] for action in actions if "remove" in action}
        files |= {action["add"]["path"] for action in actions if "add" in action}
    # The log has paths as URLs of the folders' names, which are percent-encoded themselves.
    found = [str(table / re.sub("%25", "%", file)) for file in files]
    return Counter(ds.dataset(found).to_table(columns=["offset"])["offset"].to_pylist())


def each_once(count: int) -> Counter[int]:
    return Counter(range(count))


def test_a_delta_table_has_each_record_once_whatever_is_repeated(
    submit: Submit, plans: StoredPlans, filled: Callable[..., str], java: Java, tmp_path: Path
) -> None:
    topic, table, delta = filled(150), tmp_path / "orders", {"jars": delta_jars(java), "conf": DELTA}
    first = plans.arguments({(topic, 0): (0, 100)})

    assert submit(DYING, DELTA_JOB, "--table", table, *first, **delta)[0] != 0
    assert delta_offsets(table) == each_once(100)  # it died after its write
    with pytest.raises(ReadNotVerified, match="attempt 1 began and has not reported"):
        verify(plans, first)

    status, words = submit(DELTA_JOB, "--table", table, *first, **delta)
    assert status == 0, words
    assert delta_offsets(table) == each_once(100)
    verify(plans, first)

    second = planned_anew(plans, first, 150)
    status, words = submit(DELTA_JOB, "--table", table, *second, **delta)
    assert status == 0, words
    assert delta_offsets(table) == each_once(150)
    verify(plans, second)

    submit(DELTA_JOB, "--table", table, *first, **delta)  # the replaced plan's driver wakes up
    assert delta_offsets(table) == each_once(150)


def test_an_append_to_delta_lands_once_and_is_refused_where_it_would_leave_old_rows(
    submit: Submit, plans: StoredPlans, filled: Callable[..., str], java: Java, tmp_path: Path
) -> None:
    topic, table, delta = filled(150), tmp_path / "orders", {"jars": delta_jars(java), "conf": DELTA}
    first = plans.arguments({(topic, 0): (0, 100)})
    append = [DELTA_JOB, "--table", table, "--mode", "append"]

    assert submit(DYING, *append, *first, **delta)[0] != 0
    status, words = submit(*append, *first, **delta)
    assert status == 0, words
    assert delta_offsets(table) == each_once(100)
    verify(plans, first)

    second = planned_anew(plans, first, 150)
    status, words = submit(*append, *second, **delta)
    assert status != 0
    assert "replaceWhere replaces the rows" in words
    assert delta_offsets(table) == each_once(100)
    with pytest.raises(ReadNotVerified):
        verify(plans, second)


def test_an_iceberg_table_has_each_record_once_and_says_which_plan_made_it(
    submit: Submit, plans: StoredPlans, filled: Callable[..., str], java: Java, tmp_path: Path
) -> None:
    catalog = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"),
    }
    topic, table, iceberg = filled(150), "lake.db.orders", {"jars": iceberg_jars(java), "conf": catalog}
    first = plans.arguments({(topic, 0): (0, 100)})

    assert submit(DYING, ICEBERG_JOB, "--table", table, *first, **iceberg)[0] != 0
    status, words = submit(ICEBERG_JOB, "--table", table, *first, **iceberg)
    assert status == 0, words
    old = verify(plans, first)
    second = planned_anew(plans, first, 150)
    status, words = submit(ICEBERG_JOB, "--table", table, *second, **iceberg)
    assert status == 0, words
    new = verify(plans, second)

    *_, metadata = sorted((tmp_path / "lake" / "db" / "orders" / "metadata").glob("v*.metadata.json"))
    summaries = [snapshot["summary"] for snapshot in json.loads(metadata.read_text())["snapshots"]]
    made_by = [(s["kafka-offsets.plan-id"], s["kafka-offsets.attempt"], s["total-records"]) for s in summaries]
    assert made_by == [(old.plan_id, "1", "100"), (old.plan_id, "2", "100"), (new.plan_id, "1", "150")]


@pytest.mark.parametrize("name", ["kafka_to_parquet", "kafka_to_delta", "kafka_to_iceberg"])
def test_the_code_of_the_documentation_is_the_code_that_runs(name: str) -> None:
    section = (ROOT / "docs" / "output.md").read_text().split(f"[`{name}.py`]")[1]
    shown = section.split("```python\n")[1].split("```")[0]
    lines = [line.strip() for line in (ROOT / "dags" / "jobs" / f"{name}.py").read_text().splitlines()]
    assert "\n".join(line.strip() for line in shown.splitlines()) in "\n".join(lines)
