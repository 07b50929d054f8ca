"""A real Airflow for the session: its database, connections to the session's broker, `spark-submit` on the PATH."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.cache import whole_folder
from testbed.dag_runs import RunResult

AIRFLOW_HOME = Path(os.environ["AIRFLOW_HOME"])  # set by tests/conftest.py
PROJECT_DAGS = Path(__file__).resolve().parents[2] / "dags"
TEST_DAGS = Path(__file__).resolve().parent / "dags"


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
    (AIRFLOW_HOME / "dags").mkdir(exist_ok=True)
    for name, folder in (("project", PROJECT_DAGS), ("tests", TEST_DAGS)):
        (AIRFLOW_HOME / "dags" / name).symlink_to(folder)
    environment = {
        **airflow_home.connections(broker.client_config),
        **spark_environment,
        **airflow_home.spark_defaults(AIRFLOW_HOME / "spark", spark_settings),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield AIRFLOW_HOME


def _new_database() -> Path:
    """An Airflow's database with nothing in it. It takes several seconds, so it is made once for each version."""

    def make(folder: Path) -> None:
        own = {"AIRFLOW_HOME": str(folder), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db"}
        airflow_home.migrate({**os.environ, **own})

    name = f"airflow-{version('apache-airflow')}-database"
    return whole_folder(name, make, is_whole=lambda folder: (folder / "airflow.db").is_file()) / "airflow.db"


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """`said()`: what tasks have logged since it was asked before, each run of white space as one blank."""
    return lambda: " ".join("".join(capfd.readouterr()).split())


@pytest.fixture
def xcom(airflow: Path) -> Callable[..., Any]:
    """`xcom(dag_id, result, task_id, key="return_value")`: what a task pushed; `None`: nothing."""

    def pull(dag_id: str, result: RunResult, task_id: str, key: str = "return_value") -> Any:
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            row = session.scalars(
                XComModel.get_many(key=key, dag_ids=dag_id, run_id=result.run_id, task_ids=task_id, limit=1)
            ).first()
            return None if row is None else XComModel.deserialize_value(row)

    return pull
