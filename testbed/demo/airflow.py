"""The demo's Airflow: its first runs are in this process, which is quicker; then a scheduler takes over.

Both have one home and one database, so Airflow's pages show every run of the demo.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from testbed import airflow_home
from testbed.dag_runs import RunResult, clear_tasks, continue_run, load_dag, output_to, run_dag
from testbed.demo.shown import DemoFailed, step
from testbed.java import Java
from testbed.postgres import Postgres
from testbed.standalone import StandaloneAirflow

DAGS = Path(__file__).resolve().parents[2] / "dags"

# Three windows at once are as many Spark drivers as a small machine can bear; and it is busy, so nobody is impatient.
AT_ONCE = {
    "AIRFLOW__CORE__PARALLELISM": "3",
    "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "3",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "300",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "120",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "300",
    "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",  # only the runs that the demo starts: none of the hour that it is
}


class DemoAirflow:
    """:param environment: connections, variables and Spark's settings."""

    def __init__(self, folder: Path, java: Java, environment: Mapping[str, str], stack: ExitStack) -> None:
        self.home, self.log = folder / "airflow", folder / "demo.log"
        self.checkpoint_location = self.home / "kafka_offsets"
        self._database = stack.enter_context(Postgres(java, step)).new_database()
        self._stack = stack
        self._environment = {
            **airflow_home.settings_for(self.home, DAGS),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self._database,
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
            **environment,
        }
        os.environ.update(self._environment)
        step("Airflow: a home of its own, and PostgreSQL for its metadata")
        airflow_home.migrate(os.environ)

    def run(self, title: str, dag: str, conf: Mapping[str, object] | None = None, state: str = "success") -> RunResult:
        """One run of the DAG `kafka_<dag>`, to its end.

        :raises DemoFailed: it ended in another state.
        """
        step(f"Run {title}")
        self._read = self.log.stat().st_size if self.log.exists() else 0
        with output_to(self.log):
            result = run_dag(load_dag(DAGS / f"{dag}.py", f"kafka_{dag}"), conf=conf)
        if result.state != state:
            raise DemoFailed(f"run {title} ended as {result.state}: {result.tasks}; see {self.log}")
        return result

    def clear(self, title: str, dag: str, run_id: str, task_id: str) -> RunResult:
        """Clear a run from this task on, and run it to its end.

        :raises DemoFailed: it did not succeed.
        """
        step(f"Cleared: run {title}")
        with output_to(self.log):
            loaded = load_dag(DAGS / f"{dag}.py", f"kafka_{dag}")
            clear_tasks(loaded, run_id, task_id)
            result = continue_run(loaded, run_id)
        if result.state != "success":
            raise DemoFailed(f"run {title} ended as {result.state}: {result.tasks}; see {self.log}")
        return result

    def printed_conf(self) -> dict[str, Any]:
        """The first conf to copy that the last run's log has.

        :raises DemoFailed: it has none.
        """
        text = self.log.read_text()[self._read :]
        begin = text.find('{"kafka_offsets"')
        if begin < 0:
            raise DemoFailed(f"the last run printed no conf; see {self.log}")
        conf: dict[str, Any] = json.JSONDecoder().raw_decode(text[begin:])[0]
        return conf

    def with_scheduler(self) -> StandaloneAirflow:
        """Start Airflow's processes; no run may be in this process afterwards."""
        airflow = StandaloneAirflow(self.home, [], self._database, {**self._environment, **AT_ONCE})
        return self._stack.enter_context(airflow)


def show_pages(airflow: StandaloneAirflow) -> None:
    """Say where Airflow's pages are, and return when its API server has ended, which only a signal should do."""
    url = airflow.environment_of("api-server")["AIRFLOW__API__BASE_URL"]
    print(f"Airflow is up, and needs no login: {url}")
    for dag in ("hourly_batch", "typed_orders", "entity_tables", "backfill_by_timestamp"):
        print(f"  {url}/dags/kafka_{dag}/plugin/kafka-offsets")
    print("You can clear and trigger runs there. Ctrl-C stops everything.", flush=True)
    while "api-server" in airflow.pids:
        time.sleep(0.5)  # not Popen.wait(): it holds a lock, which the signal's handler would wait for
    raise DemoFailed(f"Airflow's API server has ended by itself: see {airflow.home}/api-server.log")
