"""A whole run in a real scheduler, beside a bare ``SparkSubmitOperator`` over the same new records.

``python -m benchmarks.run_overhead`` (``make bench-tasks``) starts a broker and an Airflow (LocalExecutor, PostgreSQL,
the scheduler's default pace). In each round 100,000 records come, and each DAG of ``benchmarks/dags`` reads them: the
bare task is told where they are; ``kafka_spark_batch`` waits, resolves, submits and commits, with the fast start of the
driver and without it, and over Spark Connect. All write Delta tables, and all write Iceberg tables. Times are those of
Airflow's database: of all tasks of a run together, and from the run's start to its end. Between two tasks a scheduler
of the default pace may sleep for a second, so the second is also a number of its looks.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.measured import Run, Way, options, say, show, take_turns, within
from benchmarks.outputs import TABLES
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.jars import delta_jars, iceberg_jars, spark_jars
from testbed.java import find_java
from testbed.postgres import Postgres, rows_of
from testbed.spark import spark_conf, spark_env, write_class_archive
from testbed.spark_connect import SparkConnectServer
from testbed.standalone import StandaloneAirflow

HERE = Path(__file__).resolve().parent
TOPIC, PARTITIONS, BARE = "orders", 2, "bare"
SPARK_TASK, FROM_START_TO_END = "spark", "from start to end"
AT_MOST = {"cold_fast": 0.8, "cold": 1.05, "warm": 0.4}
DEFAULT_PACE = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "5",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "120",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "300",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "300",
}


def main() -> int:
    parser = options(__doc__, rounds=5)
    parser.add_argument("--records", type=int, default=100_000, help="new ones in each round")
    asked = parser.parse_args()
    java = find_java(say)
    write_class_archive(spark_env(java))
    connectors = [*spark_jars(java, say), *delta_jars(java, say), *iceberg_jars(java, say)]
    with (
        tempfile.TemporaryDirectory(prefix="bench-overhead-") as name,
        KafkaBroker(java=java, say=say) as broker,
        Postgres(java, say) as postgres,
        SparkConnectServer(java, connectors, _server_settings(name), jvm={}) as connect,
    ):
        folder = Path(name)
        broker.create_topic(TOPIC, PARTITIONS)
        (folder / "output").mkdir()
        environment = {
            **airflow_home.connections(broker.client_config, spark_master="local[1]"),
            **spark_env(java),
            "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": json.dumps({"conn_type": "spark_connect", "host": connect.remote}),
            **airflow_home.spark_defaults(folder / "spark", spark_conf(connectors) | _tables(name)),
            **DEFAULT_PACE,
            "PYTHONPATH": str(HERE.parent),
            "OVERHEAD_TOPIC": TOPIC,
            "OVERHEAD_OUTPUT": str(folder / "output"),
            "OVERHEAD_JOB": str(HERE / "jobs" / "read_topic.py"),
            "OVERHEAD_SERVERS": broker.bootstrap_servers,
        }
        with StandaloneAirflow(folder / "airflow", [HERE / "dags"], postgres.new_database(), environment) as airflow:
            dag_ids = [f"{kind}_{way}" for kind in ("delta", "iceberg") for way in (BARE, *AT_MOST)]
            ways = [Way(dag_id, a_run(airflow, broker, dag_id, asked.records)) for dag_id in dag_ids]
            for way in ways:
                airflow.wait_for_dag(way.name)
            take_turns(
                ways, asked.rounds, before=lambda: broker.produce_many(TOPIC, asked.records, partitions=PARTITIONS)
            )
    by_name = {way.name: way for way in ways}
    rows = [row(way, by_name[f"{way.name.partition('_')[0]}_{BARE}"]) for way in ways]
    columns = (
        f"{asked.records:,} new records",
        *("all tasks, s", "quartiles", "the Spark task, s", "times bare", "at most"),
        *("from start to end, s", "times bare"),
    )
    sentence = (
        "Beside the Spark task a whole run waits, resolves and commits: three more tasks of Airflow, before each of "
        "which its scheduler may sleep for a second. Over Spark Connect no JVM has to start."
    )
    title = "A whole run beside a bare Spark task"
    show("run_overhead", title, columns, rows, sentence, "apache-airflow", "pyspark", write=asked.write)
    return 0


def _tables(folder: str) -> dict[str, str]:
    return {**TABLES, "spark.sql.catalog.lake.warehouse": f"{folder}/iceberg"}


def _server_settings(folder: str) -> dict[str, str]:
    return {"spark.master": "local[1]", "spark.databricks.delta.snapshotPartitions": "1", **_tables(folder)}


def row(way: Way, bare: Way) -> tuple[str, ...]:
    times = ("", "")
    if way is not bare:
        times = f"{way.times(bare):.2f}", within(way.times(bare), AT_MOST[way.name.partition("_")[2]])
    whole, of_bare = way.part_s(FROM_START_TO_END), bare.part_s(FROM_START_TO_END)
    return (
        *(f"`{way.name}`", f"{way.median_s:.1f}", way.spread, f"{way.part_s(SPARK_TASK):.1f}", *times),
        *(f"{whole:.1f}", f"{whole / of_bare:.2f}"),
    )


def a_run(airflow: StandaloneAirflow, broker: KafkaBroker, dag_id: str, records: int) -> Callable[[Run], None]:
    def do(run: Run) -> None:
        ends = {partition: end for partition, (_, end) in broker.offset_bounds(TOPIC).items()}
        starts = {str(partition): end - records // PARTITIONS for partition, end in ends.items()}
        run_id = airflow.trigger(dag_id, {"starting_offsets": json.dumps({TOPIC: starts})})
        state = airflow.wait_for_run(dag_id, run_id, deadline_s=600.0)
        tasks = airflow.tasks(dag_id, run_id)
        assert state == "success", tasks
        query = "select start_date, end_date from dag_run where dag_id = :dag and run_id = :run"
        ((started, ended),) = rows_of(airflow.database, query, dag=dag_id, run=run_id)
        seconds = {task.task_id: task.seconds or 0.0 for task in tasks}
        run.seconds = sum(seconds.values())
        run.parts = {SPARK_TASK: seconds[SPARK_TASK], FROM_START_TO_END: (ended - started).total_seconds()}

    return do


if __name__ == "__main__":
    sys.exit(main())
