"""A whole run in a real scheduler, beside a bare ``SparkSubmitOperator`` over the same new records.

``python -m benchmarks.run_overhead`` (``make bench-tasks``) starts a broker and an Airflow (LocalExecutor, PostgreSQL,
the scheduler's default pace). In each round 100,000 records come, and each DAG of ``benchmarks/dags`` reads them: the
bare task is told where they are; ``KafkaSparkBatchOperator`` resolves, submits and commits in one task;
``kafka_spark_batch`` also waits, and has a task for each. Both do so cold, with the fast start of the driver, and over
Spark Connect. All write Delta tables, and all write Iceberg tables. Times are those of Airflow's database: of all tasks
of a run together, and from the run's start to its end. Between two tasks a scheduler of the default pace may sleep for
a second. So one task has to take no longer than the group without the times between its tasks.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

from benchmarks.measured import Run, Way, options, ratio, say, show, take_turns, within
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
FROM_START_TO_END, BETWEEN = "from start to end", "between tasks"
AT_MOST = {"cold_group": None, "cold_one": (0.75, 0.8), "warm_group": None, "warm_one": (0.35, 0.4)}
"""Times the bare task: all tasks of a run, and from its start to its end."""
DEFAULT_PACE = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "5",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "120",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "300",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "300",
}


def main() -> int:
    parser = options(__doc__, rounds=6)
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
    rows = [row(way, by_name) for way in ways]
    columns = (
        f"{asked.records:,} new records",
        *("all tasks, s", "quartiles", "times bare", "at most"),
        *("from start to end, s", "between tasks, s", "times bare", "at most"),
        *("times the group without what is between its tasks", "at most"),
    )
    sentence = (
        "The group has three more tasks, before each of which Airflow's scheduler may sleep for a second. Over Spark "
        "Connect no JVM has to start."
    )
    title = "A whole run beside a bare Spark task"
    show("run_overhead", title, columns, rows, sentence, "apache-airflow", "pyspark", write=asked.write)
    return 0


def _tables(folder: str) -> dict[str, str]:
    return {**TABLES, "spark.sql.catalog.lake.warehouse": f"{folder}/iceberg"}


def _server_settings(folder: str) -> dict[str, str]:
    return {"spark.master": "local[1]", "spark.databricks.delta.snapshotPartitions": "1", **_tables(folder)}


def row(way: Way, ways: Mapping[str, Way]) -> tuple[str, ...]:
    kind, _, name = way.name.partition("_")
    whole = {name: whole_of(way) for name, way in ways.items()}
    own, of_bare = whole[way.name], whole[f"{kind}_{BARE}"]
    cells = [f"`{way.name}`", f"{way.median_s:.1f}", way.spread, f"{way.times(ways[f'{kind}_{BARE}']):.2f}", ""]
    cells += [f"{statistics.median(own):.1f}", f"{way.part_s(BETWEEN):.1f}", f"{ratio(own, of_bare):.2f}", "", "", ""]
    if (most := AT_MOST.get(name)) is not None:
        group = ways[f"{kind}_{name.partition('_')[0]}_group"]
        without = [all_s - run.parts[BETWEEN] for all_s, run in zip(whole[group.name], group.runs, strict=True)]
        cells[4] = within(way.times(ways[f"{kind}_{BARE}"]), most[0])
        cells[8] = within(ratio(own, of_bare), most[1])
        cells[9:] = [f"{ratio(own, without):.2f}", within(ratio(own, without), 1.0)]
    return tuple(cells)


def whole_of(way: Way) -> list[float]:
    """From start to end, of each round."""
    return [run.parts[FROM_START_TO_END] for run in way.runs]


def a_run(airflow: StandaloneAirflow, broker: KafkaBroker, dag_id: str, records: int) -> Callable[[Run], None]:
    def do(run: Run) -> None:
        ends = {partition: end for partition, (_, end) in broker.offset_bounds(TOPIC).items()}
        starts = {str(partition): end - records // PARTITIONS for partition, end in ends.items()}
        run_id = airflow.trigger(dag_id, {"starting_offsets": json.dumps({TOPIC: starts})})
        state = airflow.wait_for_run(dag_id, run_id, deadline_s=600.0)
        assert state == "success", airflow.tasks(dag_id, run_id)
        of_run = "select start_date, end_date from {} where dag_id = :dag and run_id = :run order by start_date"
        (whole,) = rows_of(airflow.database, of_run.format("dag_run"), dag=dag_id, run=run_id)
        tasks = rows_of(airflow.database, of_run.format("task_instance"), dag=dag_id, run=run_id)
        run.seconds = sum((end - start).total_seconds() for start, end in tasks)
        between = sum((then - end).total_seconds() for (_, end), (then, _) in pairwise(tasks))
        run.parts = {FROM_START_TO_END: (whole[1] - whole[0]).total_seconds(), BETWEEN: between}

    return do


if __name__ == "__main__":
    sys.exit(main())
