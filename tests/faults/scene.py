"""What a row of the matrix plays on: one Kafka, one proxy and one Airflow for all rows; a topic, group, work store,
output and job of its own for each.

A row may damage what is its own, and the broker if it puts it right again. When it is over, `Scene.close` holds the end
against the promise: every record that was produced is in the output exactly once, the group is at the log's end, and
nothing was ever committed unread.
"""

import json
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from testbed import airflow_home, jars
from testbed.broker import KafkaBroker
from testbed.cache import Say, silent
from testbed.checks import rows_by_run
from testbed.java import Java
from testbed.kafka_proxy import Deed, KafkaProxy, Moment, NotFired, Rule
from testbed.ports import free_ports
from testbed.raw_offsets import RawOffsets
from testbed.spark import spark_conf, spark_env
from testbed.standalone import StandaloneAirflow, TaskState
from testbed.topics import wait_for
from tests.faults.moments import COMMIT, RESOLVE
from tests.faults.watcher import Watcher

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
REAL_JOB = ROOT / "dags" / "jobs" / "kafka_to_parquet.py"


class PromiseBroken(AssertionError):
    """What must never happen has happened."""


@dataclass
class Ground:
    """What all rows share."""

    folder: Path
    broker: KafkaBroker
    proxy: KafkaProxy
    airflow: StandaloneAirflow


@contextmanager
def ground(folder: Path, java: Java, say: Say = silent) -> Iterator[Ground]:
    """A broker behind a proxy, and an Airflow whose tasks know the proxy only. Half a minute to start."""
    port = free_ports(1)[0]
    with (
        KafkaBroker(folder / "kafka", proxy_port=port, java=java, say=say) as broker,
        KafkaProxy(port, lambda: broker.proxied_address) as proxy,
    ):
        conf = {
            **spark_conf(jars.spark_jars(java, say)),
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": "1",
            "spark.kafka_offsets.kafka.bootstrap.servers": broker.bootstrap_servers,  # not through the proxy
        }
        environment = {
            **_connections(proxy),
            **spark_env(java),
            **airflow_home.spark_defaults(folder / "spark", conf),
        }
        with StandaloneAirflow(folder / "airflow", [HERE / "dags"], environment) as airflow:
            airflow.wait_for_dag("fault_batch")
            yield Ground(folder, broker, proxy, airflow)


def _connections(proxy: KafkaProxy) -> dict[str, str]:
    """One for each task, so that its requests can be told from the others' by their client id."""
    known = airflow_home.connections({}, spark_master="local[1]")
    known["AIRFLOW_CONN_SPARK_EXECUTORS"] = json.dumps({"conn_type": "spark", "host": "local-cluster[1,1,640]"})
    for task in ("wait_for_partitions", "wait_for_window", RESOLVE, COMMIT):
        extra = {"bootstrap.servers": proxy.bootstrap_servers, "client.id": task}
        known[f"AIRFLOW_CONN_KAFKA_{task.upper()}"] = json.dumps({"conn_type": "kafka", "extra": json.dumps(extra)})
    return known


@dataclass
class Run:
    """One run of the scene's DAG, and what there was before it."""

    scene: "Scene"
    dag_id: str
    run_id: str
    group_before: dict[int, int]
    rows_before: dict[str, int]

    def wait(self, state: str = "success", deadline_s: float = 180.0) -> "Run":
        """Until it has ended.

        :raises AssertionError: it ended otherwise; with the end of the failed task's log.
        """
        found = self.scene.airflow.wait_for_run(self.dag_id, self.run_id, deadline_s=deadline_s)
        if found != state:
            tasks = self.scene.airflow.tasks(self.dag_id, self.run_id)
            failed = [task for task in tasks if task.state == "failed"]
            logs = "\n".join(self.log(task.task_id, task.tries, task.map_index)[-3000:] for task in failed)
            raise AssertionError(f"run {self.run_id} is {found}, not {state}: {tasks}\n{logs}")
        return self

    def task(self, name: str, map_index: int | None = None) -> TaskState:
        index = map_index if map_index is not None else 0 if name == "spark" else -1
        return self.scene.airflow.task(self.dag_id, self.run_id, f"orders.{name}", index)

    def wait_for_task(
        self, name: str, is_so: Callable[[TaskState], bool], map_index: int | None = None, deadline_s: float = 120.0
    ) -> TaskState:
        index = map_index if map_index is not None else 0 if name == "spark" else -1
        return self.scene.airflow.wait_for_task(
            self.dag_id, self.run_id, f"orders.{name}", is_so, map_index=index, deadline_s=deadline_s
        )

    def log(self, task_id: str, try_number: int, map_index: int = -1) -> str:
        text = self.scene.airflow.task_log(self.dag_id, self.run_id, task_id, try_number, map_index)
        return text.replace("\\n", "\n").replace('\\"', '"')

    def clear(self, *names: str) -> "Run":
        """Clear tasks and what comes after them, as an operator does in the UI."""
        self.scene.airflow.clear_task(self.dag_id, self.run_id, [f"orders.{name}" for name in names])
        return self

    def clear_whole(self) -> "Run":
        self.scene.airflow.clear_run(self.dag_id, self.run_id)
        return self


