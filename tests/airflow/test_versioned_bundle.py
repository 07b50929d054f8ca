"""A DAG in a Git bundle that is corrected after its run has failed: which clear runs the correction."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from airflow import __version__

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.postgres import Postgres
from testbed.standalone import StandaloneAirflow
from tests.conftest import unique_name
from tests.docs.pages import DOCS, blocks_of

pytestmark = pytest.mark.slow  # the parts of an Airflow start for minutes
ROOT = Path(__file__).resolve().parents[2]
DAG_FILE = Path(__file__).parent / "bundle" / "versioned.py"
RUN = "manual__2026-11-22T02:00:00+00:00"


@dataclass
class Repository:
    folder: Path

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=tests", "-c", "user.email=tests@example.org")
        done = subprocess.run(["git", *who, *words], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, code: str) -> str:
        """The version that the bundle has then."""
        (self.folder / "versioned.py").write_text(code)
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "the DAGs")
        return self.git("rev-parse", "HEAD")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    made = Repository(tmp_path_factory.mktemp("repository"))
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit(DAG_FILE.read_text())
    return made


@pytest.fixture(scope="module")
def airflow_of_bundle(
    repository: Repository, broker: KafkaBroker, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandaloneAirflow]:
    home = tmp_path_factory.mktemp("bundle") / "airflow"
    topic = unique_name("versioned")
    broker.create_topic(topic)
    bundle = {
        "name": "git",
        "classpath": "airflow.providers.git.bundles.git.GitDagBundle",
        "kwargs": {"repo_url": str(repository.folder), "tracking_ref": "main", "refresh_interval": 2},
    }
    environment = {
        **airflow_home.connections(broker.client_config),
        "TEST_TOPIC": topic,
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(home / "bundles"),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "2",
    }
    with StandaloneAirflow(home, [], postgres.new_database(), environment) as airflow:
        yield airflow


def run_as_printed(airflow: StandaloneAirflow) -> None:
    """The page's own lines, for this run. The login takes each password here."""
    (printed,) = [block.code for block in blocks_of(DOCS / "red-run.md") if block.language == "bash"]
    lines = printed.replace("scheduled__", "manual__")
    environment = {**os.environ, "AIRFLOW": airflow.url}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, '"task_instances"' in done.stdout) == (0, True), done.stdout + done.stderr


def test_after_a_correction_a_clear_runs_the_code_of_then_unless_it_asks_for_the_newest(
    airflow_of_bundle: StandaloneAirflow, repository: Repository
) -> None:
    airflow, first = airflow_of_bundle, repository.git("rev-parse", "HEAD")

    def ends(dag_id: str, tries: int) -> str | None:
        return airflow.wait_for_task(
            dag_id, RUN, "orders", lambda task: task.tries == tries and task.state in ("failed", "skipped")
        ).state

    def is_parsed(dag_id: str, version: str) -> bool:
        return airflow.dag(dag_id)["bundle_version"] == version

    for dag_id in ("orders_to_lake", "always_newest"):
        airflow.wait_for_dag(dag_id)
        airflow.trigger(dag_id, run_id=RUN)
        assert ends(dag_id, 1) == "failed"
    (log,) = (airflow.home / "logs").glob(f"dag_id=orders_to_lake/run_id={RUN}/task_id=orders/*.log")
    assert "AKO-201" in log.read_text()
    assert f"This run keeps its DAG as of bundle version {first}: after a correction, clear it with" in log.read_text()

    second = repository.commit(DAG_FILE.read_text().replace("GroupOffsets()", 'GroupOffsets(otherwise="earliest")'))
    for dag_id in ("orders_to_lake", "always_newest"):
        airflow.wait_until("the correction is parsed", lambda dag_id=dag_id: is_parsed(dag_id, second))
        airflow.clear_run(dag_id, RUN)
    assert ends("orders_to_lake", 2) == "failed"
    assert ends("always_newest", 2) == ("failed" if __version__ < "3.2" else "skipped")

    run_as_printed(airflow)
    assert ends("orders_to_lake", 3) == "skipped"  # there is nothing to read
    assert airflow.wait_for_run("orders_to_lake", RUN) == "success"
