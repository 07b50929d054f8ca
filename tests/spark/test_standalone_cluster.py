"""A real standalone cluster, in whose cluster deploy mode drivers outlive Airflow's tasks: when is one taken for this
task's work? Never because it had finished once; always while it still runs this plan."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets, duplicated_or_missing
from testbed.dag_runs import clear_tasks, continue_run, load_dag, retry_lost_tasks, run_and_lose_the_worker, run_dag
from testbed.java import Java
from testbed.spark_cluster import SparkCluster, cluster_conf, python_application

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "tests" / "airflow" / "dags" / "standalone.py"


@pytest.fixture(scope="module")
def cluster(
    airflow: Path, java: Java, spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkCluster]:
    with SparkCluster(java, python_path=ROOT) as running, pytest.MonkeyPatch.context() as patch:
        defaults = airflow_home.spark_defaults(tmp_path_factory.mktemp("spark-conf"), cluster_conf(spark_jars))
        connection = {"AIRFLOW_CONN_SPARK_STANDALONE": json.dumps(running.connection)}
        for name, value in {**defaults, **connection}.items():
            patch.setenv(name, value)
        yield running


@dataclass
class Pipeline:
    """A topic, a group and an output of the test's own, and what the truth about them is."""

    broker: KafkaBroker
    cluster: SparkCluster
    topic: str
    group: str
    folder: Path
    produced: int = 0

    def __post_init__(self) -> None:
        self.drivers_before = len(self.cluster.drivers())
        self.go.touch()

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def go(self) -> Path:
        """Drivers write once it is there."""
        return self.folder / "go"

    @property
    def conf(self) -> dict[str, Any]:
        return {"topic": self.topic, "group": self.group, "output": str(self.output), "go": str(self.go)}

    def produce(self, count: int) -> None:
        self.broker.produce(
            self.topic, [(0, None, b"%d" % n, None) for n in range(self.produced, self.produced + count)]
        )
        self.produced += count

    def driver_logs(self) -> str:
        """What its drivers have printed, for a message."""
        drivers = self.cluster.drivers()[self.drivers_before :]
        return "\n".join(self.cluster.driver_log(driver.id)[-6000:] for driver in drivers)

    def driver_states(self) -> list[str]:
        """Of each driver that the master lists since the test began."""
        return [driver.state for driver in self.cluster.drivers()[self.drivers_before :]]

    def committed(self) -> dict[int, int]:
        return committed_offsets(self.broker, self.group, self.topic)

    def missing_and_duplicated(self) -> tuple[int, int]:
        return duplicated_or_missing(self.output, self.produced)


@pytest.fixture
def pipeline(
    broker: KafkaBroker, cluster: SparkCluster, topic: Callable[..., str], group: str, tmp_path: Path
) -> Pipeline:
    return Pipeline(broker, cluster, topic(1), group, tmp_path)


def test_the_page_s_dag_runs_and_is_cleared(airflow: Path, pipeline: Pipeline) -> None:
    """docs/submitting.md, with this machine's names."""
    jar, _, program = python_application(ROOT / "tests/airflow/jobs/waits_before_it_writes.py", ROOT)
    names = {
        "/opt/spark/jars/spark-launcher_2.13-4.0.0.jar": jar,
        '"/opt/jobs/orders.py", "/opt/jobs"': ", ".join(map(json.dumps, program)),
        "s3a://my-bucket/lake/orders": str(pipeline.output),
        '["orders"]': json.dumps([pipeline.topic]),
        "orders-to-lake": pipeline.group,
    }
    section = (ROOT / "docs" / "submitting.md").read_text().split("\n## Standalone, cluster mode\n")[1]
    code = section.split("```python\n")[1].split("```")[0]
    for name, here in names.items():
        assert name in code
        code = code.replace(name, here)
    file = airflow / "dags" / "orders_on_standalone.py"
    file.write_text(code)
    dag = load_dag(file, "orders_on_standalone")
    pipeline.produce(100)
    first = run_dag(dag)
    assert first.state == "success", pipeline.driver_logs()
    assert pipeline.missing_and_duplicated() == (0, 0)
    clear_tasks(dag, first.run_id, "orders.spark")
    assert continue_run(dag, first.run_id).state == "success"
    assert pipeline.driver_states() == ["FINISHED"] * 2
    assert pipeline.missing_and_duplicated() == (0, 0)
    assert pipeline.committed() == {0: 100}


