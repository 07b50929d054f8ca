"""10,000 partitions from resolve to commit: a real broker, a Spark cluster of two workers, work store and output on S3.

What goes through Airflow's database, and the arguments, variables and settings of a Spark driver, are as small as at
six partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.request.subscription import TopicPattern
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import duplicated_or_missing, names_below
from testbed.dag_runs import RunResult, load_dag, run_dag
from testbed.java import Java
from testbed.spark import s3a_conf
from testbed.spark_cluster import SparkCluster, Worker, cluster_conf
from tests.stores.kinds import BUCKET, s3_server

ROOT = Path(__file__).resolve().parents[2]
DAG = Path(__file__).resolve().parent / "dags" / "large.py"
TOPICS, PARTITIONS = 20, 500
SMALL = 64 * 1024


@pytest.fixture(scope="module")
def large() -> Iterator[KafkaBroker]:
    """10,000 partitions in 20 topics. Indexes are small: Kafka makes two of 10 MB for each partition."""
    with KafkaBroker(config={"log.index.size.max.bytes": "4096"}, jvm=["-Xmx2g"]) as broker:
        for number in range(TOPICS):
            broker.create_topic(f"large-{number:02}", PARTITIONS)
        yield broker


@pytest.fixture(scope="module")
def cluster(java: Java) -> Iterator[SparkCluster]:
    with SparkCluster(java, python_path=ROOT, workers=[Worker(cores=4)] * 2) as running:
        yield running


@pytest.fixture
def longest_given(tmp_path: Path) -> Path:
    """Where each driver writes down how long the longest is of what it was given."""
    (tmp_path / "longest").mkdir()
    return tmp_path / "longest"


@pytest.fixture
def on_s3(
    airflow: Path,
    large: KafkaBroker,
    cluster: SparkCluster,
    spark_jars: list[Path],
    s3a_jars: list[Path],
    longest_given: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """The folder of this test on the server."""
    endpoint, folder = s3_server().endpoint, f"{BUCKET}/large"
    conf = cluster_conf([*spark_jars, *s3a_jars]) | s3a_conf(endpoint)
    conf |= {"spark.cores.max": "8", "spark.executor.cores": "4", "spark.driver.memory": "1g"}
    # Before it closes a partition, Spark asks for its ends, behind the next fetch: half a second each, by default.
    conf["spark.kafka_offsets.source.kafka.fetch.max.wait.ms"] = "10"
    spark = {"conn_type": "spark", "host": cluster.client_master}
    environment = {
        **airflow_home.connections(large.client_config),
        **airflow_home.spark_defaults(tmp_path / "spark", conf),
        **airflow_home.s3_connection("lake", endpoint),
        **airflow_home.variables({"large_output": f"s3a://{folder}/orders"}),
        "AIRFLOW_CONN_SPARK_STANDALONE": json.dumps(spark),
        "LONGEST_GIVEN": str(longest_given),
        "AIRFLOW__KAFKA_OFFSETS__WORK_STORE": f"s3://lake@{folder}/store",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    here = airflow / "dags" / "size"  # a DAG has to be below the folder that Airflow looks into
    here.symlink_to(DAG.parent)
    yield folder
    here.unlink()


def produce(broker: KafkaBroker) -> int:
    """A record in each partition, whose value is its number; how many there are then."""
    for number in range(TOPICS):
        first = number * PARTITIONS
        broker.produce_many(
            f"large-{number:02}",
            PARTITIONS,
            partitions=PARTITIONS,
            value=lambda n, first=first: str(first + n).encode(),
        )
    return TOPICS * PARTITIONS


def stored_sizes(result: RunResult) -> dict[str, int]:
    """Bytes of each XCom of the run and of each task's rendered fields, as they lie in Airflow's database."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        xcoms = session.execute(
            select(XComModel.task_id, XComModel.key, XComModel.value).where(XComModel.run_id == result.run_id)
        ).all()
        fields = session.execute(
            select(RenderedTaskInstanceFields.task_id, RenderedTaskInstanceFields.rendered_fields).where(
                RenderedTaskInstanceFields.run_id == result.run_id
            )
        ).all()
    sizes = {f"{task} {key}": len(json.dumps(value).encode()) for task, key, value in xcoms}
    return sizes | {f"{task} rendered": len(json.dumps(value, default=str).encode()) for task, value in fields}


def held_by_group(broker: KafkaBroker) -> dict[str, int]:
    """How many partitions the group has at which offset."""
    with KafkaCluster(broker.client_config) as kafka:
        found = kafka.committed("large", kafka.describe(TopicPattern("large-.*")).partitions())
    counts: dict[str, int] = {}
    for commit in found.values():
        counts[str(commit.offset)] = counts.get(str(commit.offset), 0) + 1
    return counts


def test_ten_thousand_partitions_go_from_resolve_to_commit(on_s3: str, large: KafkaBroker, longest_given: Path) -> None:
    produced = produce(large)
    result = run_dag(load_dag(DAG, "large"))

    assert (result.state, result.states("orders.spark")) == ("success", ["success"] * 2)
    assert duplicated_or_missing(f"s3a://{on_s3}/orders", produced) == (0, 0)
    assert held_by_group(large) == {"1": TOPICS * PARTITIONS}
    names = names_below(f"s3://{on_s3}/store")[1]
    assert sum(name.endswith(".report.json") for name in names) == 2

    sizes = stored_sizes(result)
    assert {"orders.resolve plan", "orders.resolve return_value", "orders.commit summary"} <= sizes.keys()
    assert {name: size for name, size in sizes.items() if size >= SMALL} == {}
    assert "orders.resolve starting_offsets" not in sizes

    longest = [json.loads(file.read_text()) for file in longest_given.iterdir()]
    assert [sorted(driver) for driver in longest] == [["argument", "setting", "variable"]] * 2, "of both drivers"
    assert max(size for driver in longest for size in driver.values()) < SMALL
