"""What `spark-submit` lacks on a worker is found before anything is submitted."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.spark_installation import (
    SparkInstallation,
    find_spark,
    packages_for,
    settings_for,
    settings_of,
    variables_for,
)
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.plan.splits import FEW_RECORDS
from airflow_kafka_offsets.stores.local import LocalStore
from tests.builders import job_arguments, plan, planned

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


def spark_at(folder: Path, version: str = "4.0.0", scala: str = "2.13", jars: tuple[str, ...] = ()) -> dict[str, str]:
    """A Spark as it is unpacked, with a Java beside it; the variables of a machine that has them on its PATH."""
    for name in ("bin/spark-submit-of-the-test", "java/java"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    (folder / "jars").mkdir()
    for name in (f"spark-core_{scala}-{version}.jar", *jars):
        (folder / "jars" / name).touch()
    return {"PATH": f"{folder / 'bin'}:{folder / 'java'}"}


def test_a_worker_without_spark_and_java_is_told_both_with_the_commands_that_help(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as refused:
        find_spark("spark-submit-of-the-test", {"PATH": str(tmp_path)})
    spark, java = refused.value.problems
    assert "no spark-submit-of-the-test on this worker" in spark
    assert "pip install 'airflow-kafka-offsets[spark]'" in spark
    assert "apt install openjdk-17-jre-headless" in java


def test_a_java_home_that_has_no_java_is_no_java(tmp_path: Path) -> None:
    environ = {**spark_at(tmp_path), "JAVA_HOME": str(tmp_path / "nowhere")}
    with pytest.raises(InvalidRequest, match="no Java on this worker"):
        find_spark("spark-submit-of-the-test", environ)


def test_the_version_of_a_spark_is_that_of_its_own_jar(tmp_path: Path) -> None:
    environ = spark_at(tmp_path, version="3.5.7", scala="2.12")
    spark = find_spark("spark-submit-of-the-test", environ)
    assert (spark.home, spark.version, spark.scala, spark.minor) == (tmp_path, "3.5.7", "2.12", "3.5")


def test_two_versions_in_one_folder_are_told_the_pair_that_can_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pyspark-client has a pyspark of its version. pyspark 4.3.0 has no client, and no Kafka connector."""
    environ = spark_at(tmp_path / "pyspark", version="4.3.0")
    for name, version in (("pyspark", "4.3.0"), ("pyspark_client", "4.2.0")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidRequest, match=r"'pyspark==4\.2\.0' 'pyspark-client==4\.2\.0'"):
        find_spark("spark-submit-of-the-test", environ)


def test_pyspark_of_a_venv_that_is_not_activated_is_found_and_runs_this_python(tmp_path: Path) -> None:
    java = spark_at(tmp_path)["PATH"].split(":")[1]
    spark = find_spark("spark-submit", {"PATH": java})
    assert spark.submit == Path(sys.executable).parent / "spark-submit"
    assert spark.home is not None
    assert spark.home.name == "pyspark"
    variables = variables_for(spark, {"PATH": java})
    assert variables == {"PATH": f"{spark.submit.parent}:{java}", "PYSPARK_DRIVER_PYTHON": sys.executable}


def test_variables_that_somebody_has_set_stay(tmp_path: Path) -> None:
    environ = {**spark_at(tmp_path), "PYSPARK_PYTHON": "/opt/python"}
    assert variables_for(find_spark("spark-submit-of-the-test", environ), environ) == {}


@pytest.mark.parametrize(
    ("formats", "expected"),
    [
        ([], [KAFKA]),
        (["parquet"], [KAFKA]),
        (["delta", "avro"], [KAFKA, "io.delta:delta-spark_2.13:4.0.0", "org.apache.spark:spark-avro_2.13:4.0.0"]),
        (["avro"], [KAFKA, "org.apache.spark:spark-avro_2.13:4.0.0"]),
        (["delta"], [KAFKA, "io.delta:delta-spark_2.13:4.0.0"]),
        (["iceberg"], [KAFKA, "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"]),
        (["jdbc"], [KAFKA, "org.postgresql:postgresql:42.7.14"]),
    ],
)
def test_packages_follow_from_the_installed_spark_and_the_sink(
    tmp_path: Path, formats: list[str], expected: list[str]
) -> None:
    spark = find_spark("spark-submit-of-the-test", spark_at(tmp_path))
    assert packages_for(spark, formats, {}) == expected