RE_PLAN = {"kafka_offsets": {"re_plan": True}, "hold": False}


def test_a_finished_driver_that_the_providers_operator_re_attaches_to_is_refused_after_a_re_plan(
    pipeline: Pipeline, capfd: pytest.CaptureFixture[str]
) -> None:
    """The trap: Spark's task is green and has submitted nothing, and the plan's last records were read by nobody."""
    dag = load_dag(DAGS, "standalone_by_hand")
    pipeline.produce(100)
    first = run_dag(dag, conf={**pipeline.conf, "hold": True})
    assert (first.states("spark"), first.states("commit")) == (["success"], ["upstream_failed"])
    pipeline.produce(50)

    clear_tasks(dag, first.run_id, "resolve", conf=RE_PLAN)
    second = continue_run(dag, first.run_id)

    assert second.states("spark") == ["success"]
    assert pipeline.driver_states() == ["FINISHED"]
    assert second.states("commit") == ["failed"]
    assert re.search(r"split 0: attempt 1 read plan \w+, not \w+", "".join(capfd.readouterr()))
    assert pipeline.committed() == {}
    assert pipeline.missing_and_duplicated() == (50, 0)


def test_another_plan_is_another_driver_and_a_clear_writes_again(pipeline: Pipeline) -> None:
    dag = load_dag(DAGS, "standalone_batch")
    pipeline.produce(100)
    first = run_dag(dag, conf={**pipeline.conf, "hold": True})
    assert first.states("orders.spark") == ["success"]
    pipeline.produce(50)

    clear_tasks(dag, first.run_id, "orders.resolve", conf=RE_PLAN)
    second = continue_run(dag, first.run_id)

    assert second.state == "success"
    assert pipeline.driver_states() == ["FINISHED"] * 2
    assert pipeline.missing_and_duplicated() == (0, 0)
    assert pipeline.committed() == {0: 150}

    # The output is gone, plan and reports are as they were, and its driver had finished: the clear is meant to heal it.
    shutil.rmtree(pipeline.output)
    clear_tasks(dag, first.run_id, "orders.spark")
    third = continue_run(dag, first.run_id)

    assert third.state == "success"
    assert pipeline.driver_states() == ["FINISHED"] * 3
    assert pipeline.missing_and_duplicated() == (0, 0)
    assert pipeline.committed() == {0: 150}


def test_a_retry_attaches_to_the_driver_that_still_runs_this_plan(
    pipeline: Pipeline, airflow: Path, tmp_path: Path
) -> None:
    """The worker is killed while the driver reads. Nobody else is started, and the run ends as if nothing had been."""
    dag = load_dag(DAGS, "standalone_batch")
    pipeline.produce(100)
    pipeline.go.unlink()
    run_id = run_and_lose_the_worker(
        DAGS, dag, lambda: running_and_known(pipeline), tmp_path / "worker.log", pipeline.conf
    )
    assert retry_lost_tasks(dag, run_id) == ["orders.spark"]

    pipeline.go.touch()
    result = continue_run(dag, run_id)

    assert result.state == "success"
    assert next(task.tries for task in result.tasks if task.task_id == "orders.spark") == 2
    assert pipeline.driver_states() == ["FINISHED"]
    assert pipeline.missing_and_duplicated() == (0, 0)
    assert pipeline.committed() == {0: 100}


def running_and_known(pipeline: Pipeline) -> bool:
    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.utils.session import create_session

    drivers = pipeline.cluster.drivers()[pipeline.drivers_before :]
    with create_session() as session:
        known = [row.value for row in session.query(TaskStateStoreModel) if row.key.startswith("spark_job_id:")]
    return [driver.state for driver in drivers] == ["RUNNING"] and any(drivers[0].id in value for value in known)
