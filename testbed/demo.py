"""`make demo`: the main job on real parts, and a check of its promise that can fail.

A real broker (or the user's, `KAFKA_BOOTSTRAP_SERVERS`), real Airflow running the DAGs in `dags/`, real Spark. What is
said at the end is counted from the files of the outputs and from Kafka itself, not from what the package reports.
With `UI=1` Airflow's pages show the runs afterwards, until Ctrl-C.
"""

import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import rmtree

from confluent_kafka import KafkaException

from testbed import airflow_home, jars
from testbed.broker import BrokerFailed, KafkaBroker
from testbed.checks import committed_offsets, duplicated_or_missing, files_of_newest_batch, most_attempts, rows_by_batch
from testbed.dag_runs import RunResult, load_dag, output_to, run_dag
from testbed.demo_ui import USER, AirflowUi
from testbed.hours_demo import AT_ONCE, HoursOfADay
from testbed.java import Java, JavaMissing, find_java
from testbed.postgres import Postgres, PostgresFailed
from testbed.spark import SHORT_JOBS, spark_conf, spark_env
from testbed.spark_killer import SparkKiller, end_children
from testbed.standalone import AirflowFailed, StandaloneAirflow
from testbed.topics import Topics
from testbed.typed_demo import TypedOrders

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS, FILLED = 6, 5  # the sixth partition stays empty
FIRST, MORE, KILLED, REJECTED, LATER = 60_000, 20_000, 24_000, 12_000, 8_000


class DemoFailed(Exception):
    """The demo ran and did not show what it promises."""


