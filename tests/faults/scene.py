"""What a row of the matrix plays on: one Kafka, one proxy and one Airflow for all rows; a topic, group, work store,
output and job of its own for each.

A row may damage what is its own, and the broker and Airflow if it puts them right again. When it is over,
`Scene.check` holds the end against the promise, as a reader of the whole output folder sees it: every record that was
produced is there exactly once, the group is at the log's end, and nothing was ever committed unread.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
from upath import UPath

from testbed import airflow_home, jars
from testbed.broker import KafkaBroker
from testbed.cache import Say, silent
from testbed.http_proxy import HttpProxy
from testbed.java import Java
from testbed.kafka_proxy import Deed, KafkaProxy, Moment, NotFired, Rule
from testbed.ports import free_ports
from testbed.postgres import PASSWORD, Postgres
from testbed.raw_offsets import RawOffsets
from testbed.s3_server import KEY, SECRET, S3Server
from testbed.spark import PATIENT, SHORT_JOBS, s3a_conf, spark_conf, spark_env
from testbed.standalone import StandaloneAirflow, TaskState
from testbed.topics import wait_for
from tests.faults.moments import COMMIT, RESOLVE
from tests.faults.watcher import Watcher

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "work-stores"
HERE = Path(__file__).resolve().parent
REAL_JOB = ROOT / "tests" / "faults" / "jobs" / "writes_files.py"
COLUMNS = ["topic", "partition", "offset", "value", "kafka_batch"]
DEADLINE_S = 600.0  # against hanging, on a machine that is busy
JARS = (jars.spark_jars, jars.s3a_jars, jars.postgresql_jars, jars.delta_jars, jars.avro_jars)
EMPTY = pa.table({name: pa.array([], pa.string()) for name in COLUMNS})


# Objects of a work store: of the one pipeline that each row has.
BATCHES = "pipelines/*/batches/*/*"
RUNS = "pipelines/*/runs"
FIRST_PLAN = f"{BATCHES}/1.json"


def begun(split: int = 0, attempt: int = 1) -> str:
    return f"{BATCHES}/{split}-{attempt:06}-*.begun.json"


def report(split: int = 0, attempt: int = 1) -> str:
    return f"{BATCHES}/{split}-{attempt:06}-*.report.json"


# Files below the output: of a Spark task that has finished, staged where readers do not look; and in their place.
def finished_task(split: int = 0) -> str:
    staged = f"_kafka_staging/*--split-{split}--*/new/kafka_batch=*/kafka_split=*"
    return f"{staged}/_temporary/0/task_*/part-*.parquet"


def in_place(split: int = 0) -> str:
    return f"kafka_batch=*/kafka_split={split}/part-*.parquet"


class PromiseBroken(AssertionError):
    """What must never happen has happened."""


@dataclass
class Ground:
    """What all rows share."""

    folder: Path
    broker: KafkaBroker
    proxy: KafkaProxy
    s3: HttpProxy
    airflow: StandaloneAirflow
    postgres: Postgres
    environment: Mapping[str, str]


@contextmanager
def ground(folder: Path, java: Java, postgres: Postgres, say: Say = silent) -> Iterator[Ground]:
    """A broker and an S3 server, each behind a proxy, and an Airflow that knows the proxies only. Half a minute."""
    port = free_ports(1)[0]
    with (
        KafkaBroker(folder / "kafka", proxy_port=port, java=java, say=say) as broker,
        KafkaProxy(port, lambda: broker.proxied_address) as proxy,
        S3Server(say) as server,
        HttpProxy(server.endpoint) as s3,
    ):
        server.create_bucket(BUCKET)
        conf = {
            **spark_conf([jar for some in JARS for jar in some(java, say)]),
            **s3a_conf(s3.url),
            **PATIENT,
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "1",
            "spark.kafka_offsets.source.kafka.bootstrap.servers": broker.bootstrap_servers,  # not through the proxy
            "spark.kafka_offsets.jdbc.user": "postgres",
            "spark.kafka_offsets.jdbc.password": PASSWORD,
        }
        environment = {
            **_connections(proxy),
            **airflow_home.s3_connection("lake", s3.url),
            **spark_env(java),
            **SHORT_JOBS,
            **airflow_home.spark_defaults(folder / "spark", conf),
            "FAULTS_DAG_PATHS": str(folder / "dag-paths"),
            "FAULTS_TODAY": datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).isoformat(),
        }
        with another_airflow(folder / "airflow", postgres, environment) as airflow:
            yield Ground(folder, broker, proxy, s3, airflow, postgres, environment)


@contextmanager
def another_airflow(home: Path, postgres: Postgres, environment: Mapping[str, str]) -> Iterator[StandaloneAirflow]:
    """An Airflow with the rows' DAGs, and a metadata database of its own."""
    database = postgres.new_database()
    with StandaloneAirflow(home, [HERE / "dags"], database, environment, triggerer=True) as airflow:
        airflow.wait_for_dag("fault_batch")
        yield airflow


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
    airflow: StandaloneAirflow
    _batch: str = ""

    def ended(self) -> str:
        """The state that it has ended in."""
        return self.airflow.wait_for_run(self.dag_id, self.run_id, deadline_s=DEADLINE_S)

    def wait(self, state: str = "success") -> "Run":
        """Until it has ended.

        :raises AssertionError: it ended otherwise; with the end of the failed task's log.
        """
        found = self.ended()
        if found != state:
            tasks = self.airflow.tasks(self.dag_id, self.run_id)
            failed = [task for task in tasks if task.state == "failed"]
            logs = "\n".join(self.log(task.task_id, task.tries, task.map_index)[-3000:] for task in failed)
            raise AssertionError(f"run {self.run_id} is {found}, not {state}: {tasks}\n{logs}")
        return self

    def task(self, name: str, map_index: int | None = None) -> TaskState:
        index = map_index if map_index is not None else 0 if name == "spark" else -1
        return self.airflow.task(self.dag_id, self.run_id, f"orders.{name}", index)

    def wait_for_task(self, name: str, is_so: Callable[[TaskState], bool], map_index: int | None = None) -> TaskState:
        index = map_index if map_index is not None else 0 if name == "spark" else -1
        return self.airflow.wait_for_task(
            self.dag_id, self.run_id, f"orders.{name}", is_so, map_index=index, deadline_s=DEADLINE_S
        )

    def log(self, task_id: str, try_number: int, map_index: int = -1) -> str:
        text = self.airflow.task_log(self.dag_id, self.run_id, task_id, try_number, map_index)
        return text.replace("\\n", "\n").replace('\\"', '"')

    def clear(self, *names: str) -> "Run":
        """Clear tasks and what comes after them, as an operator does in the UI."""
        self.airflow.clear_task(self.dag_id, self.run_id, [f"orders.{name}" for name in names])
        return self

    def clear_whole(self) -> "Run":
        self.airflow.clear_run(self.dag_id, self.run_id)
        return self

    def look(self) -> "Run":
        """What is there now is what there was before it: it is to be refused next."""
        self.group_before, self.rows_before = self.scene.committed(), self.scene.rows()
        return self

    @property
    def batch(self) -> str:
        """The key of the batch that the run has taken; empty where it has taken none. Kept, once it is known."""
        found = self.scene.objects(f"{RUNS}/{quote(self.dag_id)}/{quote(self.run_id, safe='+=@,')}/*/-1.json")
        if found and not self._batch:
            self._batch = str(json.loads(found[0].read_text())["key"] or "")
        return self._batch


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
    logs_replaced: bool = False
    on_s3: bool = False
    reader: Callable[[], pa.Table] | None = None

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
        """The row's work store, as who needs no proxy sees it."""
        if not self.on_s3:
            return self.folder / "store"
        where = {"key": KEY, "secret": SECRET, "endpoint_url": self.ground.s3.target, "use_listings_cache": False}
        return UPath(f"s3://{BUCKET}/{self.topic}", **where)

    @property
    def store_uri(self) -> str:
        return f"s3://lake@{BUCKET}/{self.topic}" if self.on_s3 else str(self.store)

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def another_output(self) -> Path:
        """Where a DAG writes whose path was changed. A reader of all that the pipeline wrote reads it, too."""
        return self.folder / "another-output"

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

    def write_into_dag(self, dag_id: str, output: Path) -> None:
        """Change the path in the code of a DAG whose path is no template (`fault_path`, `fault_path_copied`)."""
        changed = Path(self.ground.environment["FAULTS_DAG_PATHS"], dag_id)
        changed.parent.mkdir(exist_ok=True)
        changed.write_text(str(output))

    def produce(
        self,
        count: int = 200,
        timestamp_ms: Callable[[int], int] | None = None,
        value: Callable[[int], bytes] = lambda number: b"%d" % number,
    ) -> None:
        """`count` more records, each with the next number as its value.

        :param value: that number as bytes.
        """
        begin = self.produced
        self.broker.produce_many(
            self.topic,
            count,
            partitions=self.partitions,
            value=lambda number: value(begin + number),
            timestamp_ms=timestamp_ms,
        )
        self.produced += count

    def start(
        self,
        dag_id: str = "fault_batch",
        splits: int = 1,
        airflow: StandaloneAirflow | None = None,
        orders: Mapping[str, Any] | None = None,
        **conf: Any,
    ) -> Run:
        """Trigger a run.

        :param airflow: which one is to run it, where the row has two.
        :param orders: what a person orders for this run: `kafka_offsets` of its conf.
        """
        before, where = (self.committed(), self.rows()), airflow or self.airflow
        conf = {**self._conf(splits), **({"kafka_offsets": dict(orders)} if orders else {}), **conf}
        run_id = where.trigger(dag_id, conf, run_id=f"run-{len(self.runs) + 1}-{self.topic}")
        self.runs.append(Run(self, dag_id, run_id, *before, where))
        return self.runs[-1]

    def backfill(self, dag_id: str, begin: datetime, end: datetime, **conf: Any) -> list[Run]:
        """Start a backfill of the intervals that begin from `begin` to `end`; its runs."""
        before = self.committed(), self.rows()
        known = set(self.airflow.runs(dag_id))
        self.airflow.create_backfill(dag_id, begin, end, dag_run_conf={**self._conf(), **conf})
        new = sorted(set(self.airflow.runs(dag_id)) - known)
        return [Run(self, dag_id, run_id, *before, self.airflow) for run_id in new if run_id.startswith("backfill__")]

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
        return Run(self, dag_id, *self.airflow.runs(dag_id), self.committed(), self.rows(), self.airflow)

    def _conf(self, splits: int = 1) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "group": self.group,
            "work_store": self.store_uri,
            "output": str(self.output),
            "job": str(self.job),
            "splits": splits,
        }

    def run(self, dag_id: str = "fault_batch", splits: int = 1, **more: Any) -> Run:
        """A run to its good end."""
        return self.start(dag_id, splits, **more).wait()

    def arm(self, what: str, moment: Moment, deed: Deed, *, times: int = 1) -> Rule:
        return self.proxy.arm(what, moment, deed, times=times)

    def wait_for(self, what: str, is_fact: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        wait_for(what, is_fact, deadline_s)

    # ── what is so ──

    def committed(self) -> dict[int, int]:
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                found = self._raw.read(self.group, self.topic, range(self._watched))
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return {partition: offset for partition, (offset, _) in found.items()}

    def table(self, *folders: Path) -> pa.Table:
        """All that a reader of these whole folders finds; by default of all that the pipeline wrote, be it folders or
        what the row has a reader for."""
        if self.reader and not folders:
            return self.reader()
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                there = filter(Path.exists, folders or (self.output, self.another_output))
                found = [ds.dataset(str(folder), format="parquet", partitioning="hive") for folder in there]
                found = [one for one in found if one.files]
                return ds.dataset(found).to_table(columns=COLUMNS) if found else EMPTY
            except FileNotFoundError:  # Spark has moved a file while they were read
                if time.monotonic() > end:
                    raise

    def rows(self) -> dict[str, int]:
        """Rows in the output, by batch."""
        counted = self.table()["kafka_batch"].value_counts().to_pylist()
        return {str(one["values"]): int(one["counts"]) for one in counted}

    def verify(self, run: Run) -> tuple[int, str]:
        """What an operator is told by `kafka-offsets verify`: its status and words."""
        return self.command("verify", "--dag-id", run.dag_id, "--run-id", run.run_id, "--task-id", "orders.resolve")

    def command(self, verb: str, *words: str) -> tuple[int, str]:
        """`kafka-offsets …` on this row's pipeline; its status and words."""
        return self.without_pipeline(verb, "--work-store", str(self.store), "--pipeline-id", self.group, *words)

    def without_pipeline(self, *words: str) -> tuple[int, str]:
        """`kafka-offsets …`; its status and words."""
        program = "import sys; from airflow_kafka_offsets.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", program, *words]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def objects(self, pattern: str) -> list[Path]:
        """Objects of this row's work store, sorted."""
        return sorted(self.store.glob(pattern))

    def refused(self, run: Run, name: str, cause: str, *words: str) -> None:
        """The run has failed at that task, which names the cause and each of `words`, and has written nothing.

        :raises PromiseBroken: it is not so.
        """
        run.wait("failed")
        task = run.task(name)
        if task.state != "failed":
            raise PromiseBroken(f"{name} is {task.state}, and should have refused: {cause}")
        said = run.log(task.task_id, task.tries, task.map_index)
        missing = [word for word in (cause, *words) if word not in said]
        if missing:
            raise PromiseBroken(f"the log of {name} does not say {missing}:\n{said[-4000:]}")
        moved = {p: o for p, o in self.committed().items() if o != run.group_before.get(p)}
        if not set(moved.items()) <= self.by_hand:
            raise PromiseBroken(f"{name} refused, but the group went from {run.group_before} to {moved}")
        own = run.batch
        others = {key: rows for key, rows in self.rows().items() if key != own}
        if others != {key: rows for key, rows in run.rows_before.items() if key != own}:
            raise PromiseBroken(f"{name} refused, but the output of other batches has changed: {others}")
        self.refusals.append(cause)

    def numbers(self) -> list[int]:
        """The values in the whole output."""
        return [int(value) for value in self.table()["value"].to_pylist()]

    # ── the end ──

    def check(self) -> str:
        """The promise, in words.

        :raises PromiseBroken: it is not kept.
        """
        found, rows = self.numbers(), self.table().select(["topic", "partition", "offset"])
        expected = set(range(self.produced)) - self.gone
        missing, twice = sorted(expected - set(found)), len(found) - len(set(found))
        if missing or twice or not set(found) <= expected:
            unexpected = sorted(set(found) - expected)
            raise PromiseBroken(
                f"missing {len(missing)} {missing[:5]}, twice {twice}, unexpected {unexpected[:5]}: {self.rows()}"
            )
        different = rows.group_by(rows.column_names).aggregate([]).num_rows
        if different != rows.num_rows and not self.logs_replaced:
            raise PromiseBroken(f"{rows.num_rows} rows of {different} offsets: {self.rows()}")
        ends = {partition: high for partition, (_, high) in self.broker.offset_bounds(self.topic).items()}
        committed = self.committed()
        if committed != ends:
            raise PromiseBroken(f"the group is at {committed}, the log ends at {ends}")
        unverified = self.watcher.unverified(self.by_hand)
        if unverified:
            raise PromiseBroken("\n".join(unverified))
        foreign = self.watcher.by_others() - self.by_hand
        if foreign:
            raise PromiseBroken(f"somebody else committed: {foreign}")
        group = f"group at {sorted(ends.values())}, {self.watcher.looks} looks at it"
        return f"{len(found)} records once each in the output folder, {group}"

    def close(self) -> None:
        self.proxy.disarm()
        self.ground.s3.disarm()
        self.watcher.stop()
        self._raw.close()


__all__ = ["Ground", "NotFired", "PromiseBroken", "Run", "Scene", "ground"]
