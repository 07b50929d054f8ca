"""What ``kafka_spark_batch`` adds to a bare Spark task in a real scheduler: ``python -m benchmarks.run_overhead``.

It starts a broker and an Airflow (LocalExecutor, PostgreSQL, the scheduler's default pace) and runs the DAGs of
``benchmarks/dags`` in turns, over the same new records: a bare Spark task that is told where they are, one with a query
of Structured Streaming under ``availableNow``, which keeps its offsets in a checkpoint, this package's with and without
a fast start, and this package's for one small topic and for ten, each into an output of its own. Of each task instance
it takes the times from the metadata database, and from callbacks when ``execute`` begins: what is before that is
Airflow's, and so is the time between two tasks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measured import say, spread, title
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.jars import spark_jars
from testbed.java import find_java
from testbed.postgres import Postgres, rows_of
from testbed.spark import spark_conf, spark_env
from testbed.standalone import StandaloneAirflow

HERE = Path(__file__).resolve().parent
TOPIC, PARTITIONS = "orders", 2
SMALL_TOPICS, OF_A_SMALL_ONE = 10, 1_000
BARE, STREAM, BATCH, NOT_FAST, ONE, TEN = (
    f"overhead_{name}" for name in ("bare", "stream", "batch", "batch_without_fast_start", "one_topic", "ten_topics")
)
DEFAULT_PACE = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "5",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "120",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "300",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "300",
}
OWN = ("wait_for_partitions", "resolve", "commit")
Parts = dict[tuple[str, str], float]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=100_000, help="new ones in each round")
    options = parser.parse_args()
    rounds = options.rounds
    java = find_java(say)
    parts: dict[str, list[Parts]] = {dag_id: [] for dag_id in (BARE, STREAM, BATCH, NOT_FAST, ONE, TEN)}
    small = [f"small_{number}" for number in range(SMALL_TOPICS)]
    with (
        tempfile.TemporaryDirectory(prefix="bench-overhead-") as folder_name,
        KafkaBroker(java=java) as broker,
        Postgres(java, say) as postgres,
    ):
        folder = Path(folder_name)
        marks = folder / "marks"
        for topic, partitions in {TOPIC: PARTITIONS, **dict.fromkeys(small, 1)}.items():
            broker.create_topic(topic, partitions)
        environment = {
            **airflow_home.connections(broker.client_config, spark_master="local[1]"),
            **spark_env(java),
            **airflow_home.spark_defaults(folder / "spark", spark_conf(spark_jars(java))),
            **DEFAULT_PACE,
            "PYTHONPATH": str(HERE.parent),
            "OVERHEAD_TOPIC": TOPIC,
            "OVERHEAD_SMALL_TOPICS": " ".join(small),
            "OVERHEAD_OUTPUT": str(folder / "output"),
            "OVERHEAD_MARKS": str(marks),
            "OVERHEAD_JOBS": str(HERE / "jobs"),
            "OVERHEAD_SERVERS": broker.bootstrap_servers,
        }
        with StandaloneAirflow(folder / "airflow", [HERE / "dags"], postgres.new_database(), environment) as airflow:
            airflow.wait_for_dag(BATCH)
            for number in range(rounds + 1):
                say("to warm up" if number == 0 else f"round {number} of {rounds}")
                starts = {str(each): number * options.records // PARTITIONS for each in range(PARTITIONS)}
                broker.produce_many(TOPIC, options.records, partitions=PARTITIONS)
                for topic in small:
                    broker.produce_many(topic, OF_A_SMALL_ONE)
                for dag_id, found in parts.items():
                    run_id = airflow.trigger(dag_id, {"starting_offsets": json.dumps({TOPIC: starts})})
                    state = airflow.wait_for_run(dag_id, run_id, deadline_s=600.0)
                    assert state == "success", airflow.tasks(dag_id, run_id)
                    if number:
                        found.append(_parts(airflow.database, marks, dag_id, run_id))
    print(title("What a whole run adds to a bare Spark task", "apache-airflow", "pyspark"))
    print(
        f"Each round brings {options.records:,} records, which each of the first four runs reads. The last two read "
        f"{OF_A_SMALL_ONE:,} records of one topic, and of each of {SMALL_TOPICS} topics into outputs of their own.\n"
    )
    _print(parts)
    return 0


def _parts(database: str, marks: Path, dag_id: str, run_id: str) -> Parts:
    """Seconds of each task and part; of task ``""`` the whole run, from its start to its end."""
    begins = {
        task: at
        for run, task, what, at in map(json.loads, marks.read_text().splitlines())
        if (run, what) == (run_id, "begins")
    }
    keys = {"dag": dag_id, "run": run_id}
    of_run = "where dag_id = :dag and run_id = :run"
    times = f"select task_id, queued_dttm, start_date, end_date from task_instance {of_run} order by start_date"
    ((run_start, run_end),) = rows_of(database, f"select start_date, end_date from dag_run {of_run}", **keys)
    found: Parts = {}
    before = run_start.timestamp()
    for task_id, *moments in rows_of(database, times, **keys):
        queued, start, end = (moment.timestamp() for moment in moments)
        found[task_id, "until queued"] = queued - before
        found[task_id, "until started"] = start - queued
        found[task_id, "until execute"] = begins[task_id] - start
        found[task_id, "execute"] = end - begins[task_id]
        before = end
    found["", "until the run's end"] = run_end.timestamp() - before
    found["", "whole run"] = (run_end - run_start).total_seconds()
    return found


def _print(parts: Mapping[str, list[Parts]]) -> None:
    def median(dag_id: str, task: str, part: str) -> float:
        return statistics.median(one[task, part] for one in parts[dag_id])

    steps = ("until queued", "until started", "until execute", "execute")
    print("| run | task | until queued, s | until started, s | until `execute`, s | `execute`, s | quartiles |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for dag_id, found in parts.items():
        for task in dict.fromkeys(task for task, _ in found[0] if task):
            low, high = spread([one[task, "execute"] for one in found])
            cells = " | ".join(f"{median(dag_id, task, step):.2f}" for step in steps)
            print(f"| {dag_id.removeprefix('overhead_')} | {task} | {cells} | {low:.2f} to {high:.2f} |")
    whole = {dag_id: median(dag_id, "", "whole run") for dag_id in parts}
    for dag_id, found in parts.items():
        low, high = spread([one["", "whole run"] for one in found])
        print(f"\n{dag_id.removeprefix('overhead_')}: {whole[dag_id]:.1f} s ({low:.1f} to {high:.1f}).")
    executes = sum(median(BATCH, task, "execute") for task in OWN)
    around = sum(median(BATCH, task, step) for task in OWN for step in steps[:3])
    print(
        f"\nOf `batch`, `execute` of the three own tasks takes {executes:.2f} s, Airflow around them {around:.1f} s.\n"
    )
    print("| beside | the whole run takes | promised |\n|---|---:|---:|")
    for what, other, most in ((BATCH, BARE, 1.0), (NOT_FAST, BARE, 1.1), (BATCH, STREAM, None), (TEN, ONE, 2.0)):
        names = " beside ".join(f"`{dag_id.removeprefix('overhead_')}`" for dag_id in (what, other))
        print(f"| {names} | {whole[what] / whole[other]:.2f} times | {most or ''} |")


if __name__ == "__main__":
    sys.exit(main())