class Demo:
    """One demonstration: its cluster, topics, groups and DAGs, and the tables that are printed at the end."""

    def __init__(self, kafka: Topics, embedded: bool, folder: Path) -> None:
        self.kafka, self.embedded, self.folder = kafka, embedded, folder
        self.name = f"kafka-offsets-demo-{uuid.uuid4().hex[:8]}"
        self.output, self.table, self.by_hour = (folder / name for name in ("output", "typed_orders", "by_hour"))
        self.checkpoint_location = folder / "airflow" / "kafka_offsets"
        self.log = folder / "demo.log"
        self.environment: dict[str, str] = {}
        self.produced = 0
        self.rows: list[tuple[str, ...]] = []

    def run(self, java: Java, stack: ExitStack) -> None:
        self._start_airflow(java)
        if not self.embedded:
            stack.callback(self._clean_up)
        self._plain_runs()
        typed = TypedOrders(self.kafka, self._topic("json"), self.table, self._typed_run)
        step(f"Topic {typed.topic}: JSON orders")
        self.kafka.create_topic(typed.topic, PARTITIONS)
        typed.run()
        hours = HoursOfADay(self.kafka, self._topic("hours"), self.by_hour, step)
        step(f"Topic {hours.topic}: a day of records; an Airflow with a scheduler runs a window for each hour")
        self.kafka.create_topic(hours.topic, PARTITIONS)
        _stop_on_signals(stack)  # Airflow has put handlers of its own in their place, in the runs above
        hours.run(self._scheduler(java, stack, hours.topic))
        self._conclude()
        for rows, wrong in ((typed.rows, typed.wrong()), (hours.rows, hours.wrong())):
            print()
            print_table(rows)
            print()
            for claim, otherwise in wrong.items():
                check(claim, not otherwise, otherwise)

    def _plain_runs(self) -> None:
        step(f"Topic {self.name}: {PARTITIONS} partitions, one of them empty; {FIRST:,} records")
        self.kafka.create_topic(self.name, PARTITIONS)
        self._produce(FIRST)
        self._plain_run("1: everything", expected=FIRST)
        self._produce(MORE)
        self._plain_run("2: what is new", expected=MORE)
        self._plain_run("3: nothing new", expected=0, jobs=0)
        self._produce(KILLED)
        self._killed_run("4: Spark killed half-way, retried")
        self._produce(REJECTED)
        self._rejected_run("5: a check after Spark fails", expected=REJECTED)
        self._produce(LATER)
        self._plain_run("6: does that batch again", expected=0)
        self._plain_run("7: what has come since", expected=LATER)

    def _topic(self, of: str) -> str:
        return f"{self.name}-{of}"

    def _clean_up(self) -> None:
        topics = [self.name, self._topic("json"), self._topic("hours")]
        step(f"Deleting topics {', '.join(topics)} from your cluster (their groups expire by themselves)")
        for topic in topics:
            if self.kafka.offset_bounds(topic):
                self.kafka.delete_topic(topic)

    def _start_airflow(self, java: Java) -> None:
        spark = spark_conf([*jars.spark_jars(java, step), *jars.delta_jars(java, step)])
        json = self._topic("json")
        variables = {
            "topics": self.name,
            "group": self.name,
            "output": str(self.output),
            "json_topic": json,
            "json_group": json,
            "table": str(self.table),
        }
        self.environment = {
            **airflow_home.connections(self.kafka.client_config),
            **spark_env(java),
            **SHORT_JOBS,
            **airflow_home.spark_defaults(self.folder / "spark", spark),
        }
        os.environ.update(
            {
                **airflow_home.settings_for(self.folder / "airflow", ROOT / "dags"),
                **airflow_home.variables({f"kafka_offsets_{name}": value for name, value in variables.items()}),
                "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
                **self.environment,
            }
        )
        step("Airflow: a home of its own, metadata database")
        airflow_home.migrate(os.environ)

    def _scheduler(self, java: Java, stack: ExitStack, topic: str) -> StandaloneAirflow:
        variables = {"kafka_offsets_topics": topic, "kafka_offsets_backfill_output": str(self.by_hour)}
        environment = {**self.environment, **airflow_home.variables(variables), **AT_ONCE}
        database = stack.enter_context(Postgres(java, step)).new_database()
        dags = self.folder / "dags"
        dags.mkdir()
        (dags / "backfill_by_timestamp.py").symlink_to(ROOT / "dags" / "backfill_by_timestamp.py")
        return stack.enter_context(StandaloneAirflow(self.folder / "scheduler", [dags], database, environment))

    def _produce(self, count: int) -> None:
        first = self.produced
        self.kafka.produce_many(self.name, count, partitions=FILLED, value=lambda n: str(first + n).encode())
        self.produced += count

    def _airflow_run(self, title: str, conf: Mapping[str, object], name: str = "hourly_batch") -> RunResult:
        step(f"Run {title}")
        with output_to(self.log):
            return run_dag(load_dag(ROOT / "dags" / f"{name}.py", f"kafka_{name}"), conf=conf)

    def _typed_run(self, title: str, conf: dict[str, object]) -> RunResult:
        result = self._airflow_run(title, conf, "typed_orders")
        if result.state != "success":
            raise DemoFailed(f"run {title} ended as {result.state}: {result.tasks}; see {self.log}")
        return result

    def _plain_run(self, title: str, *, expected: int, jobs: int = 1) -> None:
        before = sum(rows_by_batch(self.output).values())
        result = self._airflow_run(title, {})
        if result.state != "success":
            raise DemoFailed(f"run {title} ended as {result.state}: {result.tasks}; see {self.log}")
        rows = self._row(title, result, before)
        started = result.states("orders.spark").count("success")
        if (started, rows) != (jobs, expected):
            was = f"{started} Spark jobs and {rows} rows more, expected {jobs} and {expected}"
            raise DemoFailed(f"run {title}: {was}; see {self.log}")

    def _rejected_run(self, title: str, *, expected: int) -> None:
        committed, before = self._committed(), sum(rows_by_batch(self.output).values())
        result = self._airflow_run(title, {"reject": True})
        if result.state != "failed" or result.states("check") != ["failed"]:
            raise DemoFailed(f"run {title} ended as {result.state}: {result.tasks}; see {self.log}")
        if self._committed() != committed:
            raise DemoFailed(f"run {title}: the group moved although the check failed")
        rows = self._row(title, result, before)
        if rows != expected:
            raise DemoFailed(f"run {title}: {rows} rows more, expected {expected}; see {self.log}")
        step("  its rows are in the output and nothing was committed; the next run does that batch again")

    def _committed(self) -> dict[int, int]:
        return committed_offsets(self.kafka, self.name, self.name)

    def _killed_run(self, title: str) -> None:
        rows_before, before = sum(rows_by_batch(self.output).values()), self._committed()
        killer = SparkKiller(self.output, on_kill=self._committed)
        with killer:
            result = self._airflow_run(title, {"min_partitions": 32})
        kill = killer.kill
        if kill is None:
            raise DemoFailed(f"run {title}: Spark had finished before it could be killed; see {self.log}")
        files = files_of_newest_batch(self.output)
        step(f"  killed when its first task had written {kill.first_file}, {kill.files} of {files} files in all")
        if not 1 <= kill.files < files:
            raise DemoFailed(f"run {title}: killed after {kill.files} of {files} files, which shows nothing")
        if kill.seen != before:
            raise DemoFailed(f"run {title}: the group moved before the reads were verified: {before} → {kill.seen}")
        spark = next(task for task in result.tasks if task.task_id == "orders.spark")
        if result.state != "success" or spark.tries != 2:
            raise DemoFailed(f"run {title} ended as {result.state} after {spark.tries} tries; see {self.log}")
        batch, attempts = most_attempts(self.checkpoint_location)
        if attempts != 2:
            raise DemoFailed(f"run {title}: {batch} was begun {attempts} times, expected 2; see {self.log}")
        step(f"  nothing was committed; Airflow's retry did {batch} again, the same ranges")
        self._row(title, result, rows_before)

    def _row(self, title: str, result: RunResult, before: int) -> int:
        """How many rows a reader of the whole output folder finds more than ``before`` the run."""
        jobs = sum(task.tries for task in result.tasks if task.task_id == "orders.spark" and task.state == "success")
        total, committed = sum(rows_by_batch(self.output).values()), sum(self._committed().values())
        counts = (jobs, total - before, total, committed, self.produced)
        self.rows.append((title, *(f"{count:,}" for count in counts)))
        return total - before

    def _conclude(self) -> None:
        print()
        print_table([("run", "Spark jobs", "rows more", "rows in all", "committed", "produced"), *self.rows])
        print()
        missing, duplicated = duplicated_or_missing(self.output, self.produced)
        ends = {number: end for number, (_, end) in self.kafka.offset_bounds(self.name).items()}
        committed = self._committed()
        check(f"every one of {self.produced:,} records is in the output folder", not missing, f"{missing} are missing")
        check("none is there twice", not duplicated, f"{duplicated} are")
        check(f"the group's committed offsets are the log's ends {ends}", committed == ends, f"they are {committed}")