def test_delta_is_not_given_to_a_spark_that_does_not_start_with_it(tmp_path: Path) -> None:
    """Spark 3.5.0 with Delta 3.3.2: tests/matrix, row `lowest`."""
    for version, known in (("3.5.0", False), ("3.5.2", False), ("3.5.3", True), ("3.5.7", True)):
        folder = tmp_path / version
        folder.mkdir()
        spark = find_spark("spark-submit-of-the-test", spark_at(folder, version=version))
        if known:
            assert any("delta-spark" in package for package in packages_for(spark, ["delta"], {}))
        else:
            with pytest.raises(InvalidRequest, match=r"fits Spark 3\.5\.\d .* from Spark 3\.5\.3, 4\.0\.0, 4\.2\.0 on"):
                packages_for(spark, ["delta"], {})
        assert any("iceberg" in package for package in packages_for(spark, ["iceberg"], {}))


@pytest.mark.parametrize("sink", ["delta", "iceberg"])
def test_a_table_format_that_is_not_known_for_the_spark_is_refused_with_what_to_set(tmp_path: Path, sink: str) -> None:
    spark = find_spark("spark-submit-of-the-test", spark_at(tmp_path, version="4.9.0"))
    connector = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.9.0"
    with pytest.raises(InvalidRequest) as refused:
        packages_for(spark, [sink], {})
    (problem,) = refused.value.problems
    assert re.match(
        rf"Which {sink}-spark\S* fits Spark 4.9.0 in {tmp_path} is not known here; it is from Spark 3\.5\.\d, 4",
        problem,
    )
    assert f"packages='{connector},…' with the {sink}-spark" in problem
    assert packages_for(spark, ["parquet"], {}) == [connector]
    assert packages_for(spark, [sink], {"spark.jars": f"/jars/{sink}-spark-runtime_2.13-9.0.jar"}) == [connector]


