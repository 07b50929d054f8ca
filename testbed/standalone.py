"""A real Airflow for tests that need its scheduler: api-server, scheduler and dag-processor, started once.

`dag_runs.run_dag` runs a DAG in the test's own process and is quicker; here tasks are processes of their own that can
be killed, a scheduler notices that, retries are scheduled, and what an operator clears runs again. Each of the parts is
on a leash (`leash.py`), so that nothing is left behind, however the test ends.

The metadata database is PostgreSQL: on SQLite, Airflow answers some requests with "database is locked", may have done a
part of them by then, and its scheduler may end.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx

from testbed import airflow_home
from testbed.leash import Leashed
from testbed.ports import free_ports

START_DEADLINE_S = 300.0
RUN_DEADLINE_S = 600.0
POLL_S = 0.2

# A killed task process is noticed at once, a killed supervisor within the heartbeat timeout, a killed scheduler's tasks
# when another scheduler looks for orphans.
QUICK = {
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
    "AIRFLOW__CORE__PARALLELISM": "6",
    "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": "6",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "8",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "3",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "10",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
}


class AirflowFailed(RuntimeError):
    """A part of Airflow did not start, ended by itself, or refused a request."""


@dataclass(frozen=True)
class TaskState:
    """One task instance as the API tells it; `map_index` is -1 where the task is not mapped.

    :ivar seconds: how long its newest try took.
    """

    task_id: str
    map_index: int
    state: str | None
    tries: int
    seconds: float | None = field(default=None, compare=False)


@dataclass
class StandaloneAirflow:
    """Runs between `start()` and `stop()`, or in a `with` block.

    :param home: its AIRFLOW_HOME, an empty folder: logs, and a DAG folder with links to `dags`.
    :param dags: folders of DAG files.
    :param database: the URL of its metadata database, which is empty: :meth:`testbed.postgres.Postgres.new_database`.
    :param environment: further variables of all its processes: connections, `SPARK_CONF_DIR`, PATH.
    :param python: the interpreter whose Airflow it is; by default this one's.
    """

    home: Path
    dags: Sequence[Path]
    database: str
    environment: Mapping[str, str] = field(default_factory=dict)
    triggerer: bool = False
    python: str = sys.executable
    _env: dict[str, str] = field(default_factory=dict, init=False)
    _parts: dict[str, Leashed] = field(default_factory=dict, init=False)
    _down: set[str] = field(default_factory=set, init=False)
    _client: httpx.Client | None = field(default=None, init=False)

    def start(self) -> Self:
        """Migrate the database and start the parts; returns when each says that it is healthy."""
        (self.home / "dags").mkdir(parents=True, exist_ok=True)
        for number, folder in enumerate(self.dags):
            (self.home / "dags" / f"{number}-{folder.name}").symlink_to(folder)
        port = free_ports(1)[0]
        others = ("AIRFLOW_CONN_", "AIRFLOW_VAR_")  # of an Airflow in this process: they would win against its own ones
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(others)},
            **airflow_home.settings_for(self.home, self.home / "dags"),
            **QUICK,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            **self.environment,
        }
        airflow_home.migrate(self._env, self.python)
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v2", timeout=30.0)
        try:
            for part in self.parts():
                self.start_part(part)
            self.wait_until_healthy()
        except BaseException:
            self.stop()
            raise
        return self

    def parts(self) -> list[str]:
        """The names of all parts, in the order of their start."""
        return ["api-server", "scheduler", "dag-processor", *(["triggerer"] if self.triggerer else [])]

    def command(self, part: str) -> list[str]:
        """The words after `airflow` that start a part."""
        return [part]

    def environment_of(self, part: str) -> dict[str, str]:
        """All variables of a part's process."""
        return self._env

    def start_part(self, part: str) -> None:
        """Start one of the parts again that was killed."""
        command = [self.python, "-m", "airflow", *self.command(part)]
        env = self.environment_of(part)
        self._parts[part] = Leashed.start(command, env=env, log=self._log(part), cwd=self.home)
        self._down.discard(part)

    @property
    def pids(self) -> dict[str, int]:
        """The process of each part that runs."""
        return {name: part.pid for name, part in self._parts.items() if part.returncode is None}

    def wait_until_healthy(self) -> None:
        names = {"api-server": "metadatabase", "scheduler": "scheduler", "dag-processor": "dag_processor"}

        def healthy() -> bool:
            health = self._get("/monitor/health")
            return all(health[names[part]]["status"] == "healthy" for part in self._parts if part in names)

        self.wait_until("Airflow is healthy", healthy, START_DEADLINE_S)

    def stop(self) -> None:
        """End all of it; returns when nothing is left."""
        if self._client is not None:
            self._client.close()
        for part in reversed(self._parts.values()):
            part.stop(5.0)
        self._parts.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ── what an operator does ──

    def wait_for_dag(self, dag_id: str) -> None:
        """Returns when the DAG has been parsed.

        :raises AirflowFailed: it is not known after two minutes; with what could not be imported.
        """
        try:
            self.wait_until(
                f"DAG {dag_id} is known", lambda: self._get(f"/dags/{dag_id}")["dag_id"] == dag_id, START_DEADLINE_S
            )
        except TimeoutError as error:
            raise AirflowFailed(f"{error}\n{self._get('/importErrors')}") from None

    def pause(self, dag_id: str, paused: bool = True) -> None:
        self._request("PATCH", f"/dags/{dag_id}", json={"is_paused": paused})

    def trigger(
        self,
        dag_id: str,
        conf: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        interval: tuple[datetime, datetime] | None = None,
    ) -> str:
        """Start a run; its id.

        :param interval: its data interval; without one it has none.
        """
        body: dict[str, Any] = {"conf": dict(conf or {}), "logical_date": None}
        if interval is not None:
            start, end = (bound.isoformat() for bound in interval)
            body |= {"logical_date": start, "data_interval_start": start, "data_interval_end": end}
        if run_id is not None:
            body["dag_run_id"] = run_id
        return str(self._request("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def clear_run(self, dag_id: str, run_id: str) -> None:
        """Clear all tasks of a run."""
        body = {"dry_run": False, "only_failed": False}
        self._request("POST", f"/dags/{dag_id}/dagRuns/{_in_path(run_id)}/clear", json=body)

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Set a task's state by hand: ``success`` or ``failed``."""
        path = f"/dags/{dag_id}/dagRuns/{_in_path(run_id)}/taskInstances/{task_id}"
        self._request("PATCH", path, json={"new_state": state})

    def cli(self, *words: str) -> str:
        """`airflow …`, beside the running parts; what it printed.

        :raises AirflowFailed: it failed.
        """
        command = [self.python, "-m", "airflow", *words]
        result = subprocess.run(command, env=self._env, cwd=self.home, capture_output=True, text=True, check=False)
        if result.returncode:
            raise AirflowFailed(f"airflow {' '.join(words)}:\n{(result.stdout + result.stderr)[-2000:]}")
        return result.stdout

    # ── what it sees ──

    @property
    def url(self) -> str:
        return self._env["AIRFLOW__API__BASE_URL"]

    def dag(self, dag_id: str) -> dict[str, Any]:
        return dict(self._get(f"/dags/{dag_id}"))

    def retries(self, dag_id: str, task_id: str) -> int:
        """As the DAG's newest version has them."""
        return int(self._get(f"/dags/{dag_id}/tasks/{task_id}")["retries"])

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """:raises NotFound: there is none (yet)."""
        task = f"/dags/{dag_id}/dagRuns/{_in_path(run_id)}/taskInstances/{task_id}"
        return self._get(f"{task}/xcomEntries/{key}")["value"]

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str]:
        """The addresses of a task's extra links, by their names."""
        path = f"/dags/{dag_id}/dagRuns/{_in_path(run_id)}/taskInstances/{task_id}/links"
        return dict(self._get(path)["extra_links"])

    def page(self, path: str) -> str:
        """What a person who is logged in sees there."""
        assert self._client is not None
        answer = self._client.get(f"{self.url}{path}", headers={"Authorization": f"Bearer {self._token()}"})
        return answer.raise_for_status().text

    def add_connection(self, connection_id: str, values: Mapping[str, Any]) -> None:
        """In the metadata database."""
        self._request("POST", "/connections", json={"connection_id": connection_id, **values})

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self._get(f"/dags/{dag_id}/dagRuns/{_in_path(run_id)}")["state"])

    def runs(self, dag_id: str) -> dict[str, str]:
        """The states of a DAG's runs, by run id."""
        return {run["dag_run_id"]: run["state"] for run in self._get(f"/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]}

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        found = self._get(f"/dags/{dag_id}/dagRuns/{_in_path(run_id)}/taskInstances?limit=100")["task_instances"]
        return [TaskState(t["task_id"], t["map_index"], t["state"], t["try_number"], t["duration"]) for t in found]

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> TaskState:
        """:raises KeyError: there is no such task instance (a mapped one before it is expanded)."""
        for found in self.tasks(dag_id, run_id):
            if (found.task_id, found.map_index) == (task_id, map_index):
                return found
        raise KeyError(f"{dag_id} {run_id} {task_id}[{map_index}]")

    def wait_for_run(
        self,
        dag_id: str,
        run_id: str,
        states: Sequence[str] = ("success", "failed"),
        deadline_s: float = RUN_DEADLINE_S,
    ) -> str:
        """The state of a run, once it is one of `states`."""
        found = ""

        def ended() -> bool:
            nonlocal found
            found = self.run_state(dag_id, run_id)
            return found in states

        try:
            self.wait_until(f"run {run_id} is {' or '.join(states)}", ended, deadline_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it is {found}: {self.tasks(dag_id, run_id)}") from None
        return found

    def wait_for_task(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        is_so: Callable[[TaskState], bool],
        *,
        map_index: int = -1,
        deadline_s: float = RUN_DEADLINE_S,
    ) -> TaskState:
        """A task instance, once `is_so` of it."""
        found: list[TaskState] = []

        def so() -> bool:
            with suppress(KeyError):
                found.append(self.task(dag_id, run_id, task_id, map_index))
                return is_so(found[-1])
            return False

        self.wait_until(f"task {task_id} of {run_id} is as awaited (last: {found[-1:]})", so, deadline_s)
        return found[-1]

    def asset_events(self, name: str, run_id: str) -> list[dict[str, Any]]:
        """What a run has published of an asset."""
        (asset,) = [one for one in self._get(f"/assets?name_pattern={name}")["assets"] if one["name"] == name]
        events = self._get(f"/assets/events?asset_id={asset['id']}&source_run_id={quote(run_id)}")["asset_events"]
        return [dict(event["extra"]) for event in events]

    def _require_alive(self) -> None:
        for part, process in list(self._parts.items()):
            if process.returncode is not None and part not in self._down:
                raise AirflowFailed(f"Airflow's {part} ended by itself:\n{self._tail(part)}")

    def _log(self, part: str) -> Path:
        return self.home / f"{part}.log"

    def _tail(self, part: str) -> str:
        log = self._log(part)
        return "\n".join(log.read_text(errors="replace").splitlines()[-25:]) if log.exists() else ""

    def wait_until(self, what: str, is_so: Callable[[], bool], deadline_s: float = RUN_DEADLINE_S) -> None:
        """Returns when it is so; meanwhile each part has to run."""
        end = time.monotonic() + deadline_s
        last = ""
        while time.monotonic() < end:
            self._require_alive()
            try:
                if is_so():
                    return
            except (httpx.HTTPError, NotFound, KeyError, TypeError) as error:
                last = f" ({type(error).__name__}: {error})"
            time.sleep(POLL_S)
        raise TimeoutError(f"after {deadline_s:.0f} s still not so: {what}{last}")

    def _get(self, path: str) -> Any:
        return self._request("GET", path)

    def _request(self, method: str, path: str, json: Any = None) -> Any:
        assert self._client is not None
        while True:
            answer = self._client.request(method, path, json=json)
            if answer.status_code < 400:
                return answer.json() if answer.content else None
            if answer.status_code == 401 and "Authorization" not in self._client.headers:  # Airflow 3.1 knows no nobody
                self._client.headers["Authorization"] = f"Bearer {self._token()}"
                continue
            kind = NotFound if answer.status_code == 404 else AirflowFailed
            raise kind(f"{method} {path}: {answer.status_code} {answer.text[:500]}")

    def _token(self) -> str:
        assert self._client is not None
        return str(self._client.get(f"{self.url}/auth/token").json()["access_token"])


class NotFound(AirflowFailed):
    """There is none (yet)."""


def _in_path(run_id: str) -> str:
    return quote(run_id, safe="")