def main(folder: Path = ROOT / ".demo") -> int:
    """Run it in `folder`, which is emptied first; the exit status says whether everything was as promised."""
    started = time.monotonic()
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    failures = (DemoFailed, JavaMissing, jars.JarsMissing, BrokerFailed, AirflowFailed, PostgresFailed, TimeoutError)
    try:
        with ExitStack() as stack:
            _stop_on_signals(stack)
            stack.callback(end_children)
            java = find_java(step)
            step(f"Java {java.major} at {java.home}")
            kafka, embedded = stack.enter_context(_cluster(java, folder))
            Demo(kafka, embedded, folder).run(java, stack)
            if os.environ.get("UI") == "1":
                _show(folder / "airflow", stack)
    except failures as error:
        print(f"\nThe demo FAILED: {error}", file=sys.stderr)
        return 1
    print(f"\nDone in {time.monotonic() - started:.0f} s. Output, plans and logs: {os.path.relpath(folder)}/")
    return 0


def _show(home: Path, stack: ExitStack) -> None:
    """Airflow's pages, until a signal ends the demo."""
    step("Airflow: an api-server with the demo's runs")
    ui = stack.enter_context(AirflowUi(home))
    _stop_on_signals(stack, status=0)
    print(f"\nAirflow: {ui.address}\nUser {USER}, password {ui.password}. Ctrl-C ends it all.", flush=True)
    ui.wait()


def _stop_on_signals(stack: ExitStack, status: int | None = None) -> None:
    """End everything and leave, right in the handler: Airflow takes a KeyboardInterrupt for a task's failure.

    :param status: of this process then; by default the one that says which signal it was.
    """
    terminal = os.dup(2)  # standard error itself goes to the log while a DAG runs

    def stop(number: int, _: object) -> None:
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_IGN)
        stack.close()
        os.write(terminal, b"\nStopped; nothing is left running.\n")
        os._exit(128 + number if status is None else status)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


@contextmanager
def _cluster(java: Java, folder: Path) -> Iterator[tuple[Topics, bool]]:
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if servers:
        step(f"Kafka: yours, at {servers}")
        theirs = Topics(servers)
        try:
            theirs.admin().list_topics(timeout=10)
        except KafkaException as error:
            raise DemoFailed(f"no broker answers at KAFKA_BOOTSTRAP_SERVERS={servers}: {error.args[0].str()}") from None
        yield theirs, False
        return
    step("Kafka: one KRaft broker on free ports")
    with KafkaBroker(folder / "kafka", java=java, say=step) as broker:
        yield broker, True


def step(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {message}", flush=True)


def check(claim: str, holds: bool, otherwise: str) -> None:
    print(f"  {'ok' if holds else 'NOT SO'}: {claim}" + ("" if holds else f": {otherwise}"))
    if not holds:
        raise DemoFailed(claim)


def print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *numbers = row
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]
        print("  " + "   ".join(cells))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