@pytest.mark.parametrize(
    "configured",
    [
        {"spark.jars": "/jars/spark-sql-kafka-0-10_2.13-4.0.0.jar"},
        {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1"},
        {"spark.driver.extraClassPath": "/opt/spark-sql-kafka-0-10_2.13-4.0.0.jar"},
    ],
    ids=str,
)
def test_what_is_configured_is_not_asked_for_again(tmp_path: Path, configured: dict[str, str]) -> None:
    spark = find_spark("spark-submit-of-the-test", spark_at(tmp_path))
    assert packages_for(spark, ["parquet"], configured) == []


def test_a_spark_that_has_the_jar_needs_no_package(tmp_path: Path) -> None:
    environ = spark_at(tmp_path, jars=("spark-sql-kafka-0-10_2.13-4.0.0.jar",))
    assert packages_for(find_spark("spark-submit-of-the-test", environ), [], {}) == []


def test_of_a_spark_whose_version_is_not_known_nothing_is_assumed() -> None:
    assert packages_for(SparkInstallation(Path("/x/spark-submit")), "delta", {}) == []


def test_settings_are_those_of_the_file_of_defaults_and_then_the_jobs_own(tmp_path: Path) -> None:
    spark = find_spark("spark-submit-of-the-test", spark_at(tmp_path))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text("# ours\nspark.jars  a.jar\nspark.x=1\nspark.y\n")
    assert settings_of(spark, None, {"spark.x": 2}, {}) == {"spark.jars": "a.jar", "spark.x": "2", "spark.y": ""}
    other = tmp_path / "other.conf"
    other.write_text("spark.jars b.jar\n")
    assert settings_of(spark, str(other), None, {}) == {"spark.jars": "b.jar"}
    (tmp_path / "spark-defaults.conf").write_text("spark.z 3\n")
    assert settings_of(spark, None, None, {"SPARK_CONF_DIR": str(tmp_path)}) == {"spark.z": "3"}


def test_deltas_settings_are_made_where_nobody_has_made_them() -> None:
    assert settings_for("parquet", {}) == {}
    assert set(settings_for("delta", {})) == {"spark.sql.extensions", "spark.sql.catalog.spark_catalog"}
    assert set(settings_for("delta", {"spark.sql.extensions": "x"})) == {"spark.sql.catalog.spark_catalog"}


# ── the operator ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_without_spark_submit_fails_the_task_for_good_before_it_submits(airflow: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    operator = SparkSubmitPlanOperator(task_id="spark", spark_binary="spark-submit-of-nobody", application_args=[])
    with pytest.raises(AirflowFailException, match="There is no spark-submit-of-nobody on this worker"):
        operator.execute({})


def test_a_spark_whose_delta_is_not_known_fails_the_task_for_good_before_it_submits(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    for name, value in spark_at(tmp_path, version="4.9.0").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    operator = SparkSubmitPlanOperator(
        task_id="spark", spark_binary="spark-submit-of-the-test", application_args=["--sink-format", "delta"]
    )
    with pytest.raises(AirflowFailException, match="Which delta-spark fits"):
        operator.execute({})


def test_a_missing_spark_connection_is_named_and_not_taken_for_yarn(airflow: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    operator = SparkSubmitPlanOperator(task_id="spark", conn_id="no_such_spark", application_args=[])
    with pytest.raises(AirflowFailException, match="There is no connection 'no_such_spark': create one of type"):
        operator.execute({})


def test_packages_that_are_given_stay_and_no_packages_too(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The session's Spark has the connector in its defaults; one without defaults lacks it."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def packages(given: str | None) -> str | None:
        operator = SparkSubmitPlanOperator(task_id="spark", packages=given, application_args=[])
        operator._complete()
        found: str | None = operator.packages
        return found

    assert packages(None) == KAFKA
    assert packages("") == ""
    assert packages("a:b:1") == "a:b:1"
    (tmp_path / "spark-defaults.conf").write_text("spark.jars.packages io.delta:delta-spark_2.13:4.0.0\n")
    assert packages(None) == f"io.delta:delta-spark_2.13:4.0.0,{KAFKA}"


@pytest.mark.parametrize(
    ("records", "more", "compiles_little"),
    [
        (FEW_RECORDS, {}, True),
        (FEW_RECORDS + 1, {}, False),
        (FEW_RECORDS, {"application": "own.py"}, False),
        (FEW_RECORDS, {"fast_start": False}, True),
        (FEW_RECORDS, {"deploy_mode": "cluster"}, False),
    ],
)
def test_the_packaged_job_compiles_little_where_it_reads_few_records(
    airflow: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    records: int,
    more: dict[str, Any],
    compiles_little: bool,
) -> None:
    """A user's own options come later on Java's command line, and hold."""
    made = plan([planned(0, 0, records)])
    batch = PipelineLog(LocalStore(tmp_path, f"file://{tmp_path}"), "orders").begin(1, Planned(made))
    assert batch is not None
    arguments = job_arguments(batch.plan_object, made.plan_id, 0, batch.store.driver_uri, "kafka-1:9092")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xmx1g")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    SparkSubmitPlanOperator(task_id="spark", application_args=arguments, **more)._complete()
    assert os.environ["SPARK_SUBMIT_OPTS"] == ("-XX:TieredStopAtLevel=1 -Xmx1g" if compiles_little else "-Xmx1g")


def test_a_plan_that_cannot_be_read_here_is_the_driver_s_to_refuse(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments = job_arguments("pipelines/x/batches/1/1/1.json", "0" * 32, 0, f"file://{tmp_path}", "kafka-1:9092")
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    SparkSubmitPlanOperator(task_id="spark", application_args=arguments)._complete()
    assert "SPARK_SUBMIT_OPTS" not in os.environ
