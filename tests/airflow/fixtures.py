"""A real Airflow for the session: its database, connections to the session's broker, `spark-submit` on the PATH."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.plan_json import plan_to_dict
from airflow_kafka_offsets.stores.open import open_store
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.cache import whole_folder
from testbed.dag_runs import RunResult, load_dag, run_dag

AIRFLOW_HOME = Path(os.environ["AIRFLOW_HOME"])  # set by tests/conftest.py
PROJECT_DAGS = Path(__file__).resolve().parents[2] / "dags"
TEST_DAGS = Path(__file__).resolve().parent / "dags"

RunDag = Callable[..., RunResult]


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's database, without a run and without a user."""
    shutil.copy(_new_database(), AIRFLOW_HOME)


@pytest.fixture(scope="session")
def airflow(
    airflow_database: None,
    broker: KafkaBroker,
    spark_environment: Mapping[str, str],
    spark_settings: Mapping[str, str],
) -> Iterator[Path]:
    """A migrated Airflow whose `kafka_default` is the session's broker; its home."""
    for name, folder in (("project", PROJECT_DAGS), ("tests", TEST_DAGS)):
        (AIRFLOW_HOME / "dags").mkdir(exist_ok=True)
        (AIRFLOW_HOME / "dags" / name).symlink_to(folder)
    kafka = {**broker.client_config, "group.id": "connection-group"}
    environment = {
        **airflow_home.connections(kafka),
        **spark_environment,
        **airflow_home.spark_defaults(AIRFLOW_HOME / "spark", spark_settings),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield AIRFLOW_HOME


def _new_database() -> Path:
    """An Airflow's database with nothing in it. It takes several seconds, so it is made once for each version.

    It has the tables of users and roles, too, which are there for tests of the FAB login alone.
    """

    def make(folder: Path) -> None:
        own = {"AIRFLOW_HOME": str(folder), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db"}
        airflow_home.migrate({**os.environ, **own, "AIRFLOW__CORE__AUTH_MANAGER": airflow_home.FAB_LOGIN})

    name = f"airflow-{version('apache-airflow')}-fab-{version('apache-airflow-providers-fab')}-database"
    return whole_folder(name, make, is_whole=lambda folder: (folder / "airflow.db").is_file()) / "airflow.db"


@pytest.fixture
def run(airflow: Path) -> RunDag:
    """`run(dag_id, conf=None, logical_date=None, file=wiring.py)`: one run of a DAG to its end."""

    def run_to_its_end(
        dag_id: str,
        conf: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
        file: Path = TEST_DAGS / "wiring.py",
    ) -> RunResult:
        return run_dag(load_dag(file, dag_id), conf=conf, logical_date=logical_date)

    return run_to_its_end


def plan_in_store(reference: Mapping[str, Any]) -> dict[str, Any]:
    """What an XCom `plan` refers to, as JSON, with the reference's own fields: the object's digest is the XCom's."""
    batch = PipelineLog(open_store(reference["work_store"]), reference["pipeline"]).read(reference["stored_as"])
    assert batch is not None
    assert batch.log.plan.plan_id == reference["plan_id"]
    return {**json.loads(json.dumps(plan_to_dict(batch.log.plan))), **reference}


@pytest.fixture
def xcom(airflow: Path) -> Callable[[str, RunResult, str, str], Any]:
    """`xcom(dag_id, result, task_id, key)`: what a task pushed."""

    def pull(dag_id: str, result: RunResult, task_id: str, key: str = "return_value") -> Any:
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            row = session.scalars(
                XComModel.get_many(key=key, dag_ids=dag_id, run_id=result.run_id, task_ids=task_id, limit=1)
            ).first()
            return None if row is None else XComModel.deserialize_value(row)

    return pull