@dataclass
class Scene:
    """One row's own things, and what it can do."""

    ground: Ground
    name: str
    partitions: int = 2
    watched_partitions: int = 2
    topic: str = ""
    group: str = ""
    folder: Path = Path()
    produced: int = 0
    gone: set[int] = field(default_factory=set)
    by_hand: set[tuple[int, int]] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic = f"orders-{uuid.uuid4().hex[:8]}"
        self.group = f"group-{self.topic}"
        self.folder = self.ground.folder / self.topic
        self.folder.mkdir()
        self.deploy(REAL_JOB)
        self.broker.create_topic(self.topic, self.partitions, self.topic_config)
        self._raw = RawOffsets(self.broker.bootstrap_servers)
        self._watched = max(self.partitions, self.watched_partitions)
        self.watcher = Watcher(self.broker.bootstrap_servers, self.group, self.topic, self._watched, self.store)
        self.watcher.start()

    @property
    def broker(self) -> KafkaBroker:
        return self.ground.broker

    @property
    def proxy(self) -> KafkaProxy:
        return self.ground.proxy

    @property
    def airflow(self) -> StandaloneAirflow:
        return self.ground.airflow

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def job(self) -> Path:
        return self.folder / "job.py"

    # ── what is done ──

    def deploy(self, job: Path | str) -> None:
        """Put a job in the place that the DAG submits; a name is one of `tests/faults/jobs`."""
        shutil.copy(HERE / "jobs" / job if isinstance(job, str) else job, self.job)

    def deploy_real(self) -> None:
        """The job of `dags/`."""
        self.deploy(REAL_JOB)

    def produce(self, count: int = 200, timestamp_ms: Callable[[int], int] | None = None) -> None:
        """`count` more records, each with the next number as its value."""
        begin = self.produced
        self.broker.produce_many(
            self.topic,
            count,
            partitions=self.partitions,
            value=lambda number: b"%d" % (begin + number),
            timestamp_ms=timestamp_ms,
        )
        self.produced += count

    def start(self, dag_id: str = "fault_batch", splits: int = 1, **conf: Any) -> Run:
        """Trigger a run."""
        before = self.committed(), self.rows()
        conf = {**self._conf(splits), **conf}
        run_id = self.airflow.trigger(dag_id, conf, run_id=f"run-{len(self.runs) + 1}-{self.topic}")
        self.runs.append(Run(self, dag_id, run_id, *before))
        return self.runs[-1]

    def backfill(self, dag_id: str, begin: datetime, end: datetime, **conf: Any) -> list[Run]:
        """Start a backfill of the intervals that begin from `begin` to `end`; its runs."""
        before = self.committed(), self.rows()
        known = set(self.airflow.runs(dag_id))
        self.airflow.create_backfill(dag_id, begin, end, dag_run_conf={**self._conf(), **conf})
        new = sorted(set(self.airflow.runs(dag_id)) - known)
        return [Run(self, dag_id, run_id, *before) for run_id in new if run_id.startswith("backfill__")]

    @contextmanager
    def scheduled(self, dag_id: str) -> Iterator[None]:
        """In the block the DAG's schedule is on, for this scene: it has a run of the last interval at once."""
        for name, value in self._conf().items():
            self.airflow.set_variable(f"fault_{name}", str(value))
        self.airflow.pause(dag_id, paused=False)
        try:
            yield
        finally:
            self.airflow.pause(dag_id)

    def only_run(self, dag_id: str) -> Run:
        """The one run that the schedule has made."""
        self.wait_for(f"{dag_id} has a run", lambda: len(self.airflow.runs(dag_id)) == 1)
        return Run(self, dag_id, *self.airflow.runs(dag_id), self.committed(), self.rows())

    def _conf(self, splits: int = 1) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "group": self.group,
            "work_store": str(self.store),
            "output": str(self.output),
            "job": str(self.job),
            "splits": splits,
        }

    def run(self, dag_id: str = "fault_batch", splits: int = 1, **conf: Any) -> Run:
        """A run to its good end."""
        return self.start(dag_id, splits, **conf).wait()

    def arm(self, what: str, moment: Moment, deed: Deed, *, times: int = 1) -> Rule:
        return self.proxy.arm(what, moment, deed, times=times)

    def wait_for(self, what: str, is_fact: Callable[[], bool], deadline_s: float = 120.0) -> None:
        wait_for(what, is_fact, deadline_s)

    # ── what is so ──

    def committed(self) -> dict[int, int]:
        end = time.monotonic() + 60.0
        while True:
            try:
                found = self._raw.read(self.group, self.topic, range(self._watched))
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return {partition: offset for partition, (offset, _) in found.items()}

    def rows(self) -> dict[str, int]:
        """Rows in the output, by run."""
        return rows_by_run(self.output)

    def verify(self, run: Run) -> tuple[int, str]:
        """What an operator is told by `kafka-offsets verify`: its status and words."""
        words = ["verify", "--work-store", str(self.store), "--dag-id", run.dag_id, "--run-id", run.run_id]
        program = "import sys; from airflow_kafka_offsets.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", program, *words, "--task-id", "orders.resolve"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def remove_output(self, run: Run) -> None:
        """What an operator does with the output of a run that was refused, and whose records another has."""
        for folder in self.output.glob(f"run={run.run_id}"):
            shutil.rmtree(folder)

    def objects(self, pattern: str) -> list[Path]:
        """Objects of this row's work store, sorted."""
        return sorted(self.store.glob(pattern))

    def refused(self, run: Run, name: str, cause: str, *words: str, map_index: int = -1) -> None:
        """The run has failed at that task, which names the cause and each of `words`, and has written nothing.

        :raises PromiseBroken: it is not so.
        """
        run.wait("failed")
        task = run.task(name, map_index if name == "spark" else -1)
        if task.state != "failed":
            raise PromiseBroken(f"{name} is {task.state}, and should have refused: {cause}")
        said = run.log(task.task_id, task.tries, task.map_index)
        missing = [word for word in (cause, *words) if word not in said]
        if missing:
            raise PromiseBroken(f"the log of {name} does not say {missing}:\n{said[-4000:]}")
        moved = {p: o for p, o in self.committed().items() if o != run.group_before.get(p)}
        if not set(moved.items()) <= self.by_hand:
            raise PromiseBroken(f"{name} refused, but the group went from {run.group_before} to {moved}")
        others = {run_id: rows for run_id, rows in rows_by_run(self.output).items() if run_id != run.run_id}
        if others != {run_id: rows for run_id, rows in run.rows_before.items() if run_id != run.run_id}:
            raise PromiseBroken(f"{name} refused, but the output of other runs has changed: {others}")
        self.refusals.append(cause)

    def numbers(self) -> list[int]:
        """The values in the output, of all runs."""
        files = [str(f) for f in self.output.rglob("*.parquet") if "_temporary" not in f.parts]
        return [int(v) for v in ds.dataset(files).to_table(columns=["value"])["value"].to_pylist()] if files else []

    # ── the end ──

    def check(self) -> str:
        """The promise, in words.

        :raises PromiseBroken: it is not kept.
        """
        found = self.numbers()
        expected = set(range(self.produced)) - self.gone
        missing, twice = sorted(expected - set(found)), len(found) - len(set(found))
        if missing or twice or not set(found) <= expected:
            unexpected = sorted(set(found) - expected)
            raise PromiseBroken(
                f"missing {len(missing)} {missing[:5]}, twice {twice}, unexpected {unexpected[:5]}: "
                f"{rows_by_run(self.output)}"
            )
        ends = {partition: high for partition, (_, high) in self.broker.offset_bounds(self.topic).items()}
        committed = self.committed()
        if committed != ends:
            raise PromiseBroken(f"the group is at {committed}, the log ends at {ends}")
        unverified = self.watcher.unverified()
        if unverified:
            raise PromiseBroken("\n".join(unverified))
        foreign = self.watcher.by_others() - self.by_hand
        if foreign:
            raise PromiseBroken(f"somebody else committed: {foreign}")
        return f"{len(found)} records once each, group at {sorted(ends.values())}, {self.watcher.looks} looks at it"

    def close(self) -> None:
        self.proxy.disarm()
        self.watcher.stop()
        self._raw.close()


__all__ = ["Ground", "NotFired", "PromiseBroken", "Run", "Scene", "ground"]
